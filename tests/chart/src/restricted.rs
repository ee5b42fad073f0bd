//! Kubernetes' pod security standard "restricted", as far as a chart's pod can break it.

use serde_json::Value;

/// What the standard forbids in a pod's spec; empty when nothing is.
pub fn violations(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec[field] == true {
            found.push(format!("{field} is true"));
        }
    }
    let pod = &spec["securityContext"];
    for volume in list(&spec["volumes"]) {
        let allowed = [
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ];
        if !allowed.iter().any(|kind| volume.get(*kind).is_some()) {
            found.push(format!(
                "the volume {} is of a kind that is not allowed",
                volume["name"]
            ));
        }
    }
    for container in list(&spec["containers"])
        .iter()
        .chain(list(&spec["initContainers"]))
    {
        let own = &container["securityContext"];
        let either = |field: &str| {
            own.get(field)
                .or_else(|| pod.get(field))
                .cloned()
                .unwrap_or_default()
        };
        let mut must = |holds: bool, what: &str| {
            if !holds {
                found.push(format!("the container {} {what}", container["name"]));
            }
        };
        must(
            own["allowPrivilegeEscalation"] == false,
            "may raise its privileges",
        );
        must(own["privileged"] != true, "is privileged");
        must(
            list(&own["capabilities"]["drop"]).iter().any(|c| c == "ALL"),
            "keeps capabilities",
        );
        must(
            list(&own["capabilities"]["add"])
                .iter()
                .all(|c| c == "NET_BIND_SERVICE"),
            "adds capabilities",
        );
        must(either("runAsNonRoot") == true, "may run as root");
        must(either("runAsUser") != 0, "runs as root");
        let profile = either("seccompProfile");
        must(
            ["RuntimeDefault", "Localhost"]
                .iter()
                .any(|p| profile["type"] == *p),
            "has no seccomp profile",
        );
        must(
            list(&container["ports"])
                .iter()
                .all(|p| p.get("hostPort").is_none()),
            "takes a port of the node",
        );
        // Not the standard's, but ours.
        must(
            own["readOnlyRootFilesystem"] == true,
            "may write to its root file system",
        );
        must(
            container["resources"]["requests"].is_object(),
            "has no requests: a ResourceQuota would refuse it",
        );
    }
    found
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_with_nothing_said_breaks_it() {
        let found = violations(
            &json!({"hostNetwork": true, "containers": [{"name": "a"}], "volumes": [{"name": "v", "hostPath": {}}]}),
        );
        assert_eq!(found.len(), 8, "{found:?}");
    }
}
