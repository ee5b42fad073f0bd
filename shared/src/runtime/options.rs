//! What a person can choose of a controller: arguments, each with an environment variable.

use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

use crate::domain::names;

/// The arguments every controller has. To be flattened into a controller's own.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The namespace of the release: the Leases and the chart's own objects are there.
    #[arg(long, env = "POD_NAMESPACE", default_value = "sampledb-system")]
    pub release_namespace: String,

    /// The name of this pod: the holder of the Lease, and the instance in events.
    #[arg(long, env = "POD_NAME", default_value = "local")]
    pub pod_name: String,

    /// The UID of this pod: it tells two pods of one name apart. Default: a random one.
    #[arg(long, env = "POD_UID", default_value = "")]
    pub pod_uid: String,

    /// The namespaces whose SampleDBs are looked after, with commas between. Default: all.
    #[arg(long, env = "WATCH_NAMESPACES", value_delimiter = ',', default_value = "")]
    pub watch_namespaces: Vec<String>,

    /// How many SampleDBs are worked on at once.
    #[arg(long, env = "CONCURRENCY", default_value_t = 4, value_parser = concurrency)]
    pub concurrency: usize,

    /// A pass that takes longer is ended and tried again.
    #[arg(long, env = "RECONCILE_TIMEOUT", default_value = "30s", value_parser = duration)]
    pub reconcile_timeout: Duration,

    /// How long the running passes may take to finish when the process is told to end.
    #[arg(long, env = "DRAIN_TIMEOUT", default_value = "20s", value_parser = duration)]
    pub drain_timeout: Duration,

    /// The port of /metrics, /livez, /readyz and the page.
    #[arg(long, env = "HTTP_PORT", default_value_t = names::CONTROLLER_PORT)]
    pub http_port: u16,

    /// Whether replicas agree on one that works, by a Lease. Without it, run one replica only.
    #[arg(long, env = "LEADER_ELECTION", default_value_t = true, action = clap::ArgAction::Set)]
    pub leader_election: bool,

    /// How long a Lease that nobody renews keeps others away.
    #[arg(long, env = "LEASE_DURATION", default_value = "15s", value_parser = duration)]
    pub lease_duration: Duration,

    /// A leader that could not renew for this long ends. Must be shorter than the Lease's duration.
    #[arg(long, env = "LEASE_RENEW_DEADLINE", default_value = "10s", value_parser = duration)]
    pub lease_renew_deadline: Duration,

    /// How often the leader renews and the others look.
    #[arg(long, env = "LEASE_RETRY_PERIOD", default_value = "5s", value_parser = duration)]
    pub lease_retry_period: Duration,

    /// error, warn, info, debug or trace, or target=level pairs with commas between.
    #[arg(long, env = "LOG_LEVEL", default_value = "info")]
    pub log_level: String,

    /// The status gauges are kept for so many SampleDBs at most; 0 turns them off.
    #[arg(long, env = "STATE_METRICS_LIMIT", default_value_t = 2000)]
    pub state_metrics_limit: usize,

    /// Whether a field of the status that another writer holds is taken over. Off in tests, where an overlap must
    /// show.
    #[arg(long, env = "FORCE_STATUS", default_value_t = true, action = clap::ArgAction::Set, hide = true)]
    pub force_status: bool,
}

/// Options that do not fit together.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OptionsError {
    /// A leader must know that it lost before another may take over.
    #[error("the renew deadline ({deadline:?}) must be shorter than the Lease's duration ({duration:?})")]
    Deadline {
        /// As given.
        deadline: Duration,
        /// As given.
        duration: Duration,
    },
    /// A leader must have tried before its deadline.
    #[error("the retry period ({retry:?}) must be shorter than the renew deadline ({deadline:?})")]
    Retry {
        /// As given.
        retry: Duration,
        /// As given.
        deadline: Duration,
    },
}

impl Options {
    /// Whether they fit together.
    pub fn check(&self) -> Result<(), OptionsError> {
        let (duration, deadline, retry) = (
            self.lease_duration,
            self.lease_renew_deadline,
            self.lease_retry_period,
        );
        if deadline >= duration {
            return Err(OptionsError::Deadline { deadline, duration });
        }
        if retry >= deadline {
            return Err(OptionsError::Retry { retry, deadline });
        }
        Ok(())
    }

    /// The namespaces to watch; `None` is every one.
    pub fn namespaces(&self) -> Vec<Option<&str>> {
        let named: Vec<_> = self
            .watch_namespaces
            .iter()
            .map(|n| n.trim())
            .filter(|n| !n.is_empty())
            .map(Some)
            .collect();
        if named.is_empty() { vec![None] } else { named }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text
        .parse()
        .map_err(|e| format!("{e}; write it like 15s or 1m30s"))?;
    Duration::try_from(parsed)
        .ok()
        .filter(|d| !d.is_zero())
        .ok_or_else(|| "must be longer than nothing".to_owned())
}

fn concurrency(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=64) => Ok(n),
        _ => Err("must be 1 to 64".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Main {
        #[command(flatten)]
        options: Options,
    }

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        Main::try_parse_from(std::iter::once("controller").chain(arguments.iter().copied()))
            .map(|m| m.options)
    }

    #[test]
    fn without_arguments_everything_is_watched_by_one_leader() {
        let options = parse(&[]).unwrap();
        assert_eq!(options.namespaces(), [None]);
        assert_eq!(options.lease_duration, Duration::from_secs(15));
        assert!(options.leader_election && options.force_status);
        assert_eq!(options.check(), Ok(()));
    }

    #[test]
    fn namespaces_are_a_list() {
        assert_eq!(
            parse(&["--watch-namespaces", "a, b,"]).unwrap().namespaces(),
            [Some("a"), Some("b")]
        );
    }

    #[test]
    fn a_leader_that_would_not_know_in_time_is_refused() {
        let options = parse(&["--lease-renew-deadline", "15s"]).unwrap();
        assert!(matches!(options.check(), Err(OptionsError::Deadline { .. })));
        assert!(parse(&["--reconcile-timeout", "0s"]).is_err());
        assert!(parse(&["--concurrency", "0"]).is_err());
    }
}
