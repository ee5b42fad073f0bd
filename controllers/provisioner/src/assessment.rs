//! What follows from a look, before anything is done: the base of both the plan and the report.

use std::collections::BTreeMap;

use sampledb_shared::api::SampleDb;
use sampledb_shared::api::provisioning::Images;

use crate::build::Target;
use crate::build::config_map::Configuration;
use crate::images::{self, Unresolved};
use crate::initial::{self, Initial};
use crate::observe::Observed;
use crate::rules::{Extent, Kind, Obstacle, RULES};
use crate::settings::Settings;
use crate::volumes::{self, Fate};

/// What the rules read.
pub struct Input<'a> {
    /// The SampleDB.
    pub target: Target<'a>,
    /// What was seen.
    pub seen: &'a Observed,
    /// What becomes of each claim.
    pub fates: BTreeMap<String, Fate>,
    /// The images: those that are wanted, or else those of before.
    pub images: Option<Images>,
    /// Why those that are wanted are not there.
    pub unresolved: Option<Unresolved>,
}

impl Input<'_> {
    /// The children under our names that were not made for this SampleDB: those that are going by themselves, or the
    /// others.
    pub fn others(&self, going: bool) -> Vec<String> {
        let uid = &self.target.uid;
        let others = self
            .seen
            .children
            .iter()
            .filter(|(_, found)| !found.is_for(uid) && found.is_leftover(uid) == going);
        others.map(|((kind, name), _)| format!("{kind} {name}")).collect()
    }

    /// The claims with this fate.
    pub fn claims_with(&self, fate: Fate) -> Vec<String> {
        self.fates
            .iter()
            .filter(|(_, f)| **f == fate)
            .map(|(name, _)| name.clone())
            .collect()
    }
}

/// What follows from a look.
pub struct Assessment<'a> {
    /// What the rules read.
    pub input: Input<'a>,
    /// What stands in the way, the most important first.
    pub obstacles: Vec<Obstacle>,
    /// PostgreSQL's configuration.
    pub configuration: Configuration,
    /// The initial SQL.
    pub initial: Initial,
}

impl<'a> Assessment<'a> {
    /// Pure: the same look gives the same.
    pub fn of(db: &'a SampleDb, seen: &'a Observed, settings: &Settings) -> Self {
        let target = Target::of(db);
        let before = db
            .status
            .as_ref()
            .and_then(|s| s.provisioning.as_ref())
            .filter(|p| p.uid == target.uid);
        let before = before.and_then(|p| p.images.as_ref());
        let (images, unresolved) = match images::resolve(db, before, seen.catalog.as_ref(), settings) {
            Ok(images) => (Some(images), None),
            Err(error) => (before.cloned(), Some(error)),
        };
        let fates = volumes::fates(&target, &seen.claims);
        let configuration = Configuration::of(&target);
        let initial = initial::initial(&target, seen);
        let input = Input {
            target,
            seen,
            fates,
            images,
            unresolved,
        };
        let obstacles = RULES.iter().filter_map(|(_, rule)| rule(&input)).collect();
        Self {
            input,
            obstacles,
            configuration,
            initial,
        }
    }

    /// How much may be done.
    pub fn extent(&self) -> Extent {
        self.obstacles
            .iter()
            .map(|o| o.extent)
            .min()
            .unwrap_or(Extent::Everything)
    }

    /// The first obstacle of a kind.
    pub fn obstacle(&self, kind: Kind) -> Option<&Obstacle> {
        self.obstacles.iter().find(|o| o.kind == kind)
    }
}
