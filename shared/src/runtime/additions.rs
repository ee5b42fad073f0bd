//! What somebody else added to a child, from the API server's account of who set which field.
//!
//! A server-side apply puts back what it names and leaves what it does not: a selector on a Service that has none, a
//! container beside the database. In the kinds of [`WHOLE`] every field is the suite's, so an addition is taken away.

use serde_json::{Map, Value, json};

/// The kinds whose `spec` the suite writes as a whole.
const WHOLE: [&str; 3] = ["PodDisruptionBudget", "Service", "StatefulSet"];
/// Kubernetes' own controllers: they fill in what no person meant.
const CLUSTER: [&str; 2] = ["kube-controller-manager", "cloud-controller-manager"];
/// What load balancers write into the `spec` of the Services they serve.
const BALANCERS: [&str; 3] = ["loadBalancerIP", "loadBalancerClass", "healthCheckNodePort"];

/// The JSON Patch that takes away from `object` what is not `manager`'s; `None` when there is nothing.
pub(crate) fn removal(object: &Value, manager: &str) -> Option<Value> {
    if !WHOLE.contains(&object["kind"].as_str()?) {
        return None;
    }
    let entries = object["metadata"]["managedFields"].as_array()?;
    let entries = || {
        entries
            .iter()
            .filter(|e| e["subresource"].as_str().is_none_or(str::is_empty))
            .filter_map(|e| Some((e["manager"].as_str()?, e["fieldsV1"].get("f:spec")?)))
    };
    let ours: Vec<&Value> = entries()
        .filter(|(whose, _)| *whose == manager)
        .map(|(_, fields)| fields)
        .collect();
    if ours.is_empty() {
        return None;
    }
    let mut paths = Vec::new();
    for (_, fields) in entries().filter(|(whose, _)| *whose != manager && !CLUSTER.contains(whose)) {
        collect(
            fields,
            &ours,
            &object["spec"],
            &mut vec!["spec".into()],
            &mut paths,
        );
    }
    // What stands later in a list goes first: the places of the others stay as they are.
    paths.sort_by(|a, b| b.cmp(a));
    paths.dedup();
    let mut patch = vec![json!({
        "op": "test", "path": "/metadata/resourceVersion", "value": object["metadata"]["resourceVersion"],
    })];
    patch.extend(
        paths
            .iter()
            .map(|path| json!({"op": "remove", "path": pointer(path)})),
    );
    (patch.len() > 1).then_some(Value::Array(patch))
}

/// A step of a path. Places in a list sort by their number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    Place(usize),
}

impl From<&str> for Step {
    fn from(name: &str) -> Self {
        Self::Field(name.to_owned())
    }
}

fn pointer(path: &[Step]) -> String {
    path.iter()
        .map(|step| match step {
            Step::Field(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
            Step::Place(place) => format!("/{place}"),
        })
        .collect()
}

/// Walks another's fields beside ours. What both set is ours again after an apply; what only the other set goes, as
/// high up as nothing of ours is in it.
fn collect(theirs: &Value, ours: &[&Value], value: &Value, at: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
    for (key, below) in theirs.as_object().into_iter().flatten() {
        let Some((step, value)) = step(key, value) else {
            continue;
        };
        let left_alone =
            at.len() == 1 && matches!(&step, Step::Field(name) if BALANCERS.contains(&name.as_str()));
        if left_alone {
            continue;
        }
        let ours: Vec<&Value> = ours.iter().filter_map(|fields| fields.get(key)).collect();
        at.push(step);
        if ours.is_empty() {
            found.push(at.clone());
        } else {
            collect(below, &ours, value, at, found);
        }
        at.pop();
    }
}

/// A key of `fieldsV1` as a step in `value`, and what is there.
fn step<'a>(key: &str, value: &'a Value) -> Option<(Step, &'a Value)> {
    if let Some(name) = key.strip_prefix("f:") {
        return Some((name.into(), value.get(name)?));
    }
    let items = value.as_array()?;
    let place = if let Some(keys) = key.strip_prefix("k:") {
        let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
        items
            .iter()
            .position(|item| keys.iter().all(|(name, wanted)| item.get(name) == Some(wanted)))?
    } else {
        let wanted: Value = serde_json::from_str(key.strip_prefix("v:")?).ok()?;
        items.iter().position(|item| *item == wanted)?
    };
    Some((Step::Place(place), &items[place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, spec: &Value, theirs: &Value) -> Value {
        json!({
            "kind": kind,
            "metadata": {"resourceVersion": "7", "managedFields": [
                {"manager": "us", "operation": "Apply", "fieldsV1": {"f:spec": {
                    "f:type": {}, "f:ports": {"k:{\"port\":5432}": {".": {}, "f:port": {}}},
                }}},
                {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": theirs}},
                {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:spec": {"f:clusterIP": {}}}},
                {"manager": "someone", "operation": "Update", "subresource": "status", "fieldsV1": {"f:spec": {"f:x": {}}}},
            ]},
            "spec": spec,
        })
    }

    fn removed(object: &Value) -> Vec<String> {
        removal(object, "us")
            .into_iter()
            .flat_map(|patch| patch.as_array().cloned().unwrap_or_default())
            .filter(|op| op["op"] == "remove")
            .map(|op| op["path"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn what_leads_clients_elsewhere_is_taken_away() {
        let spec = json!({
            "type": "ClusterIP", "clusterIP": "10.0.0.1", "selector": {"app": "evil"}, "externalIPs": ["8.8.8.8"],
            "ports": [{"port": 1}, {"port": 5432, "targetPort": 99}, {"port": 2}], "loadBalancerIP": "1.2.3.4",
        });
        let theirs = json!({
            "f:selector": {}, "f:externalIPs": {}, "f:type": {}, "f:loadBalancerIP": {}, "f:gone": {},
            "f:ports": {
                "k:{\"port\":1}": {".": {}, "f:port": {}}, "k:{\"port\":2}": {".": {}, "f:port": {}},
                "k:{\"port\":5432}": {"f:targetPort": {}},
            },
        });
        assert_eq!(
            removed(&object("Service", &spec, &theirs)),
            [
                "/spec/selector",
                "/spec/ports/2",
                "/spec/ports/1/targetPort",
                "/spec/ports/0",
                "/spec/externalIPs"
            ]
        );
    }

    #[test]
    fn a_removal_holds_only_for_what_was_seen() {
        let patch = removal(
            &object("Service", &json!({"selector": {}}), &json!({"f:selector": {}})),
            "us",
        );
        assert_eq!(
            patch.unwrap()[0],
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"})
        );
    }

    #[test]
    fn nothing_is_written_without_an_addition() {
        assert_eq!(
            removal(
                &object("Service", &json!({"type": "x"}), &json!({"f:type": {}})),
                "us"
            ),
            None
        );
        assert_eq!(
            removal(
                &object(
                    "PersistentVolumeClaim",
                    &json!({"volumeName": "x"}),
                    &json!({"f:volumeName": {}})
                ),
                "us"
            ),
            None,
            "others fill in a claim"
        );
        let mut stranger = object("Service", &json!({"selector": {}}), &json!({"f:selector": {}}));
        stranger["metadata"]["managedFields"][0]["manager"] = "another".into();
        assert_eq!(removal(&stranger, "us"), None, "what is not ours is left alone");
    }

    #[test]
    fn names_with_slashes_and_sets_are_found() {
        let spec = json!({"template": {"metadata": {"annotations": {"a/b~c": "x"}}}, "set": ["a", "b"]});
        let theirs = json!({
            "f:template": {"f:metadata": {"f:annotations": {"f:a/b~c": {}}}}, "f:set": {"v:\"b\"": {}},
        });
        let mut all = object("StatefulSet", &spec, &theirs);
        all["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"] =
            json!({"f:template": {"f:metadata": {"f:annotations": {"f:x": {}}}}, "f:set": {"v:\"a\"": {}}});
        assert_eq!(
            removed(&all),
            ["/spec/template/metadata/annotations/a~1b~0c", "/spec/set/1"]
        );
    }
}
