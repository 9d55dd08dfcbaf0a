//! Logs as lines of JSON, in the shape that dashboards of the reference read.
//!
//! ```text
//! {"level":"INFO","time":"2026-01-01T00:00:00.000Z","logger":"controller","message":"created nodeclaim",
//!  "controller":"provisioner","reconcileID":"…","NodePool":{"name":"default"},"NodeClaim":{"name":"default-x2b4c"}}
//! ```
//!
//! What spans say comes first, from the outermost to the innermost, then what the line itself says. A field such as
//! `NodePool.name` becomes a member of an object, because a Kubernetes kind is one.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Stderr, Stdout, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::clock::Clock;
use crate::error::RuntimeError;

/// Of equal lines within a second so many are written, and then each of so many.
const SAMPLE: u64 = 100;
/// More different lines than this in one second are not told apart.
const MOST_SAMPLED: usize = 4096;

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Stdout,
    Stderr,
    File(PathBuf),
}

#[derive(Clone, Debug)]
pub struct LogSettings {
    pub level: Level,
    pub places: Vec<Place>,
    /// Crates whose debug lines are worth reading. Of others only what is more important is written.
    pub ours: &'static [&'static str],
    /// What this was built from, if that is known.
    pub commit: Option<&'static str>,
}

/// From here on, everything that anybody logs is written. Can be called once.
pub fn install(settings: &LogSettings, clock: Clock) -> Result<(), RuntimeError> {
    let layer = JsonLines::new(settings, clock)?;
    tracing::subscriber::set_global_default(Registry::default().with(layer)).map_err(|_| RuntimeError::LogInstalled)
}

struct JsonLines {
    level: Level,
    ours: &'static [&'static str],
    commit: Option<&'static str>,
    clock: Clock,
    outputs: Vec<Output>,
    samples: Mutex<Samples>,
}

enum Output {
    Stdout(Stdout),
    Stderr(Stderr),
    File(Mutex<File>),
}

#[derive(Default)]
struct Samples {
    second: i64,
    counts: BTreeMap<String, u64>,
}

/// What a span said when it was made, and later.
struct Said(Map<String, Value>);

impl JsonLines {
    fn new(settings: &LogSettings, clock: Clock) -> Result<Self, RuntimeError> {
        let outputs: Result<Vec<Output>, RuntimeError> = settings.places.iter().map(Output::open).collect();
        let LogSettings { level, ours, commit, .. } = *settings;
        Ok(Self { level, ours, commit, clock, outputs: outputs?, samples: Mutex::default() })
    }

    fn line(&self, metadata: &Metadata<'_>, mut own: Map<String, Value>, spans: Map<String, Value>) -> String {
        let message = own.remove("message").unwrap_or_default();
        let mut line = Map::new();
        line.insert("level".to_owned(), metadata.level().to_string().into());
        line.insert("time".to_owned(), format!("{:.3}", self.clock.now()).into());
        line.insert("logger".to_owned(), "controller".into());
        line.insert("message".to_owned(), message);
        line.extend(self.commit.map(|commit| ("commit".to_owned(), commit.into())));
        line.extend(spans);
        line.extend(own);
        let mut text = Value::Object(nested(line)).to_string();
        text.push('\n');
        text
    }

    fn is_sampled(&self, message: &str) -> bool {
        let second = self.clock.now().as_second();
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.second != second || samples.counts.len() > MOST_SAMPLED {
            *samples = Samples { second, counts: BTreeMap::new() };
        }
        let count = samples.counts.entry(message.to_owned()).or_default();
        *count += 1;
        *count <= SAMPLE || count.is_multiple_of(SAMPLE)
    }
}

impl Output {
    fn open(place: &Place) -> Result<Self, RuntimeError> {
        Ok(match place {
            Place::Stdout => Self::Stdout(std::io::stdout()),
            Place::Stderr => Self::Stderr(std::io::stderr()),
            Place::File(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                let file = file.map_err(|source| RuntimeError::LogFile { path: path.clone(), source })?;
                Self::File(Mutex::new(file))
            }
        })
    }

    /// Whoever cannot log has nobody to tell.
    fn write(&self, line: &str) {
        let _ = match self {
            Self::Stdout(stdout) => stdout.lock().write_all(line.as_bytes()),
            Self::Stderr(stderr) => stderr.lock().write_all(line.as_bytes()),
            Self::File(file) => file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes()),
        };
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        if metadata.is_span() {
            return self.ours.iter().any(|ours| metadata.target().starts_with(ours));
        }
        let is_ours = || self.ours.iter().any(|ours| metadata.target().starts_with(ours));
        *metadata.level() <= self.level && (*metadata.level() <= Level::INFO || is_ours())
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Said(fields.0));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(span) = context.span(id)
            && let Some(said) = span.extensions_mut().get_mut::<Said>()
        {
            said.0.extend(fields.0);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.get("message").and_then(Value::as_str).unwrap_or_default();
        if !self.is_sampled(message) {
            return;
        }
        let mut spans = Map::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(said) = span.extensions().get::<Said>() {
                spans.extend(said.0.clone());
            }
        }
        let line = self.line(event.metadata(), fields.0, spans);
        self.outputs.iter().for_each(|output| output.write(&line));
    }
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

/// Turns `NodePool.name` into an object of that kind, and `NodePool` with a bare name too. Other names stay as they are.
fn nested(line: Map<String, Value>) -> Map<String, Value> {
    let mut result = Map::new();
    for (name, value) in line {
        if let Some(object) = object_of(&name, &value) {
            result.insert(name, object);
            continue;
        }
        let parts = name.split_once('.').filter(|(kind, _)| kind.starts_with(|first: char| first.is_ascii_uppercase()));
        match parts {
            Some((kind, member)) => {
                let object = result.entry(kind.to_owned()).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(members) = object {
                    members.insert(member.to_owned(), value);
                }
            }
            None => drop(result.insert(name, value)),
        }
    }
    result
}

/// An object by its name, with its namespace if it has one. A kind is a word with a capital, and in the singular.
fn object_of(kind: &str, value: &Value) -> Option<Value> {
    let is_kind =
        kind.starts_with(|first: char| first.is_ascii_uppercase()) && !kind.contains('.') && !kind.ends_with('s');
    let name = value.as_str().filter(|_| is_kind)?;
    let members = match name.split_once('/') {
        Some((namespace, name)) => vec![("name", name), ("namespace", namespace)],
        None => vec![("name", name)],
    };
    Some(members.into_iter().map(|(member, text)| (member.to_owned(), Value::from(text))).collect::<Map<_, _>>().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logs into a file, and gives back its lines.
    fn lines(level: Level, work: impl FnOnce()) -> Vec<Value> {
        let path =
            std::env::temp_dir().join(format!("dovetail-log-{}-{:?}", std::process::id(), std::thread::current().id()));
        let _ = std::fs::remove_file(&path);
        let settings =
            LogSettings { level, places: vec![Place::File(path.clone())], ours: &["runtime"], commit: Some("c0ffee") };
        let clock = Clock::virtual_from("2026-01-01T00:00:00.25Z".parse().unwrap());
        let layer = JsonLines::new(&settings, clock).unwrap();
        tracing::subscriber::with_default(Registry::default().with(layer), work);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_has_the_fields_of_its_spans_and_kinds_are_objects() {
        let lines = lines(Level::INFO, || {
            let span = tracing::info_span!("reconcile", controller = "provisioner", "reconcileID" = %7);
            let _entered = span.enter();
            tracing::info!(
                NodePool.name = "default",
                pods = 3,
                "taint.Key" = "x",
                Pod = "shop/web",
                Pods = "a, b",
                "created"
            );
            tracing::debug!("not at this level");
        });
        let expected = serde_json::json!([{
            "level": "INFO", "time": "2026-01-01T00:00:00.250Z", "logger": "controller", "message": "created",
            "commit": "c0ffee", "controller": "provisioner", "reconcileID": "7", "NodePool": {"name": "default"}, "pods": 3, "taint.Key": "x",
            "Pod": {"namespace": "shop", "name": "web"}, "Pods": "a, b",
        }]);
        assert_eq!(Value::from(lines), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn debug_lines_of_others_are_left_out() {
        let lines = lines(Level::DEBUG, || {
            tracing::debug!(target: "hyper::client", "noise");
            tracing::warn!(target: "hyper::client", "trouble");
            tracing::debug!("ours");
        });
        let messages: Vec<&str> = lines.iter().filter_map(|line| line["message"].as_str()).collect();
        assert_eq!(messages, ["trouble", "ours"]);
    }

    #[tokio::test(start_paused = true)]
    async fn equal_lines_of_one_second_are_thinned_out() {
        let lines = lines(Level::INFO, || {
            for number in 0..350 {
                tracing::info!(number, "again");
            }
            tracing::info!("another");
        });
        assert_eq!(lines.len(), 100 + 2 + 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let settings = LogSettings {
            level: Level::INFO,
            places: vec![Place::File("/nowhere/log".into())],
            ours: &[],
            commit: None,
        };
        let error = JsonLines::new(&settings, Clock::wall()).err().unwrap();
        assert!(error.to_string().contains("/nowhere/log"), "{error}");
    }
}
