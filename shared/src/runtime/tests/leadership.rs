//! Who works: one of several replicas, and never two.

use std::time::Duration;

use tokio::time::Instant;

use super::process::{DB, LEASE, MAP, holder, seconds, start, start_as, until, with_database};

#[tokio::test(start_paused = true)]
async fn of_two_replicas_one_works_and_the_other_takes_over_when_it_is_killed() {
    let fake = with_database();
    let (first, second) = (start_as(&fake, "pod-a"), start_as(&fake, "pod-b"));
    seconds(30).await;
    let (leader, standby) = if holder(&fake) == "pod-a_1" {
        (first, second)
    } else {
        (second, first)
    };
    assert_eq!(standby.passes_of("orders"), 0);
    let (code, text) = standby.get("/readyz").await;
    assert!(
        code == 200 && text.contains("standby; the leader is pod-"),
        "{text}"
    );
    leader.run.abort();
    let before = Instant::now();
    until("the standby works", || standby.passes_of("orders") > 0).await;
    let took = before.elapsed();
    assert!(
        took >= Duration::from_secs(10) && took <= Duration::from_secs(21),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_told_to_end_gives_the_lease_back_and_the_other_goes_on_within_seconds() {
    let fake = with_database();
    let leader = start_as(&fake, "pod-a");
    seconds(7).await;
    let standby = start_as(&fake, "pod-b");
    seconds(7).await;
    leader.stop.cancel();
    leader.run.await.unwrap().unwrap();
    assert_eq!(holder(&fake), "");
    seconds(6).await;
    assert!(standby.passes_of("orders") > 0);
    assert_eq!(holder(&fake), "pod-b_1");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_ends_before_another_may_take_over() {
    let fake = with_database();
    let leader = start(&fake);
    seconds(7).await;
    fake.refuse(|method, path| (method == "PUT" && path.contains("/leases/")).then_some(500));
    let before = Instant::now();
    let error = leader.run.await.unwrap().unwrap_err();
    assert!(
        before.elapsed() < Duration::from_secs(15),
        "{:?}",
        before.elapsed()
    );
    assert!(error.to_string().contains("could not be renewed"), "{error:#}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_on_a_busy_machine_does_not_give_up_while_nobody_can_have_taken_over() {
    let fake = with_database();
    let leader = start(&fake);
    seconds(7).await;
    // Renewed 2 s ago; not run for 10 s.
    tokio::time::advance(Duration::from_secs(10)).await;
    seconds(30).await;
    assert!(!leader.run.is_finished());
    tokio::time::advance(Duration::from_secs(20)).await;
    let error = leader.run.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("not run in time"), "{error:#}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_ends_at_once() {
    let fake = with_database();
    let leader = start(&fake);
    seconds(7).await;
    fake.change(LEASE, |lease| lease["spec"]["holderIdentity"] = "somebody".into());
    let before = Instant::now();
    let error = leader.run.await.unwrap().unwrap_err();
    assert!(
        before.elapsed() <= Duration::from_secs(6),
        "{:?}",
        before.elapsed()
    );
    assert!(error.to_string().contains("somebody took it"), "{error:#}");
    assert_eq!(
        holder(&fake),
        "somebody",
        "and does not give back what is not its own"
    );
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_of_the_api_server_costs_no_leader_and_heals_by_itself() {
    let fake = with_database();
    let process = start(&fake);
    seconds(1).await;
    fake.refuse(|_, _| Some(503));
    fake.break_watches();
    seconds(7).await;
    fake.allow();
    fake.change(DB, |db| db["spec"]["postgres"]["version"] = "18".into());
    seconds(5).await;
    assert!(!process.run.is_finished());
    assert_eq!(fake.get(MAP).unwrap()["data"]["version"], "18");
    seconds(60).await;
    assert_eq!(
        process.get("/readyz").await.1,
        "leading\n",
        "a watch that says nothing is taken for a failing one"
    );
}

#[tokio::test(start_paused = true)]
async fn the_page_says_who_leads() {
    let fake = with_database();
    let process = start(&fake);
    seconds(1).await;
    let (_, page) = process.get("/").await;
    assert!(page.contains("pod-a_1") && page.contains("configmaps"), "{page}");
    assert_eq!(process.get("/livez").await.0, 200);
}
