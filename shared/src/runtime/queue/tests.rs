use proptest::prelude::*;

use super::*;

const DEBOUNCE: Duration = Duration::from_millis(5);
const SPACING: Duration = Duration::from_millis(200);

fn queue(most: usize) -> Queue<u8> {
    Queue::new(most, DEBOUNCE, SPACING, |key| u64::from(*key))
}

fn child(n: u8) -> Cause {
    Cause::Child {
        uid: "c".into(),
        resource_version: n.to_string(),
    }
}

fn pass(queue: &mut Queue<u8>, now: Instant) -> Option<u8> {
    queue.next(now).map(|turn| turn.key)
}

fn failed() -> End {
    End::Failed {
        slow: false,
        again: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_events_costs_one_pass_and_one_more_for_what_came_during_it() {
    let (mut queue, now) = (queue(4), Instant::now());
    for _ in 0..10 {
        queue.wake(&1, Cause::Changed, now);
    }
    assert_eq!(pass(&mut queue, now), Some(1));
    assert_eq!(pass(&mut queue, now), None, "one at a time");
    for _ in 0..10 {
        queue.wake(&1, Cause::Changed, now);
    }
    assert_eq!(pass(&mut queue, now), None);
    queue.finish(&1, End::Done(None), now, |_| true);
    assert_eq!(pass(&mut queue, now), Some(1));
    queue.finish(&1, End::Done(None), now, |_| true);
    assert_eq!(pass(&mut queue, now), None);
    assert!(queue.entries.is_empty(), "nothing is kept of a key at rest");
}

#[tokio::test(start_paused = true)]
async fn what_a_pass_itself_wrote_does_not_wake_it() {
    let (mut queue, now) = (queue(4), Instant::now());
    queue.wake(&1, Cause::Changed, now);
    pass(&mut queue, now);
    queue.wake(&1, child(7), now);
    queue.finish(&1, End::Done(None), now, |cause| *cause != child(7));
    assert_eq!(pass(&mut queue, now + DEBOUNCE), None);
}

#[tokio::test(start_paused = true)]
async fn children_s_events_are_gathered_and_a_change_of_the_spec_is_not_held_up() {
    let (mut queue, now) = (queue(4), Instant::now());
    queue.wake(&1, child(1), now);
    assert_eq!(pass(&mut queue, now), None);
    queue.wake(&2, Cause::Resync, now);
    queue.wake(&3, Cause::Changed, now);
    assert_eq!(pass(&mut queue, now), Some(3), "before what has no reason");
    assert_eq!(pass(&mut queue, now), Some(2));
    assert_eq!(pass(&mut queue, now + DEBOUNCE), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_children_s_events_costs_few_passes_and_a_change_of_the_spec_does_not_wait_for_them() {
    let (mut queue, start) = (queue(4), Instant::now());
    let mut passes = 0;
    for n in 0..100 {
        let now = start + n * Duration::from_millis(10);
        queue.wake(&1, child(n as u8), now);
        while pass(&mut queue, now).is_some() {
            passes += 1;
            queue.finish(&1, End::Done(Some(Duration::from_mins(1))), now, |_| true);
        }
    }
    assert_eq!(passes, 5, "in one second");
    let now = start + Duration::from_secs(1);
    queue.wake(&1, Cause::Changed, now);
    assert_eq!(pass(&mut queue, now), Some(1));
    queue.wake(&1, child(1), now);
    queue.finish(&1, End::Done(None), now, |_| true);
    assert_eq!(pass(&mut queue, now + SPACING), Some(1), "none is forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_failing_object_holds_up_no_other_and_recovers_at_once() {
    let (mut queue, mut now) = (queue(1), Instant::now());
    queue.wake(&1, Cause::Changed, now);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        assert_eq!(pass(&mut queue, now), Some(1));
        queue.finish(&1, failed(), now, |_| true);
        queue.wake(&2, Cause::Changed, now);
        assert_eq!(pass(&mut queue, now), Some(2));
        queue.finish(&2, End::Done(None), now, |_| true);
        let due = queue.due().unwrap();
        pauses.push(due - now);
        now = due;
    }
    assert!(pauses[0] <= Duration::from_millis(125), "{pauses:?}");
    assert!(pauses.iter().all(|p| *p <= backoff::CEILING));
    assert!(pauses.windows(2).take(8).all(|w| w[1] > w[0]), "{pauses:?}");
    assert_eq!(queue.failing(), 1);
    assert_eq!(pass(&mut queue, now), Some(1));
    queue.finish(&1, End::Done(None), now, |_| true);
    queue.wake(&1, Cause::Changed, now);
    assert_eq!(queue.next(now).unwrap().failures, 0);
}

#[tokio::test(start_paused = true)]
async fn events_during_a_pause_do_not_lengthen_it() {
    let (mut queue, mut now) = (queue(1), Instant::now());
    queue.wake(&1, Cause::Changed, now);
    pass(&mut queue, now);
    queue.finish(&1, failed(), now, |_| true);
    for _ in 0..20 {
        now += Duration::from_millis(1);
        queue.wake(&1, Cause::Changed, now);
        assert_eq!(queue.next(now).unwrap().failures, 1);
        queue.finish(&1, failed(), now, |_| true);
    }
    assert!(queue.due().unwrap() - now <= Duration::from_millis(125));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_input_is_not_hammered_but_a_change_of_it_is_seen_at_once() {
    let (mut queue, now) = (queue(1), Instant::now());
    queue.wake(&1, Cause::Changed, now);
    pass(&mut queue, now);
    queue.finish(
        &1,
        End::Failed {
            slow: true,
            again: None,
        },
        now,
        |_| true,
    );
    assert!(queue.due().unwrap() - now >= Duration::from_secs(45));
    queue.wake(&1, Cause::Changed, now);
    assert_eq!(pass(&mut queue, now), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_look_that_was_asked_for_happens() {
    let (mut queue, now) = (queue(1), Instant::now());
    queue.wake(&1, Cause::Changed, now);
    pass(&mut queue, now);
    queue.finish(&1, End::Done(Some(Duration::from_secs(10))), now, |_| true);
    assert_eq!(pass(&mut queue, now + Duration::from_secs(8)), None);
    assert_eq!(pass(&mut queue, now + Duration::from_secs(11)), Some(1));
}

#[derive(Clone, Debug)]
enum Step {
    Wake(u8, u8),
    Take,
    Finish(u8, u8),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..5u8, 0..3u8).prop_map(|(key, cause)| Step::Wake(key, cause)),
        Just(Step::Take),
        (0..5u8, 0..4u8).prop_map(|(key, end)| Step::Finish(key, end)),
        (0..2000u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn nothing_that_was_woken_is_forgotten_and_no_key_is_out_twice(steps in prop::collection::vec(step(), 1..200), most in 1..4usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let _inside = runtime.enter();
        let mut now = Instant::now();
        let mut queue = queue(most);
        let mut out: Vec<u8> = Vec::new();
        let mut owed = std::collections::BTreeSet::new();
        for step in steps {
            match step {
                Step::Wake(key, cause) => {
                    let cause = [Cause::Changed, Cause::Resync, child(key)][usize::from(cause)].clone();
                    queue.wake(&key, cause, now);
                    owed.insert(key);
                }
                Step::Take => if let Some(turn) = queue.next(now) {
                    prop_assert!(!out.contains(&turn.key), "out twice");
                    out.push(turn.key);
                    prop_assert!(out.len() <= most);
                    owed.remove(&turn.key);
                },
                Step::Finish(key, end) => if let Some(at) = out.iter().position(|k| *k == key) {
                    out.remove(at);
                    let end = [End::Done(None), End::Done(Some(Duration::from_secs(1))), failed(), End::Gone][usize::from(end)];
                    queue.finish(&key, end, now, |_| true);
                },
                Step::Pass(ms) => now += Duration::from_millis(ms),
            }
        }
        for key in out.drain(..) {
            queue.finish(&key, End::Done(None), now, |_| true);
        }
        now += backoff::CEILING * 2;
        while let Some(turn) = queue.next(now) {
            owed.remove(&turn.key);
            queue.finish(&turn.key, End::Done(None), now, |_| true);
        }
        now += backoff::CEILING * 2;
        while let Some(turn) = queue.next(now) {
            owed.remove(&turn.key);
            queue.finish(&turn.key, End::Done(None), now, |_| true);
        }
        prop_assert!(owed.is_empty(), "woken and never looked at: {owed:?}");
        prop_assert!(queue.entries.is_empty(), "{:?}", queue.entries);
    }
}
