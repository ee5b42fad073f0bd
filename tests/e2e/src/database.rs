//! A SampleDB, and a client that knows nothing but its Secret.

use serde_json::Value;

use crate::cluster::Namespace;
use crate::wait::{eventually, within};

/// A SampleDB of a test.
pub struct Database<'a> {
    /// Where it is.
    pub namespace: &'a Namespace,
    /// Its name.
    pub name: String,
}

/// A condition of an object: (status, reason, message).
pub fn condition(object: &Value, type_: &str) -> Option<(String, String, String)> {
    let found = object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|c| c["type"] == type_)?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

impl<'a> Database<'a> {
    /// The manifest with the least in it; `spec` is added to `spec` as flow-style YAML members (", a: b").
    pub fn manifest(name: &str, spec: &str) -> String {
        format!(
            "{{apiVersion: sampledb.dev/v1, kind: SampleDB, metadata: {{name: {name}}}, \
             spec: {{postgres: {{version: \"17\"}}, storage: {{data: {{size: 512Mi}}}}{spec}}}}}"
        )
    }

    /// Applies one and does not wait.
    pub fn create(namespace: &'a Namespace, name: &str, spec: &str) -> Self {
        namespace.apply(&Self::manifest(name, spec)).unwrap();
        Self {
            namespace,
            name: name.into(),
        }
    }

    /// Applies one and waits until it is Ready.
    pub fn ready(namespace: &'a Namespace, name: &str, spec: &str) -> Self {
        let database = Self::create(namespace, name, spec);
        database.wait_ready();
        database
    }

    /// The object.
    pub fn object(&self) -> Value {
        self.namespace
            .get("sampledb", &self.name)
            .unwrap_or_else(|| panic!("the SampleDB {} is gone", self.name))
    }

    /// Waits until it is Ready for the generation it has.
    pub fn wait_ready(&self) {
        self.wait_for("Ready", "True");
    }

    /// Waits until a condition has a status for the current generation; its reason and message.
    pub fn wait_for(&self, type_: &str, status: &str) -> (String, String) {
        eventually(&format!("{type_}={status} of {}", self.name), || {
            let object = self.object();
            let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            match condition(&object, type_) {
                Some((s, reason, message)) if s == status && current => Ok((reason, message)),
                other => Err(format!(
                    "{other:?}, Ready {:?}, current {current}",
                    condition(&object, "Ready")
                )),
            }
        })
    }

    /// Waits until a condition has a status and a reason; its message.
    pub fn wait_for_reason(&self, type_: &str, status: &str, reason: &str) -> String {
        eventually(
            &format!("{type_}={status}/{reason} of {}", self.name),
            || match condition(&self.object(), type_) {
                Some((s, r, message)) if s == status && r == reason => Ok(message),
                other => Err(format!("{other:?}")),
            },
        )
    }

    /// A merge patch, as `kubectl patch`; the refusal when there is one.
    pub fn patch(&self, patch: &str) -> Result<String, String> {
        self.namespace
            .try_kubectl(&["patch", "sampledb", &self.name, "--type=merge", "-p", patch])
    }

    /// Runs a shell line in the container of PostgreSQL.
    pub fn in_postgres(&self, line: &str) -> Result<String, String> {
        self.namespace.try_kubectl(&[
            "exec",
            &format!("{}-0", self.name),
            "-c",
            "postgres",
            "--",
            "bash",
            "-c",
            line,
        ])
    }

    /// The UID of a child.
    pub fn uid(&self, kind: &str, name: &str) -> Option<String> {
        Some(
            self.namespace.get(kind, name)?["metadata"]["uid"]
                .as_str()?
                .to_owned(),
        )
    }

    /// A client beside it.
    pub fn client(&self) -> Client<'a> {
        let pod = format!("client-{}", self.name);
        let manifest = format!(
            r#"{{apiVersion: v1, kind: Pod, metadata: {{name: {pod}}}, spec: {{
                automountServiceAccountToken: false, terminationGracePeriodSeconds: 0,
                securityContext: {{runAsNonRoot: true, runAsUser: 999, seccompProfile: {{type: RuntimeDefault}}}},
                containers: [{{name: client, image: "{image}", imagePullPolicy: IfNotPresent, command: [sleep, infinity],
                  env: [{{name: PGSSLROOTCERT, value: /etc/db/ca.crt}}, {{name: PGCONNECT_TIMEOUT, value: "5"}}],
                  securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}},
                  volumeMounts: [{{name: db, mountPath: /etc/db}}]}}],
                volumes: [{{name: db, secret: {{secretName: {name}-app}}}}]}}}}"#,
            image = crate::postgres_image(),
            name = self.name
        );
        self.namespace.apply(&manifest).unwrap();
        self.namespace
            .kubectl(&["wait", "pod", &pod, "--for=condition=Ready", "--timeout=180s"]);
        Client {
            namespace: self.namespace,
            pod,
        }
    }
}

/// A pod with psql that has the Secret mounted and nothing else.
pub struct Client<'a> {
    namespace: &'a Namespace,
    pod: String,
}

impl Client<'_> {
    /// Runs SQL through the `uri` of the Secret; psql's words when it fails.
    pub fn try_sql(&self, sql: &str) -> Result<String, String> {
        let line = r#"exec psql "$(cat /etc/db/uri)" -XAtq -v ON_ERROR_STOP=1 -c "$0""#;
        self.namespace
            .try_kubectl(&["exec", &self.pod, "--", "bash", "-c", line, sql])
            .map(|answer| answer.trim().to_owned())
    }

    /// Runs SQL as soon as the database takes it.
    pub fn sql(&self, sql: &str) -> String {
        within(120, &format!("psql -c '{sql}'"), || self.try_sql(sql))
    }

    /// A shell line in the client's pod.
    pub fn shell(&self, line: &str) -> Result<String, String> {
        self.namespace
            .try_kubectl(&["exec", &self.pod, "--", "bash", "-c", line])
    }
}
