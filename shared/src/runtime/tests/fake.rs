//! An API server in memory, for the runtime's own tests: just as much of Kubernetes as the runtime relies on, each
//! rule as it was seen on a real one (see `real.rs`). Its cache is as far behind as it may be: a GET that must not be
//! older than a version shows just that version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Body as Answer;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

type Rule = Box<dyn Fn(&str, &str) -> Option<u16> + Send + Sync>;
type Interruption = Box<dyn Fn(&Fake, &str, &str) + Send + Sync>;

#[derive(Default)]
struct Inner {
    objects: BTreeMap<String, Value>,
    served: BTreeSet<(String, String)>,
    version: u64,
    history: Vec<(u64, String, String)>,
    log: Vec<String>,
    rules: Vec<Rule>,
    watches: Vec<(String, UnboundedSender<Result<String, std::io::Error>>)>,
}

/// The API server.
#[derive(Default)]
pub(crate) struct Fake {
    inner: Mutex<Inner>,
    before: Mutex<Option<Interruption>>,
}

struct Route {
    group_version: String,
    namespace: Option<String>,
    plural: String,
    name: Option<String>,
    status: bool,
}

impl Route {
    fn of(path: &str) -> Option<Self> {
        let mut parts: Vec<_> = path.trim_matches('/').split('/').collect();
        let group_version = match parts.first()? {
            &"api" => parts.drain(..2).nth(1)?.to_owned(),
            _ => parts.drain(..3).skip(1).collect::<Vec<_>>().join("/"),
        };
        let namespace = (parts.first() == Some(&"namespaces") && parts.len() > 2)
            .then(|| parts.drain(..2).nth(1).unwrap_or_default().to_owned());
        let plural = parts.first().copied().unwrap_or_default().to_owned();
        let name = parts.get(1).map(|n| (*n).to_owned());
        Some(Self {
            group_version,
            namespace,
            plural,
            name,
            status: parts.get(2) == Some(&"status"),
        })
    }

    fn key(&self, name: &str) -> String {
        format!(
            "{}/{}/{name}",
            self.plural,
            self.namespace.as_deref().unwrap_or_default()
        )
    }

    fn holds(&self, key: &str) -> bool {
        let all = format!("{}/", self.plural);
        key.starts_with(
            &self
                .namespace
                .as_ref()
                .map_or(all.clone(), |n| format!("{all}{n}/")),
        )
    }
}

impl Fake {
    /// Serves SampleDBs, ConfigMaps, Secrets and Leases.
    pub(crate) fn new() -> Arc<Self> {
        let fake = Self::default();
        for (version, plural) in [
            ("sampledb.dev/v1", "sampledbs"),
            ("v1", "configmaps"),
            ("v1", "secrets"),
            ("apps/v1", "statefulsets"),
        ] {
            fake.inner().served.insert((version.into(), plural.into()));
        }
        Arc::new(fake)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub(crate) fn client(self: &Arc<Self>) -> Client {
        let fake = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = Arc::clone(&fake);
            async move { Ok::<_, tower::BoxError>(fake.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// Whether a kind is served.
    pub(crate) fn serve(&self, version: &str, plural: &str, served: bool) {
        let entry = (version.to_owned(), plural.to_owned());
        let mut inner = self.inner();
        if served {
            inner.served.insert(entry)
        } else {
            inner.served.remove(&entry)
        };
    }

    /// From now on requests (method, path with query) for which `rule` has a status fail with it.
    pub(crate) fn refuse(&self, rule: impl Fn(&str, &str) -> Option<u16> + Send + Sync + 'static) {
        self.inner().rules.push(Box::new(rule));
    }

    /// Everything is allowed again.
    pub(crate) fn allow(&self) {
        self.inner().rules.clear();
    }

    /// Called before every request.
    pub(crate) fn before(&self, interruption: impl Fn(&Self, &str, &str) + Send + Sync + 'static) {
        *self.before.lock().unwrap() = Some(Box::new(interruption));
    }

    /// What is stored under `plural/namespace/name`.
    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.inner().objects.get(key).cloned()
    }

    /// Stores an object as another client would, with a new resourceVersion, and a new UID if it is new.
    pub(crate) fn put(&self, key: &str, object: Value) {
        self.inner().store(key, object);
    }

    pub(crate) fn change(&self, key: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(key).expect("it is there");
        change(&mut object);
        self.put(key, object);
    }

    pub(crate) fn remove(&self, key: &str) {
        self.inner().remove(key);
    }

    /// Removes an object so that no watch tells, and ends every watch as too old.
    pub(crate) fn remove_silently(&self, key: &str) {
        let mut inner = self.inner();
        inner.objects.remove(key);
        inner.version += 1;
        let (version, line) = (inner.version, json!({"type": "DELETED"}).to_string());
        inner.history.push((version, key.to_owned(), line));
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old", "reason": "Expired"}});
        for (_, watch) in inner.watches.drain(..) {
            let _ = watch.unbounded_send(Ok(format!("{gone}\n")));
        }
    }

    /// Ends every watch as a broken connection does.
    pub(crate) fn break_watches(&self) {
        for (_, watch) in self.inner().watches.drain(..) {
            let _ = watch.unbounded_send(Err(std::io::Error::other("the connection was reset")));
        }
    }

    /// The writes since the last call, as "METHOD key", Leases left out.
    pub(crate) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().log)
            .into_iter()
            .filter(|w| !w.contains("leases/"))
            .collect()
    }

    async fn answer(&self, request: Request<Body>) -> Response<Answer> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let method = parts.method.clone();
        let full = parts
            .uri
            .path_and_query()
            .map(ToString::to_string)
            .unwrap_or_default();
        if let Some(before) = &*self.before.lock().unwrap() {
            before(self, method.as_str(), &full);
        }
        let refused = self
            .inner()
            .rules
            .iter()
            .find_map(|rule| rule(method.as_str(), &full));
        if let Some(code) = refused {
            return failure(code, "refused by the test");
        }
        let Some(route) = Route::of(parts.uri.path()) else {
            return failure(404, "no such path");
        };
        let query = parts.uri.query().unwrap_or_default();
        self.inner().handle(&method, &route, query, &body)
    }
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut all = query.split('&').filter_map(|p| p.split_once('='));
    all.find_map(|(found, value)| (found == name).then_some(value))
}

fn json_answer(code: u16, value: &Value) -> Response<Answer> {
    Response::builder()
        .status(code)
        .body(Answer::from(value.to_string()))
        .unwrap()
}

fn failure(code: u16, message: &str) -> Response<Answer> {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        504 => "Timeout",
        _ => "Invalid",
    };
    json_answer(
        code,
        &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code}),
    )
}

fn uid_is_immutable() -> Response<Answer> {
    let cause =
        json!({"reason": "FieldValueInvalid", "message": "field is immutable", "field": "metadata.uid"});
    let message = "metadata.uid: Invalid value: field is immutable";
    json_answer(
        422,
        &json!({"kind": "Status", "status": "Failure", "message": message, "reason": "Invalid", "code": 422, "details": {"causes": [cause]}}),
    )
}

impl Inner {
    fn store(&mut self, key: &str, mut object: Value) -> Value {
        self.version += 1;
        let version = self.version;
        let meta = &mut object["metadata"];
        meta["resourceVersion"] = version.to_string().into();
        let before = self.objects.get(key);
        if before.is_none() {
            meta["uid"] = format!("uid-{version}").into();
        }
        if object.get("spec") != before.and_then(|b| b.get("spec")) {
            let generation = before
                .and_then(|b| b["metadata"]["generation"].as_i64())
                .unwrap_or_default();
            object["metadata"]["generation"] = (generation + 1).into();
        }
        let what = if before.is_none() { "ADDED" } else { "MODIFIED" };
        self.objects.insert(key.to_owned(), object.clone());
        self.tell(what, key, &object);
        object
    }

    fn remove(&mut self, key: &str) {
        if let Some(mut object) = self.objects.remove(key) {
            self.version += 1;
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
            self.tell("DELETED", key, &object);
        }
    }

    fn tell(&mut self, what: &str, key: &str, object: &Value) {
        let line = json!({"type": what, "object": object}).to_string() + "\n";
        self.history.push((self.version, key.to_owned(), line.clone()));
        self.watches.retain(|(prefix, watch)| {
            !key.starts_with(prefix) || watch.unbounded_send(Ok(line.clone())).is_ok()
        });
    }

    fn handle(&mut self, method: &Method, route: &Route, query: &str, body: &[u8]) -> Response<Answer> {
        let Some(name) = &route.name else {
            return match *method {
                Method::POST => self.create(route, body),
                _ if query.contains("watch=true") => self.watch(route, query),
                _ => self.list(route, query),
            };
        };
        let key = route.key(name);
        if *method != Method::GET {
            let suffix = if route.status { "/status" } else { "" };
            self.log.push(format!("{method} {key}{suffix}"));
        }
        let found = match parameter(query, "resourceVersion").and_then(|v| v.parse().ok()) {
            Some(version) if *method == Method::GET => {
                if version > self.version {
                    return failure(504, "Too large resource version");
                }
                self.as_of(&key, version)
            }
            _ => self.objects.get(&key).cloned(),
        };
        match (method, found) {
            (&Method::PATCH, found) => self.patch(route, &key, query, body, found),
            (_, None) => failure(404, &format!("{key} not found")),
            (&Method::GET, Some(object)) => json_answer(200, &object),
            (&Method::PUT, Some(before)) => {
                let object: Value = serde_json::from_slice(body).unwrap();
                if object["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"] {
                    return failure(409, "the object has been modified");
                }
                json_answer(200, &self.store(&key, object))
            }
            (&Method::DELETE, Some(before)) => {
                let options: Value = serde_json::from_slice(body).unwrap_or_default();
                for (precondition, field) in [("uid", "uid"), ("resourceVersion", "resourceVersion")] {
                    let wanted = &options["preconditions"][precondition];
                    if !wanted.is_null() && *wanted != before["metadata"][field] {
                        return failure(409, "a precondition failed");
                    }
                }
                self.remove(&key);
                json_answer(200, &json!({"kind": "Status", "status": "Success"}))
            }
            _ => failure(405, "not known to the test"),
        }
    }

    /// The object as it was at a version.
    fn as_of(&self, key: &str, version: u64) -> Option<Value> {
        let mut before = self.history.iter().rev();
        let (_, _, line) = before.find(|(v, k, _)| *v <= version && k == key)?;
        let mut told: Value = serde_json::from_str(line).unwrap();
        (told["type"] != "DELETED").then(|| told["object"].take())
    }

    fn list(&mut self, route: &Route, query: &str) -> Response<Answer> {
        let of_group = |(version, _): &&(String, String)| *version == route.group_version;
        let served: Vec<_> = self
            .served
            .iter()
            .filter(of_group)
            .map(|(_, plural)| plural.clone())
            .collect();
        if route.plural.is_empty() {
            let resources: Vec<_> = served
                .iter()
                .map(|name| json!({"name": name, "singularName": "", "namespaced": true, "kind": "K", "verbs": ["list"]}))
                .collect();
            return json_answer(
                200,
                &json!({"kind": "APIResourceList", "groupVersion": route.group_version, "resources": resources}),
            );
        }
        if !served.contains(&route.plural) && route.plural != "leases" {
            return failure(404, "the server could not find the requested resource");
        }
        let labelled = query.contains("labelSelector");
        let items: Vec<_> = self
            .objects
            .iter()
            .filter(|(key, _)| route.holds(key))
            .map(|(_, object)| object)
            .filter(|object| {
                !labelled
                    || object["metadata"]["labels"]
                        .get(crate::domain::labels::NAME)
                        .is_some()
            })
            .collect();
        json_answer(
            200,
            &json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": self.version.to_string()}, "items": items}),
        )
    }

    fn watch(&mut self, route: &Route, query: &str) -> Response<Answer> {
        let (sender, receiver) = unbounded();
        let from = parameter(query, "resourceVersion").and_then(|v| v.parse().ok());
        for (version, key, line) in &self.history {
            if *version > from.unwrap_or(u64::MAX) && route.holds(key) {
                sender.unbounded_send(Ok(line.clone())).unwrap();
            }
        }
        let prefix = route
            .namespace
            .as_ref()
            .map_or(format!("{}/", route.plural), |n| format!("{}/{n}/", route.plural));
        self.watches.push((prefix, sender));
        Response::builder()
            .status(200)
            .body(Answer::from_stream(receiver))
            .unwrap()
    }

    fn create(&mut self, route: &Route, body: &[u8]) -> Response<Answer> {
        let object: Value = serde_json::from_slice(body).unwrap();
        let key = route.key(object["metadata"]["name"].as_str().unwrap_or_default());
        self.log.push(format!("POST {key}"));
        if self.objects.contains_key(&key) {
            return failure(409, &format!("{key} already exists"));
        }
        json_answer(201, &self.store(&key, object))
    }

    fn patch(
        &mut self,
        route: &Route,
        key: &str,
        query: &str,
        body: &[u8],
        found: Option<Value>,
    ) -> Response<Answer> {
        let patch: Value = serde_json::from_slice(body).unwrap();
        let manager = parameter(query, "fieldManager").unwrap_or("unknown").to_owned();
        let entry = json!({"manager": manager, "operation": "Apply", "subresource": if route.status { "status" } else { "" }});
        let wanted = &patch["metadata"];
        let Some(before) = found else {
            if route.status || !query.contains("fieldManager") {
                return failure(404, &format!("{key} not found"));
            }
            if !wanted["uid"].is_null() {
                return failure(409, "uid mismatch: no existing object was found");
            }
            let mut object = patch.clone();
            object["metadata"]["managedFields"] = json!([entry]);
            return json_answer(201, &self.store(key, object));
        };
        let there = &before["metadata"];
        if !route.status && !wanted["uid"].is_null() && wanted["uid"] != there["uid"] {
            return uid_is_immutable();
        }
        if !wanted["resourceVersion"].is_null() && wanted["resourceVersion"] != there["resourceVersion"] {
            return failure(409, "the object has been modified");
        }
        let mut object = before.clone();
        if route.status {
            merge_status(&mut object["status"], &patch["status"]);
        } else {
            for (field, value) in patch.as_object().unwrap() {
                if field == "metadata" {
                    for part in ["labels", "annotations"] {
                        for (name, value) in wanted[part].as_object().into_iter().flatten() {
                            object["metadata"][part][name] = value.clone();
                        }
                    }
                } else {
                    object[field] = value.clone();
                }
            }
        }
        let others = there["managedFields"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|f| f["manager"] != *manager);
        let owned = ["data", "spec"]
            .iter()
            .any(|f| !before[*f].is_null() && before[*f] != object[*f]);
        if others && owned && !query.contains("force=true") {
            return failure(409, "Apply failed with 1 conflict");
        }
        if object == before {
            return json_answer(200, &before);
        }
        let fields = object["metadata"]["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        if !fields.contains(&entry) {
            object["metadata"]["managedFields"] = fields.into_iter().chain([entry]).collect();
        }
        json_answer(200, &self.store(key, object))
    }
}

fn merge_status(status: &mut Value, patch: &Value) {
    for (field, value) in patch.as_object().into_iter().flatten() {
        if field != "conditions" {
            status[field] = value.clone();
            continue;
        }
        let new = value.as_array().cloned().unwrap_or_default();
        let mut all = status[field].as_array().cloned().unwrap_or_default();
        all.retain(|c| !new.iter().any(|n| n["type"] == c["type"]));
        all.extend(new);
        status[field] = all.into();
    }
}
