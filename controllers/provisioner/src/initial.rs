//! The initial SQL: run once, by a Job, when the database is open for the first time.

use sampledb_shared::api::election::ElectionPhase;
use sampledb_shared::api::provisioning::{InitPhase, InitStatus};

use crate::build::{Target, job};
use crate::observe::Observed;
use crate::views::JobPhase;

/// How far the initial SQL has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initial {
    /// There is none.
    Nothing,
    /// It waits until the database is open.
    WaitsForDatabase,
    /// It waits for its ConfigMap.
    WaitsForContent(String),
    /// Its Job is to be made for this content.
    Start(String),
    /// This Job runs; with the error of an attempt that is repeated.
    Running(String, Option<String>),
    /// This Job ended with this error; with the content that it was for.
    Failed(String, String, String),
    /// It was run, by this Job.
    Succeeded(Option<String>),
}

/// Whether the status says that it was run: it never runs again.
pub fn has_succeeded(target: &Target<'_>) -> bool {
    recorded(target).is_some_and(|init| init.phase == InitPhase::Succeeded)
}

fn recorded<'a>(target: &Target<'a>) -> Option<&'a InitStatus> {
    let provisioning = target.db.status.as_ref()?.provisioning.as_ref()?;
    (provisioning.uid == target.uid).then_some(provisioning.init.as_ref()?)
}

/// How far it has come.
pub fn initial(target: &Target<'_>, seen: &Observed) -> Initial {
    if target.db.spec.bootstrap.new.init.is_empty() {
        return Initial::Nothing;
    }
    if let Some(init) = recorded(target).filter(|init| init.phase == InitPhase::Succeeded) {
        return Initial::Succeeded(init.job.clone());
    }
    let ours = || seen.jobs.iter().filter(|(_, job)| job.found.is_for(&target.uid));
    if let Some((name, _)) = ours().find(|(_, job)| job.phase == JobPhase::Complete) {
        return Initial::Succeeded(Some(name.clone()));
    }
    // Two Jobs with different content must not run side by side.
    if let Some((name, _)) = ours().find(|(_, job)| job.phase == JobPhase::Active && !job.found.seen.deleting)
    {
        return Initial::Running(name.clone(), seen.init_errors.get(name).cloned());
    }
    let content = match &seen.initial_sql {
        Some(Ok(content)) => content,
        Some(Err(missing)) => return Initial::WaitsForContent(missing.clone()),
        None => return Initial::WaitsForDatabase,
    };
    let name = job::name(target, content);
    if let Some(JobPhase::Failed(why)) = seen.jobs.get(&name).map(|job| &job.phase) {
        let error = seen.init_errors.get(&name).unwrap_or(why);
        return Initial::Failed(name, error.clone(), content.clone());
    }
    let open = target
        .db
        .status
        .as_ref()
        .and_then(|s| s.election.as_ref())
        .map(|e| e.phase)
        == Some(ElectionPhase::Open);
    if open && target.db.spec.instances > 0 {
        Initial::Start(content.clone())
    } else {
        Initial::WaitsForDatabase
    }
}

impl Initial {
    /// For the status; `started` is whether the Job of [`Initial::Start`] was made.
    pub fn status(&self, target: &Target<'_>, started: bool) -> Option<InitStatus> {
        let status = |phase, job: Option<String>, error| Some(InitStatus { phase, job, error });
        match self {
            Self::Nothing => None,
            Self::WaitsForContent(missing) => status(InitPhase::Waiting, None, Some(missing.clone())),
            Self::Start(content) if started => {
                status(InitPhase::Running, Some(job::name(target, content)), None)
            }
            Self::WaitsForDatabase | Self::Start(_) => status(InitPhase::Waiting, None, None),
            Self::Running(name, error) => status(InitPhase::Running, Some(name.clone()), error.clone()),
            Self::Failed(name, error, _) => {
                status(InitPhase::Failed, Some(name.clone()), Some(error.clone()))
            }
            Self::Succeeded(name) => status(InitPhase::Succeeded, name.clone(), None),
        }
    }
}
