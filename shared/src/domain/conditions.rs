//! Conditions: set with a reason, never removed, the transition time kept while the status is the same.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::conditions::ConditionType;

/// A condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// It is not known.
    Unknown,
}

impl Status {
    /// As it stands in the object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// What is to be said: a condition without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Of what.
    pub type_: ConditionType,
    /// Whether it is so.
    pub status: Status,
    /// Why, in one word of an enum.
    pub reason: &'static str,
    /// Why, for a person, and what to do.
    pub message: String,
}

impl Finding {
    /// A finding.
    pub fn new(
        type_: ConditionType,
        status: impl Into<Status>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_,
            status: status.into(),
            reason,
            message: message.into(),
        }
    }

    /// The condition to write: the transition time of `before` is kept while the status is the same, unless it is that
    /// of the schema's default ([`super::crd::NEVER`]).
    pub fn condition(&self, before: &[Condition], generation: i64, now: Timestamp) -> Condition {
        let kept = find(before, self.type_)
            .filter(|c| c.status == self.status.as_str() && c.last_transition_time.0 != Timestamp::UNIX_EPOCH)
            .map(|c| c.last_transition_time.clone());
        Condition {
            type_: self.type_.as_str().into(),
            status: self.status.as_str().into(),
            reason: self.reason.into(),
            message: truncated(&self.message, 4096),
            observed_generation: Some(generation),
            // Kubernetes keeps seconds; a finer time would differ after a round trip.
            last_transition_time: kept
                .unwrap_or_else(|| Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
        }
    }
}

/// The condition of a type.
pub fn find(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|c| c.type_ == type_.as_str())
}

/// Whether the condition of a type is True.
pub fn is_true(conditions: &[Condition], type_: ConditionType) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == "True")
}

/// `text`, or as much of it as fits into `most` bytes.
pub fn truncated(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most.saturating_sub(3);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_time_is_kept_with_its_status_and_that_of_the_schema_s_default_never() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let later: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let finding = Finding::new(ConditionType::Reconciling, true, "Creating", "");
        let first = finding.condition(&[], 1, now);
        assert_eq!(finding.condition(std::slice::from_ref(&first), 1, later), first);
        let mut unseen = first;
        unseen.last_transition_time = Time(super::super::crd::NEVER.parse().unwrap());
        assert_eq!(
            finding.condition(&[unseen], 1, later).last_transition_time,
            Time(later)
        );
    }
}
