//! What stands in the way: a short list of named rules, read from top to bottom.

use sampledb_shared::domain::labels;

use crate::assessment::Input;
use crate::build::postgresql_conf;
use crate::images::Unresolved;
use crate::volumes::Fate;

/// Something that keeps the SampleDB from being as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// What it means for the person who waits.
    pub kind: Kind,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, for a person, and what to do.
    pub message: String,
    /// How much may still be done.
    pub extent: Extent,
}

/// What an obstacle means for the person who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The SampleDB is going.
    Deleting,
    /// A person said so.
    Paused,
    /// It passes by itself.
    Passing,
    /// A person must act.
    Stalled,
}

/// How much may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Nothing.
    Nothing,
    /// All but the StatefulSet and the Job.
    WithoutPods,
    /// Everything.
    Everything,
}

/// A rule.
pub type Rule = fn(&Input<'_>) -> Option<Obstacle>;

/// The rules, in the order of what a person should read first.
pub const RULES: &[(&str, Rule)] = &[
    ("deleting", deleting),
    ("paused", paused),
    ("leftovers", leftovers),
    ("name-collision", name_collision),
    ("foreign-volumes", foreign_volumes),
    ("volumes-lost", volumes_lost),
    ("no-image", no_image),
    ("objections", objections),
];

/// Nothing is changed while the SampleDB goes: what it owns goes with it, and the volumes stay.
fn deleting(input: &Input<'_>) -> Option<Obstacle> {
    input.target.db.metadata.deletion_timestamp.as_ref()?;
    Some(Obstacle {
        kind: Kind::Deleting,
        reason: "Deleting",
        message: "it is being deleted; its volumes are kept".into(),
        extent: Extent::Nothing,
    })
}

/// The user wants no change.
fn paused(input: &Input<'_>) -> Option<Obstacle> {
    input.target.db.spec.paused.then(|| Obstacle {
        kind: Kind::Paused,
        reason: "Paused",
        message: "spec.paused is true: nothing is changed until it is false".into(),
        extent: Extent::Nothing,
    })
}

/// A SampleDB of the same name was deleted a moment ago and its children are still going.
fn leftovers(input: &Input<'_>) -> Option<Obstacle> {
    let names = input.others(true);
    (!names.is_empty()).then(|| Obstacle {
        kind: Kind::Passing,
        reason: "WaitingForDeletion",
        message: format!(
            "waits until what an earlier SampleDB of this name left is gone: {}",
            names.join(", ")
        ),
        extent: Extent::Nothing,
    })
}

/// A name that a child needs is taken by something that nobody is going to remove.
fn name_collision(input: &Input<'_>) -> Option<Obstacle> {
    let names = input.others(false);
    (!names.is_empty()).then(|| Obstacle {
        kind: Kind::Stalled,
        reason: "NameCollision",
        message: format!(
            "these objects were not made for this SampleDB: {}; delete or rename them, or choose another name for the SampleDB",
            names.join(", ")
        ),
        extent: Extent::Nothing,
    })
}

/// Volumes that an earlier SampleDB left: never taken unasked.
fn foreign_volumes(input: &Input<'_>) -> Option<Obstacle> {
    let names = input.claims_with(Fate::Foreign);
    let owner = names
        .iter()
        .find_map(|n| input.seen.claims.get(n)?.found.seen.made_for.clone());
    (!names.is_empty()).then(|| {
        let (name, namespace) = (&input.target.name, &input.target.namespace);
        let adopt = match owner {
            Some(owner) => format!(
                "to go on with the data in them: kubectl -n {namespace} annotate sampledb {name} {}={owner}",
                labels::ADOPT_VOLUMES
            ),
            None => format!(
                "to go on with the data in them: kubectl -n {namespace} annotate pvc {} {}={}",
                names.join(" "),
                labels::UID,
                input.target.uid
            ),
        };
        Obstacle {
            kind: Kind::Stalled,
            reason: "NameCollision",
            message: format!(
                "the volume claims {} belong to another SampleDB; {adopt}; to begin with empty ones: delete the claims, or choose another name",
                names.join(", ")
            ),
            extent: Extent::WithoutPods,
        }
    })
}

/// The data is gone: an empty volume must not take its place as if nothing had happened.
fn volumes_lost(input: &Input<'_>) -> Option<Obstacle> {
    let names = input.claims_with(Fate::Lost);
    (!names.is_empty()).then(|| Obstacle {
        kind: Kind::Stalled,
        reason: "VolumeLost",
        message: format!(
            "the volume claims {} with the data of this database are gone or were replaced, and no empty database is made in their place; bring the data back into a new SampleDB, or delete this one to begin anew",
            names.join(", ")
        ),
        extent: if input.seen.stateful_set.is_some() { Extent::Everything } else { Extent::WithoutPods },
    })
}

/// There is no image for what `spec.postgres` asks for.
fn no_image(input: &Input<'_>) -> Option<Obstacle> {
    let error = input.unresolved.as_ref()?;
    Some(Obstacle {
        kind: Kind::Stalled,
        reason: match error {
            Unresolved::NotFound(_) => "ImageNotFound",
            Unresolved::NotAllowed(..) => "ImageNotAllowed",
        },
        message: error.to_string(),
        extent: if input.images.is_some() {
            Extent::Everything
        } else {
            Extent::WithoutPods
        },
    })
}

/// Settings that an older schema let through; they are left out.
fn objections(input: &Input<'_>) -> Option<Obstacle> {
    let objections = postgresql_conf::objections(&input.target.db.spec.postgres.parameters);
    (!objections.is_empty()).then(|| Obstacle {
        kind: Kind::Stalled,
        reason: "ParameterRejected",
        message: objections.join("; "),
        extent: Extent::Everything,
    })
}
