//! How many instances a drain of nodes may take at a time.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sampledb_shared::domain::labels::{self, Component};

use super::Target;

/// One at a time; a single instance must not block a drain, nor may one that is not ready anyway.
pub fn budget(target: &Target<'_>) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: target.metadata(target.name.clone(), Component::Database),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector {
                match_labels: Some(labels::pod_selector(&target.name)),
                match_expressions: None,
            }),
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".into()),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}
