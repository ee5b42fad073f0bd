//! The CustomResourceDefinitions, as the API server gets them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::SampleDb;

/// When nothing was observed yet: the transition time of the conditions in the schema's default.
pub const NEVER: &str = "1970-01-01T00:00:00Z";

/// The definition of SampleDB.
///
/// To what is derived from the types it adds the **default of `status`**: without it `helm install --wait` and
/// `kubectl wait` take an object that no controller has seen for a finished one, and the agents' first JSON Patch
/// would have no `/status` to add to.
pub fn sampledb() -> CustomResourceDefinition {
    let mut crd = SampleDb::crd();
    for version in &mut crd.spec.versions {
        let Some(root) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) else { continue };
        let Some(status) = root.properties.as_mut().and_then(|p| p.get_mut("status")) else { continue };
        status.default = Some(k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSON(initial_status()));
    }
    crd
}

/// The status of an object that no controller has seen.
pub fn initial_status() -> Value {
    let unseen = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "reason": "NotObserved", "observedGeneration": 0,
               "lastTransitionTime": NEVER, "message": "no controller has seen this object yet"})
    };
    json!({"observedGeneration": 0, "phase": "Pending",
           "conditions": [unseen("Ready", "Unknown"), unseen("Reconciling", "True")]})
}
