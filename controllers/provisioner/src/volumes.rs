//! What becomes of each claim. A claim is never deleted, never shrinks, and is never made a second time once the
//! database was open.

use std::collections::BTreeMap;

use sampledb_shared::api::SampleDb;
use sampledb_shared::api::provisioning::VolumeStatus;
use sampledb_shared::api::storage::Volume;
use sampledb_shared::domain::{labels, names};

use crate::build::Target;
use crate::views::ClaimView;

/// A claim that the database needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted<'a> {
    /// Its name.
    pub name: String,
    /// What the SampleDB says of it.
    pub volume: &'a Volume,
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is made.
    Create,
    /// It is ours: labels and size are kept up to date.
    Keep,
    /// It was another SampleDB's and the user said to take it over.
    Adopt,
    /// It is being deleted, and gone as soon as its pod ends.
    Ending,
    /// It was there when the database was open, and now it is gone or another one has its name.
    Lost,
    /// It is another's.
    Foreign,
}

impl Fate {
    /// Whether the claim is written.
    pub fn is_applied(self) -> bool {
        matches!(self, Self::Create | Self::Keep | Self::Adopt)
    }
}

/// The claims that the database needs: of the instances that are wanted, and of those that were there before (they
/// grow while the database is hibernated, too).
pub fn wanted<'a>(target: &Target<'a>) -> Vec<Wanted<'a>> {
    let db = target.db;
    let recorded = |ordinal: i32| {
        let claim = names::data_claim(&target.name, ordinal);
        volumes(db, &target.uid).iter().any(|v| v.claim == claim)
    };
    let storage = &db.spec.storage;
    (0..)
        .take_while(|&ordinal| ordinal < db.spec.instances || recorded(ordinal))
        .flat_map(|ordinal| {
            let data = Wanted {
                name: names::data_claim(&target.name, ordinal),
                volume: &storage.data,
            };
            let wal = storage.wal.as_ref();
            let wal = wal.map(|volume| Wanted {
                name: names::wal_claim(&target.name, ordinal),
                volume,
            });
            [Some(data), wal]
        })
        .flatten()
        .collect()
}

/// The claims as they were recorded; none that were recorded for another UID.
pub fn volumes<'a>(db: &'a SampleDb, uid: &str) -> &'a [VolumeStatus] {
    let provisioning = db
        .status
        .as_ref()
        .and_then(|s| s.provisioning.as_ref())
        .filter(|p| p.uid == uid);
    provisioning.map_or(&[], |p| &p.volumes)
}

/// Whether the database was ever open to clients: what is lost from then on is lost for good.
pub fn was_open(db: &SampleDb) -> bool {
    db.status
        .as_ref()
        .and_then(|s| s.election.as_ref())
        .is_some_and(|e| e.system_id.is_some())
}

/// What becomes of each claim that is wanted.
pub fn fates(target: &Target<'_>, claims: &BTreeMap<String, ClaimView>) -> BTreeMap<String, Fate> {
    let adopt = target
        .db
        .metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(labels::ADOPT_VOLUMES))
        .map(String::as_str);
    let recorded = volumes(target.db, &target.uid);
    wanted(target)
        .into_iter()
        .map(|wanted| {
            let before = recorded
                .iter()
                .find(|v| v.claim == wanted.name)
                .map(|v| v.uid.as_str());
            let fate = fate(
                &target.uid,
                before,
                claims.get(&wanted.name),
                adopt,
                was_open(target.db),
            );
            (wanted.name, fate)
        })
        .collect()
}

fn fate(
    uid: &str,
    recorded: Option<&str>,
    claim: Option<&ClaimView>,
    adopt: Option<&str>,
    was_open: bool,
) -> Fate {
    let Some(claim) = claim else {
        return if recorded.is_some() && was_open {
            Fate::Lost
        } else {
            Fate::Create
        };
    };
    let seen = &claim.found.seen;
    let same = recorded == Some(seen.uid.as_str());
    if recorded.is_some() && !same && was_open {
        return Fate::Lost;
    }
    if seen.deleting {
        return Fate::Ending;
    }
    match seen.made_for.as_deref() {
        // The one that was recorded is ours, whatever was done to its annotation.
        _ if same => Fate::Keep,
        Some(owner) if owner == uid => Fate::Keep,
        Some(owner) if adopt == Some(owner) => Fate::Adopt,
        _ => Fate::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing;

    const OURS: Option<&str> = Some(testing::UID);
    const OTHER: Option<&str> = Some("other");

    #[rstest]
    #[case::first(None, None, None, false, Fate::Create)]
    #[case::made_by_the_stateful_set_or_before_a_crash(None, Some(("c1", OURS)), None, false, Fate::Keep)]
    #[case::lost_before_it_held_anything(Some("c1"), None, None, false, Fate::Create)]
    #[case::lost(Some("c1"), None, None, true, Fate::Lost)]
    #[case::replaced_by_an_empty_one(Some("c1"), Some(("c2", OURS)), None, true, Fate::Lost)]
    #[case::annotation_taken_away(Some("c1"), Some(("c1", None)), None, true, Fate::Keep)]
    #[case::kept_of_another(None, Some(("c1", OTHER)), None, false, Fate::Foreign)]
    #[case::nobody_s(None, Some(("c1", None)), None, false, Fate::Foreign)]
    #[case::adopted(None, Some(("c1", OTHER)), OTHER, false, Fate::Adopt)]
    #[case::adopting_the_wrong_one(None, Some(("c1", OTHER)), Some("third"), false, Fate::Foreign)]
    fn a_volume_with_data_is_never_replaced_or_taken_unasked(
        #[case] recorded: Option<&str>,
        #[case] claim: Option<(&str, Option<&str>)>,
        #[case] adopt: Option<&str>,
        #[case] was_open: bool,
        #[case] expected: Fate,
    ) {
        let claim = claim.map(|(uid, made_for)| testing::claim(uid, made_for, "1Gi"));
        assert_eq!(
            fate(testing::UID, recorded, claim.as_ref(), adopt, was_open),
            expected
        );
    }

    #[test]
    fn a_hibernated_database_keeps_its_claims() {
        let mut db = testing::open_db();
        db.spec.instances = 0;
        let target = Target::of(&db);
        let names: Vec<_> = wanted(&target).into_iter().map(|w| w.name).collect();
        assert_eq!(names, ["data-orders-0"]);
    }
}
