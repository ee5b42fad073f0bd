//! What holds on every path, and each path by name.

use proptest::prelude::*;
use sampledb_shared::api::election::ElectionPhase;

use super::world::{ME, UID, World, claim, data, opened, state};
use super::{Action, Claim, Refusal, Register, Waiting, blocks};
use crate::control::{Data, Member, Postgres, Resigned};

fn names(actions: &[Action]) -> Vec<&'static str> {
    actions
        .iter()
        .map(|a| match a {
            Action::Write { new, .. } => match new.phase {
                ElectionPhase::Electing => "electing",
                ElectionPhase::Elected => "elected",
                ElectionPhase::Open => "open",
            },
            Action::Remember(m) if m.marked => "marked",
            Action::Remember(_) => "remember",
            Action::Initdb => "initdb",
            Action::Start => "start",
            Action::Establish { database: true } => "establish+database",
            Action::Establish { database: false } => "establish",
            Action::Commit { .. } => "commit",
            Action::Publish { .. } => "publish",
            Action::Wait(_) | Action::Serve | Action::Leave | Action::Refuse(_) => "rest",
        })
        .collect()
}

#[test]
fn a_new_database_opens_in_this_order() {
    let mut world = World::new();
    let (done, end) = world.settle();
    assert_eq!(end, Action::Serve);
    assert_eq!(
        names(&done),
        [
            "electing",
            "remember",
            "elected",
            "remember",
            "initdb",
            "start",
            "establish+database",
            "commit",
            "open",
            "remember",
            "publish"
        ]
    );
    let block = world.block().unwrap();
    assert_eq!((block.rev, block.term, block.timeline), (3, 1, 1));
    assert_eq!(block.position.as_deref(), Some("0/0"));
    assert_eq!(block.sync.owner, ME);
    assert_eq!(block.system_id.as_deref(), Some("7001"));
    let member = world.member().unwrap();
    assert_eq!((member.promised, member.primary_of, member.opened_in), (1, 1, 1));
}

#[test]
fn a_killed_postgres_is_started_in_place_without_a_write_to_the_api() {
    let mut world = opened();
    world.stop_postgres();
    let (done, end) = world.settle();
    assert_eq!(
        (names(&done), end),
        (vec!["start", "establish", "commit"], Action::Serve)
    );
}

#[test]
fn a_replaced_pod_starts_in_place_in_the_same_term() {
    let mut world = opened();
    world.crash(true);
    let (done, end) = world.settle();
    assert_eq!(
        (names(&done), end),
        (vec!["start", "establish", "commit", "publish"], Action::Serve)
    );
    assert_eq!(world.block().unwrap().term, 1);
}

#[test]
fn a_restarted_agent_keeps_the_running_postgres() {
    let mut world = opened();
    world.crash(false);
    assert_eq!(world.authority(), Some(1));
    assert_eq!(names(&world.settle().0), ["establish", "commit", "publish"]);
}

#[test]
fn an_agent_that_restarts_while_electing_takes_a_new_term() {
    let mut world = World::new();
    let action = world.next();
    world.carry_out(&action);
    world.crash(true);
    assert_eq!(world.settle().1, Action::Serve);
    let block = world.block().unwrap();
    assert_eq!((block.term, block.timeline), (2, 1));
    assert!(
        block
            .prev
            .as_ref()
            .is_some_and(|p| p.term == 1 && !p.open && p.primary.is_none())
    );
}

#[test]
fn an_emptied_volume_is_never_initialised_again() {
    let mut world = opened();
    world.crash(true);
    world.state.data = Data::Empty;
    world.state.member = None;
    let (done, end) = world.settle();
    assert_eq!(names(&done), ["marked"]);
    assert!(
        matches!(end, Action::Refuse(Refusal::VolumeLost { .. })),
        "{end:?}"
    );
    assert_eq!(world.authority(), None);
    assert!(world.member().unwrap().promised >= world.block().unwrap().term);
}

#[test]
fn a_silently_replaced_claim_is_a_lost_volume() {
    let mut world = opened();
    world.crash(true);
    world.claim = Claim {
        uid: "claim-2".into(),
        owner: None,
    };
    world.state = state();
    let (done, end) = world.settle();
    assert_eq!(names(&done), ["marked"]);
    assert!(
        matches!(end, Action::Refuse(Refusal::VolumeLost { .. })),
        "{end:?}"
    );
}

#[test]
fn a_copy_on_another_claim_is_not_taken_for_the_volume() {
    let mut world = opened();
    world.crash(true);
    world.claim = claim("claim-2");
    assert!(matches!(
        world.settle().1,
        Action::Refuse(Refusal::VolumeLost { .. })
    ));
    assert_eq!(world.authority(), None);
}

#[test]
fn a_volume_with_another_database_is_refused() {
    let mut world = opened();
    world.crash(true);
    world.state.data = data(99);
    assert_eq!(world.authority(), None);
    assert!(matches!(
        world.settle().1,
        Action::Refuse(Refusal::VolumeLost { .. })
    ));
}

#[test]
fn a_lost_volume_is_refused_even_when_the_register_was_never_written() {
    let mut world = World::new();
    world.initialised = true;
    let (done, end) = world.settle();
    assert!(!names(&done).contains(&"initdb"));
    assert!(matches!(end, Action::Refuse(Refusal::VolumeLost { .. })));
}

#[test]
fn a_damaged_volume_is_not_taken_for_an_empty_one() {
    for mut world in [World::new(), opened()] {
        world.crash(true);
        world.state.data = Data::Unreadable {
            error: "pg_control: bad checksum".into(),
        };
        let (done, end) = world.settle();
        assert!(
            done.is_empty() && matches!(end, Action::Refuse(Refusal::Unreadable { .. })),
            "{done:?} {end:?}"
        );
    }
}

#[test]
fn another_databases_volume_is_not_touched() {
    let mut world = World::new();
    world.claim.owner = Some("uid-b".into());
    world.state.data = data(5);
    assert_eq!(
        world.settle(),
        (
            vec![],
            Action::Refuse(Refusal::ForeignVolume {
                owner: Some("uid-b".into())
            })
        )
    );
}

#[test]
fn data_of_unknown_origin_on_a_claim_without_owner_is_not_touched() {
    let mut world = World::new();
    world.claim.owner = None;
    world.state.data = data(5);
    world.state.member = Some(blocks::member("uid-b", "claim-1"));
    assert_eq!(
        world.settle(),
        (vec![], Action::Refuse(Refusal::ForeignVolume { owner: None }))
    );
}

#[test]
fn an_adopted_volume_is_taken_over_with_its_data_and_timeline() {
    let mut world = World::new();
    world.state.data = Data::Initialised {
        system_id: "42".into(),
        timeline: 4,
        checkpoint: "1/2A".into(),
        major: "17".into(),
    };
    world.state.member = Some(Member {
        promised: 9,
        primary_of: 9,
        opened_in: 9,
        ..blocks::member("uid-old", "claim-1")
    });
    let (done, end) = world.settle();
    assert_eq!(end, Action::Serve);
    assert!(!names(&done).contains(&"initdb"));
    let block = world.block().unwrap();
    assert_eq!(
        (block.term, block.timeline, block.position.as_deref()),
        (1, 4, Some("1/2A"))
    );
    assert_eq!(block.system_id.as_deref(), Some("42"));
    assert_eq!(world.member().unwrap().uid, UID);
}

#[test]
fn a_half_made_first_start_goes_on_where_it_was() {
    let mut world = World::new();
    while world.state.postgres != Postgres::Running {
        let action = world.next();
        world.carry_out(&action);
    }
    world.crash(true);
    let (done, end) = world.settle();
    assert_eq!(end, Action::Serve);
    assert_eq!(
        names(&done),
        [
            "start",
            "establish+database",
            "commit",
            "open",
            "remember",
            "publish"
        ]
    );
}

#[test]
fn a_first_volume_lost_before_the_first_opening_is_made_again() {
    let mut world = World::new();
    while world.state.postgres != Postgres::Running {
        let action = world.next();
        world.carry_out(&action);
    }
    world.crash(true);
    world.claim = claim("claim-2");
    world.state = state();
    assert_eq!(world.settle().1, Action::Serve);
    assert_eq!(world.block().unwrap().term, 2);
    assert_eq!(world.initdbs, 2);
}

#[test]
fn a_register_restored_from_a_backup_is_for_a_person() {
    let mut world = opened();
    world.crash(true);
    world.state.member.as_mut().unwrap().promised = 3;
    assert!(
        matches!(world.settle(), (done, Action::Refuse(Refusal::HistoryMismatch { .. })) if done.is_empty())
    );
    assert_eq!(world.authority(), None);
}

#[test]
fn a_volume_restored_from_before_the_promise_is_for_a_person() {
    let mut world = opened();
    world.crash(true);
    let member = world.state.member.as_mut().unwrap();
    (member.promised, member.primary_of, member.opened_in) = (0, 0, 0);
    assert!(matches!(
        world.settle().1,
        Action::Refuse(Refusal::HistoryMismatch { .. })
    ));
}

#[test]
fn after_a_resignation_the_term_is_never_served_again() {
    let mut world = opened();
    world.state.member.as_mut().unwrap().resigned = Some(Resigned {
        term: 1,
        position: "0/0".into(),
    });
    assert_eq!(world.authority(), None);
    assert!(matches!(world.next(), Action::Refuse(_)));
}

#[test]
fn a_member_among_others_has_no_authority_of_its_own() {
    let mut world = opened();
    let Register::Block(block) = &mut world.register else {
        panic!("no block")
    };
    block.members = vec!["a-0".into(), "a-1".into()];
    assert_eq!(world.authority(), None);
    assert_eq!(world.next(), Action::Wait(Waiting::NotPrimary));
}

#[test]
fn a_failed_start_is_not_repeated_at_once() {
    let mut world = opened();
    world.stop_postgres();
    world.session.hold_until = 1500;
    assert_eq!(world.next(), Action::Wait(Waiting::HoldOff));
}

#[test]
fn an_ending_pod_leads_clients_away_and_keeps_its_authority_until_postgres_stopped() {
    let mut world = opened();
    world.state.ending = true;
    assert_eq!(world.next(), Action::Leave);
    assert_eq!(world.authority(), Some(1));
}

#[derive(Clone, Debug)]
enum Happening {
    Step,
    /// The write reached the register, the answer did not come back.
    LostAnswer,
    AgentCrash,
    PodCrash,
    PostgresCrash,
    VolumeEmptied,
    ClaimReplaced,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        30 => Just(Happening::Step),
        3 => Just(Happening::LostAnswer),
        2 => Just(Happening::AgentCrash),
        2 => Just(Happening::PodCrash),
        2 => Just(Happening::PostgresCrash),
        1 => Just(Happening::VolumeEmptied),
        1 => Just(Happening::ClaimReplaced),
    ];
    proptest::collection::vec(one, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_history_breaks_a_promise(history in happenings()) {
        let mut world = World::new();
        let mut claims = 1;
        for happening in history {
            let action = world.next();
            let before = world.clone();
            match happening {
                Happening::AgentCrash => world.crash(false),
                Happening::PodCrash => world.crash(true),
                Happening::PostgresCrash => world.stop_postgres(),
                Happening::VolumeEmptied => {
                    world.crash(true);
                    world.state = state();
                }
                Happening::ClaimReplaced => {
                    claims += 1;
                    world.crash(true);
                    world.claim = claim(&format!("claim-{claims}"));
                    world.state = state();
                }
                Happening::LostAnswer => {
                    world.carry_out(&action);
                    if matches!(action, Action::Write { .. }) {
                        world.session.candidate = None;
                    }
                }
                Happening::Step => world.carry_out(&action),
            }
            check(&before, &action, &world)?;
        }
    }
}

fn check(before: &World, action: &Action, after: &World) -> Result<(), TestCaseError> {
    if let (Some(old), Some(new)) = (before.block(), after.block()) {
        prop_assert!(
            new.term >= old.term && new.term <= old.term + 1,
            "the term jumped"
        );
        prop_assert!(new == old || new.rev == old.rev + 1, "rev is not the next");
        prop_assert!(new.term != old.term || old.primary.is_none() || new.primary == old.primary);
        prop_assert!(new.term == old.term || new.phase == ElectionPhase::Electing);
        prop_assert!(old.system_id.is_none() || new.system_id == old.system_id);
    }
    prop_assert!(before.block().is_none() || after.block().is_some());
    let opened_before = before.block().is_some_and(|b| b.system_id.is_some());
    match action {
        Action::Initdb => prop_assert!(!opened_before, "initdb over a database that was open"),
        Action::Write { new, .. } if new.phase == ElectionPhase::Open => {
            prop_assert_eq!(
                before.member().map(|m| m.primary_of),
                Some(new.term),
                "open before primaryOf"
            );
            prop_assert_eq!(
                before.session.committed,
                Some(new.term),
                "open before a committed write"
            );
            prop_assert_eq!(&before.state.postgres, &Postgres::Running);
        }
        Action::Start => prop_assert!(before.authority().is_some(), "started without authority"),
        Action::Publish { term } => {
            prop_assert_eq!(
                before.member().map(|m| m.opened_in),
                Some(*term),
                "published before openedIn"
            );
        }
        Action::Remember(new) => {
            if let Some(old) = before
                .member()
                .filter(|m| m.claim_uid == new.claim_uid && m.uid == new.uid)
            {
                prop_assert!(new.promised >= old.promised, "a promise was taken back");
                prop_assert!(!old.marked || new.marked, "a mark was lost");
            }
        }
        _ => {}
    }
    Ok(())
}
