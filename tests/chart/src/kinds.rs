//! Whether an object is what Kubernetes' own types say: each field known, each value of its type.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What is wrong with an object; empty when nothing is.
pub fn problems(object: &Value) -> Vec<String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    match (object["apiVersion"].as_str().unwrap_or_default(), kind) {
        ("v1", "ConfigMap") => typed::<ConfigMap>(object),
        ("v1", "Pod") => typed::<Pod>(object),
        ("v1", "Service") => typed::<Service>(object),
        ("v1", "ServiceAccount") => typed::<ServiceAccount>(object),
        ("apps/v1", "Deployment") => typed::<Deployment>(object),
        ("networking.k8s.io/v1", "NetworkPolicy") => typed::<NetworkPolicy>(object),
        ("policy/v1", "PodDisruptionBudget") => typed::<PodDisruptionBudget>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => typed::<ClusterRole>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => typed::<ClusterRoleBinding>(object),
        ("rbac.authorization.k8s.io/v1", "Role") => typed::<Role>(object),
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => typed::<RoleBinding>(object),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy") => {
            typed::<ValidatingAdmissionPolicy>(object)
        }
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding") => {
            typed::<ValidatingAdmissionPolicyBinding>(object)
        }
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => typed::<CustomResourceDefinition>(object),
        // Not Kubernetes' own: the Prometheus operator's.
        ("monitoring.coreos.com/v1", "ServiceMonitor" | "PodMonitor") => Vec::new(),
        (version, kind) => vec![format!("{version} {kind} is not a kind this chart makes")],
    }
}

fn typed<T: DeserializeOwned + Serialize>(object: &Value) -> Vec<String> {
    match serde_json::from_value::<T>(object.clone()).and_then(serde_json::to_value) {
        Ok(back) => {
            let mut found = Vec::new();
            lost("", object, &back, &mut found);
            found
        }
        Err(error) => vec![error.to_string()],
    }
}

/// What of `before` is not in `after`: what the type does not know.
fn lost(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), after) => {
            for (key, value) in before {
                lost(&format!("{path}.{key}"), value, &after[key], found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (n, value) in before.iter().enumerate() {
                lost(&format!("{path}[{n}]"), value, &after[n], found);
            }
        }
        (before, after) if before != after && before.as_f64() != after.as_f64().or(Some(f64::NAN)) => {
            found.push(format!(
                "{path}: {before} is not a field or value of this kind (kept: {after})"
            ));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_misspelt_field_and_a_wrong_type_are_found() {
        let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "a", "image": "b", "imagePulPolicy": "Always"}]}});
        assert!(problems(&object)[0].contains(".spec.containers[0].imagePulPolicy"));
        object["spec"]["containers"][0] = json!({"name": "a", "args": [1]});
        assert_eq!(problems(&object).len(), 1);
        object["spec"]["containers"][0] = json!({"name": "a", "args": ["1"]});
        assert_eq!(problems(&object), Vec::<String>::new());
    }
}
