//! Logs: one JSON object a line on standard output.
//!
//! `ts` (RFC 3339, UTC, microseconds), `level`, `controller`, `message`, then the fields of the spans from the
//! outermost in and of the event itself. A dotted field becomes an object: `object.name` stands in `object{name}`.

use std::fmt;
use std::io::Write;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

/// Why the logs could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is not one.
    #[error(
        "log level {0:?}: use error, warn, info, debug or trace, or target=level pairs with commas between"
    )]
    Level(String),
    /// The process logs already.
    #[error("the logs were set up twice")]
    Twice,
}

/// Starts logging for the whole process. `level` is a level or `target=level` pairs with commas between.
pub fn start(name: &'static str, level: &str) -> Result<(), LogError> {
    let filter = filter(level)?;
    let lines = Lines {
        name,
        now,
        out: std::io::stdout,
    };
    Registry::default()
        .with(lines.with_filter(filter))
        .try_init()
        .map_err(|_| LogError::Twice)?;
    log_panics();
    Ok(())
}

/// The client library logs whole answers of the API server when it cannot read them, and such an answer may be a
/// Secret: whatever the level, it says no more than errors.
fn filter(level: &str) -> Result<Targets, LogError> {
    let asked: Targets = level.parse().map_err(|_| LogError::Level(level.to_owned()))?;
    Ok(asked
        .with_target("kube_client", LevelFilter::ERROR)
        .with_target("kube_runtime", LevelFilter::ERROR)
        .with_target("hyper", LevelFilter::WARN)
        .with_target("hyper_util", LevelFilter::WARN)
        .with_target("rustls", LevelFilter::WARN)
        .with_target("tower", LevelFilter::WARN))
}

/// A panic is a line of the log like any other.
fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(event = "panic", place, "{}", panic_text(info.payload()));
    }));
}

/// What a panic said.
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

#[allow(
    clippy::disallowed_methods,
    reason = "a line of the log says when it was written"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

struct Lines<W> {
    name: &'static str,
    now: fn() -> Timestamp,
    out: fn() -> W,
}

struct Fields(Map<String, Value>);

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Write + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields(Map::new());
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            record.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let meta = event.metadata();
        let mut fields = Fields(Map::new());
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                merge(&mut fields.0, &of_span.0);
            }
        }
        event.record(&mut fields);
        let Fields(mut fields) = fields;
        let mut text = String::with_capacity(256);
        let now = (self.now)();
        put(&mut text, "ts", &format!("{now:.6}").into());
        put(
            &mut text,
            "level",
            &meta.level().as_str().to_ascii_lowercase().into(),
        );
        put(&mut text, "controller", &self.name.into());
        if let Some(message) = fields.remove("message") {
            put(&mut text, "message", &message);
        }
        if !meta.target().starts_with("sampledb") {
            put(&mut text, "target", &meta.target().into());
        }
        for own in ["ts", "level", "controller", "target"] {
            fields.remove(own);
        }
        for (key, value) in &fields {
            put(&mut text, key, value);
        }
        text.push_str("}\n");
        // A log that cannot be written has nowhere to say so.
        let _ = (self.out)().write_all(text.as_bytes());
    }
}

fn put(line: &mut String, key: &str, value: &Value) {
    use std::fmt::Write;
    let open = if line.is_empty() { '{' } else { ',' };
    let _ = write!(line, "{open}{}:{value}", Value::from(key));
}

fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(more)) => merge(inner, more),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match field.name().split_once('.') {
            None => {
                self.0.insert(field.name().to_owned(), value);
            }
            Some((outer, inner)) => {
                let object = self.0.entry(outer).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(object) = object {
                    object.insert(inner.to_owned(), value);
                }
            }
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

    struct Memory;

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            WRITTEN.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_names_the_object_the_controller_and_the_pass() {
        let lines = Lines {
            name: "sampledb-provisioner",
            now: || Timestamp::UNIX_EPOCH,
            out: || Memory,
        };
        let subscriber = Registry::default().with(lines.with_filter(filter("info").unwrap()));
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!(
                "reconcile",
                object.namespace = "shop",
                object.name = "orders",
                object.generation = tracing::field::Empty,
                reconcile_id = "ab12"
            );
            span.record("object.generation", 3);
            let _entered = span.enter();
            tracing::info!(event = "applied", changed = true, "two objects were applied");
            tracing::debug!("not wanted at this level");
            tracing::warn!(target: "kube_client::client", "an answer that could not be read: c2VjcmV0");
        });
        let text = String::from_utf8(WRITTEN.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.starts_with("{\"ts\":\"1970"),
            "what a person looks for comes first: {text}"
        );
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            line,
            serde_json::json!({
                "ts": "1970-01-01T00:00:00.000000Z", "level": "info", "controller": "sampledb-provisioner",
                "object": {"namespace": "shop", "name": "orders", "generation": 3}, "reconcile_id": "ab12",
                "event": "applied", "changed": true, "message": "two objects were applied",
            })
        );
    }

    #[test]
    fn a_debug_level_never_lets_the_client_print_a_secret() {
        let filter = filter("trace,kube_client=trace").unwrap();
        assert!(!filter.would_enable("kube_client::client", &tracing::Level::WARN));
        assert!(filter.would_enable("sampledb_shared::runtime", &tracing::Level::TRACE));
    }

    #[test]
    fn a_level_that_is_none_is_refused_with_the_right_ones() {
        assert!(filter("loud=very").unwrap_err().to_string().contains("debug"));
    }
}
