//! What the agent says in the SampleDB's status: its own entry of `instances`, and as primary the agents' conditions.
//!
//! Written when it differs from what this process wrote last for this UID (or found at its start), and never
//! otherwise: an agent that restarts beside an unchanged database writes nothing.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sampledb_shared::api::conditions::ConditionType;
use sampledb_shared::api::instances::Instance;
use sampledb_shared::api::ownership::AGENT;
use sampledb_shared::domain::conditions::{Finding, find};
use tokio::sync::watch;

use super::clock;
use super::cluster::{Cluster, ClusterError};
use super::seen::Database;
use super::watches::Found;

/// Changes that come together are one write.
const TOGETHER: Duration = Duration::from_millis(20);

/// How the primary stands; only a primary says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not the primary: nothing is said.
    Silent,
    /// It takes clients.
    Open,
    /// It was stopped, and there is no successor.
    Stopped,
    /// It was open, and does not run.
    Down,
}

/// What is to be said.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The own entry; absent until enough is known.
    pub instance: Option<Instance>,
    /// The conditions.
    pub standing: Standing,
}

/// The findings of a standing; empty when nothing is said.
pub fn findings(standing: Standing, me: &str) -> Vec<Finding> {
    let (open, reason, message) = match standing {
        Standing::Silent => return Vec::new(),
        Standing::Open => (true, "Open", format!("{me} takes writes")),
        Standing::Stopped => (
            false,
            "Stopped",
            format!("{me} was stopped; nothing takes writes"),
        ),
        Standing::Down => (
            false,
            "Stopped",
            format!("PostgreSQL in {me} does not run; status.instances says why, and what to do"),
        ),
    };
    let alone = "there is one instance, and nothing to replicate to";
    let elected = Finding::new(ConditionType::PrimaryElected, open, reason, message);
    let replicating = Finding::new(ConditionType::Replicating, true, "SingleInstance", alone);
    vec![elected, replicating]
}

/// Whether conditions say the same, leaving out when they changed.
fn equal(a: &[Condition], b: &[Condition]) -> bool {
    let key = |c: &Condition| {
        (
            c.type_.clone(),
            c.status.clone(),
            c.reason.clone(),
            c.message.clone(),
            c.observed_generation,
        )
    };
    a.len() == b.len() && a.iter().all(|x| b.iter().any(|y| key(x) == key(y)))
}

/// What was written last.
#[derive(Default)]
struct Written {
    begun: bool,
    instance: Option<Instance>,
    conditions: Vec<Condition>,
}

/// Says what is to be said, for ever. `done` follows with what was said last.
pub async fn run(
    cluster: Cluster,
    mut databases: watch::Receiver<Found<Database>>,
    mut said: watch::Receiver<Said>,
    done: watch::Sender<Standing>,
) {
    let mut written = Written::default();
    let mut failures = 0_u32;
    loop {
        let result = say(&cluster, &databases, &said, &mut written, &done).await;
        let pause = match result {
            Ok(()) => {
                failures = 0;
                None
            }
            Err(error) => {
                failures += 1;
                if !error.is_conflict() || failures.is_multiple_of(10) {
                    tracing::warn!(%error, failures, "the status could not be written");
                }
                Some(Duration::from_millis(50 << failures.min(7)).min(Duration::from_secs(5)))
            }
        };
        let retry = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = said.changed() => if changed.is_err() { return },
            changed = databases.changed() => if changed.is_err() { return },
            () = retry => {}
        }
        tokio::time::sleep(TOGETHER).await;
    }
}

async fn say(
    cluster: &Cluster,
    databases: &watch::Receiver<Found<Database>>,
    said: &watch::Receiver<Said>,
    written: &mut Written,
    done: &watch::Sender<Standing>,
) -> Result<(), ClusterError> {
    let settings = cluster.settings();
    let seen = databases
        .borrow()
        .present()
        .filter(|d| d.uid == settings.uid)
        .cloned();
    let Some(mut database) = seen else { return Ok(()) };
    if !written.begun {
        written.begun = true;
        written.instance.clone_from(&database.own);
        let ours = AGENT
            .conditions
            .iter()
            .filter_map(|t| find(&database.conditions, *t));
        written.conditions = ours.cloned().collect();
    }
    let Said { instance, standing } = said.borrow().clone();
    let findings = findings(standing, &settings.pod);
    let mut live = false;
    loop {
        let result = say_once(cluster, &database, instance.as_ref(), &findings, written).await;
        match result {
            // The row is older than the object: once more with a live one.
            Err(error) if error.is_conflict() && !live => {
                database = cluster.database().await?;
                live = true;
            }
            Err(error) => return Err(error),
            Ok(true) => {
                // The second write needs the version that the first one made.
                database = cluster.database().await?;
                live = true;
            }
            Ok(false) => {
                done.send_replace(standing);
                return Ok(());
            }
        }
    }
}

/// Writes what differs, one write at the most; `true` when something was written.
async fn say_once(
    cluster: &Cluster,
    database: &Database,
    instance: Option<&Instance>,
    findings: &[Finding],
    written: &mut Written,
) -> Result<bool, ClusterError> {
    let now = clock::wall();
    let conditions: Vec<Condition> = findings
        .iter()
        .map(|f| f.condition(&database.conditions, database.generation, now))
        .collect();
    if !conditions.is_empty() && !equal(&conditions, &written.conditions) {
        cluster
            .apply_conditions(&conditions, &database.resource_version)
            .await?;
        written.conditions = conditions;
        return Ok(true);
    }
    if let Some(instance) = instance
        && written.instance.as_ref() != Some(instance)
    {
        cluster
            .apply_instance(instance, &database.resource_version)
            .await?;
        written.instance = Some(instance.clone());
        return Ok(true);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_restarts_writes_no_condition_again() {
        let said = findings(Standing::Open, "a-0");
        let first: Vec<_> = said
            .iter()
            .map(|f| f.condition(&[], 1, jiff::Timestamp::UNIX_EPOCH))
            .collect();
        let later: jiff::Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let again: Vec<_> = said.iter().map(|f| f.condition(&first, 1, later)).collect();
        assert!(equal(&first, &again));
        let new_spec: Vec<_> = said.iter().map(|f| f.condition(&first, 2, later)).collect();
        assert!(!equal(&first, &new_spec));
    }

    #[test]
    fn every_condition_of_the_agents_is_in_every_write() {
        for standing in [Standing::Open, Standing::Stopped, Standing::Down] {
            let types: Vec<_> = findings(standing, "a-0").iter().map(|f| f.type_).collect();
            assert_eq!(types, AGENT.conditions);
        }
    }
}
