//! The CustomResourceDefinitions, as the API server gets them.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, ValidationRule,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::parameters;
use crate::api::SampleDb;

/// When nothing was observed yet: the transition time of the conditions in the schema's default.
pub const NEVER: &str = "1970-01-01T00:00:00Z";

/// The definition of SampleDB.
///
/// To what is derived from the types it adds the **default of `status`**: without it `helm install --wait` and
/// `kubectl wait` take an object that no controller has seen for a finished one, and the agents' first JSON Patch
/// would have no `/status` to add to. And the rule that refuses the reserved settings, from their table.
pub fn sampledb() -> CustomResourceDefinition {
    let mut crd = SampleDb::crd();
    for version in &mut crd.spec.versions {
        let Some(root) = version
            .schema
            .as_mut()
            .and_then(|s| s.open_api_v3_schema.as_mut())
        else {
            continue;
        };
        if let Some(status) = property(root, &["status"]) {
            status.default = Some(JSON(initial_status()));
        }
        if let Some(settings) = property(root, &["spec", "postgres", "parameters"]) {
            settings
                .x_kubernetes_validations
                .get_or_insert_default()
                .extend(reserved_parameters());
        }
    }
    crd
}

fn property<'a>(schema: &'a mut JSONSchemaProps, path: &[&str]) -> Option<&'a mut JSONSchemaProps> {
    path.iter()
        .try_fold(schema, |at, name| at.properties.as_mut()?.get_mut(*name))
}

/// Refuses the settings that are the suite's own: one rule a reason. (A message that picks out the
/// user's own is over the API server's cost limit by a factor of more than 100.)
fn reserved_parameters() -> impl Iterator<Item = ValidationRule> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for reserved in parameters::RESERVED {
        by_reason.entry(reserved.why).or_default().push(reserved.name);
    }
    by_reason.into_iter().map(|(why, names)| {
        let listed = names
            .iter()
            .map(|name| format!("'{name}'"))
            .collect::<Vec<_>>()
            .join(",");
        ValidationRule {
            rule: format!("!self.exists(k, k in [{listed}])"),
            message: Some(format!(
                "postgres.parameters can have none of {}: {why}",
                names.join(", ")
            )),
            ..ValidationRule::default()
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(path: &str, schema: &Value, found: &mut Vec<String>) {
        let described = schema["description"]
            .as_str()
            .is_some_and(|d| !d.trim().is_empty());
        if !described && !path.is_empty() {
            found.push(format!("{path}: no description"));
        }
        if schema["type"] == "string"
            && schema["enum"].is_null()
            && schema["maxLength"].is_null()
            && schema["format"].is_null()
        {
            found.push(format!("{path}: a string without maxLength"));
        }
        if schema["type"] == "array" && schema["maxItems"].is_null() {
            found.push(format!("{path}: a list without maxItems"));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(&format!("{path}.{name}"), property, found);
        }
    }

    #[test]
    fn kubectl_explain_has_an_answer_for_every_field() {
        let crd = serde_json::to_value(sampledb()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let mut found = Vec::new();
        walk(".spec", &schema["spec"], &mut found);
        walk(".status", &schema["status"], &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}
