//! The condition types, and the reasons each may carry.

use std::fmt;

/// A condition's type. Each has one writer, see `ownership`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionType {
    /// Everything is as the spec of `observedGeneration` wants it (kstatus).
    Ready,
    /// A change is on its way (kstatus).
    Reconciling,
    /// It cannot go on without a person (kstatus).
    Stalled,
    /// Clients can write now; stays True during a rolling change.
    Available,
    /// The initial SQL was run, or there is none.
    Initialized,
    /// The volumes are there and have room.
    StorageHealthy,
    /// The certificates are there and far from their end.
    CertificatesValid,
    /// One instance takes writes.
    PrimaryElected,
    /// The replicas follow.
    Replicating,
    /// Services, Secret and ConfigMap are there.
    Published,
}

impl ConditionType {
    /// As it stands in `status.conditions[].type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
            Self::Available => "Available",
            Self::Initialized => "Initialized",
            Self::StorageHealthy => "StorageHealthy",
            Self::CertificatesValid => "CertificatesValid",
            Self::PrimaryElected => "PrimaryElected",
            Self::Replicating => "Replicating",
            Self::Published => "Published",
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The reasons of [`ConditionType::Published`]: others decide by them.
pub mod published {
    /// Everything is there.
    pub const PUBLISHED: &str = "Published";
    /// Something of the provisioner is not there yet.
    pub const WAITING: &str = "WaitingForProvisioner";
    /// An object of a former SampleDB of this name is still being removed.
    pub const LEFTOVER: &str = "WaitingForRemoval";
    /// An object that is not ours has a name of ours.
    pub const NAME_COLLISION: &str = "NameCollision";
    /// The API server said no.
    pub const REFUSED: &str = "Refused";
    /// The API server could not be asked.
    pub const PENDING: &str = "Pending";
    /// `spec.paused` was true before anything was published.
    pub const PAUSED: &str = "Paused";
}
