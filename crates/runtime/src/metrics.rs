//! What the metrics library lacks: summaries, and the text format that every scraper reads.

mod process;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

pub use process::process;

/// What `encode` writes, for the header of the answer.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Quantiles are about the observations of this time, in slices that are forgotten one by one.
const WINDOW: Duration = Duration::from_secs(600);
const SLICES: usize = 5;
/// A quantile is off by at most this share of its value.
const ERROR: f64 = 0.005;
/// Smaller values count as zero.
const SMALLEST: f64 = 1e-9;

/// A metric that tells quantiles of what was observed lately, for each set of label values.
#[derive(Debug)]
pub struct Summary {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    quantiles: &'static [f64],
    series: Mutex<BTreeMap<Vec<String>, Series>>,
}

#[derive(Debug)]
struct Series {
    sum: f64,
    count: u64,
    /// Invariant: at most `SLICES` long, oldest first, each with the time at which it began.
    slices: Vec<(Instant, Sketch)>,
}

/// How many observations there were of about each size. Sizes grow by a constant factor, so the error of a quantile is
/// relative and the memory is bounded by the range of values, whatever their number.
#[derive(Clone, Debug, Default)]
struct Sketch {
    total: u64,
    /// Zero, less than zero, and too small to tell from zero.
    not_positive: u64,
    by_size: BTreeMap<i32, u64>,
    least: Option<f64>,
    most: Option<f64>,
}

impl Summary {
    pub const fn new(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        quantiles: &'static [f64],
    ) -> Self {
        Self { name, help, labels, quantiles, series: Mutex::new(BTreeMap::new()) }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// One observation. The values are in the order of the labels. What is no number is not observed.
    pub fn observe(&self, values: &[&str], observation: f64) {
        debug_assert_eq!(values.len(), self.labels.len(), "label values of {}", self.name);
        if observation.is_nan() {
            return;
        }
        let key = values.iter().map(|value| (*value).to_owned()).collect();
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.entry(key).or_insert_with(Series::new).observe(observation, Instant::now());
    }

    /// Forgets a series, when its object is gone.
    pub fn remove(&self, values: &[&str]) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.retain(|key, _| !key.iter().map(String::as_str).eq(values.iter().copied()));
    }

    fn encode(&self, text: &mut String) -> fmt::Result {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if series.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        writeln!(text, "# HELP {} {}", self.name, self.help)?;
        writeln!(text, "# TYPE {} summary", self.name)?;
        for (values, series) in series.iter_mut() {
            let window = series.window(now);
            for quantile in self.quantiles {
                let value = window.quantile(*quantile);
                let labels = self.label_text(values, Some(*quantile));
                writeln!(text, "{}{labels} {}", self.name, number(value))?;
            }
            let labels = self.label_text(values, None);
            writeln!(text, "{}_sum{labels} {}", self.name, number(series.sum))?;
            writeln!(text, "{}_count{labels} {}", self.name, series.count)?;
        }
        Ok(())
    }

    fn label_text(&self, values: &[String], quantile: Option<f64>) -> String {
        let pairs = self.labels.iter().zip(values).map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
        let pairs: Vec<String> = pairs.chain(quantile.map(|value| format!("quantile=\"{}\"", number(value)))).collect();
        if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
    }
}

impl Series {
    fn new() -> Self {
        Self { sum: 0.0, count: 0, slices: Vec::new() }
    }

    fn observe(&mut self, observation: f64, now: Instant) {
        self.sum += observation;
        self.count += 1;
        self.forget(now);
        match self.slices.last_mut() {
            Some((began, sketch)) if now.duration_since(*began) < slice_length() => sketch.observe(observation),
            _ => {
                let mut sketch = Sketch::default();
                sketch.observe(observation);
                self.slices.push((now, sketch));
            }
        }
    }

    fn forget(&mut self, now: Instant) {
        self.slices.retain(|(began, _)| now.duration_since(*began) < WINDOW);
    }

    fn window(&mut self, now: Instant) -> Sketch {
        self.forget(now);
        self.slices.iter().fold(Sketch::default(), |sum, (_, sketch)| sum.merged(sketch))
    }
}

impl Sketch {
    fn observe(&mut self, observation: f64) {
        self.total += 1;
        if observation < SMALLEST {
            self.not_positive += 1;
        } else {
            *self.by_size.entry(size_of(observation)).or_default() += 1;
        }
        self.least = Some(self.least.map_or(observation, |least| least.min(observation)));
        self.most = Some(self.most.map_or(observation, |most| most.max(observation)));
    }

    fn merged(mut self, other: &Self) -> Self {
        self.total += other.total;
        self.not_positive += other.not_positive;
        for (size, count) in &other.by_size {
            *self.by_size.entry(*size).or_default() += count;
        }
        self.least = self.least.into_iter().chain(other.least).reduce(f64::min);
        self.most = self.most.into_iter().chain(other.most).reduce(f64::max);
        self
    }

    /// Not a number when nothing was observed.
    fn quantile(&self, quantile: f64) -> f64 {
        let (Some(least), Some(most)) = (self.least, self.most) else { return f64::NAN };
        let rank = (quantile * self.total as f64).ceil() as u64;
        if rank <= 1 {
            return least;
        }
        if rank >= self.total {
            return most;
        }
        let mut seen = self.not_positive;
        if rank <= seen {
            return least.min(0.0);
        }
        for (size, count) in &self.by_size {
            seen += count;
            if rank <= seen {
                return middle_of(*size).clamp(least, most);
            }
        }
        most
    }
}

fn slice_length() -> Duration {
    WINDOW / SLICES as u32
}

/// The factor between two sizes.
fn growth() -> f64 {
    (1.0 + ERROR) / (1.0 - ERROR)
}

fn size_of(observation: f64) -> i32 {
    (observation.ln() / growth().ln()).ceil() as i32
}

/// What is off by the same share from both ends of a size.
fn middle_of(size: i32) -> f64 {
    growth().powi(size) * 2.0 / (1.0 + growth())
}

/// Everything in the text format of Prometheus. The library writes OpenMetrics, where a counter's family lacks the
/// `_total` of its samples; scrapers that do not know OpenMetrics would take them for two things.
pub fn encode(registry: &Registry, summaries: &[&Summary]) -> Result<String, fmt::Error> {
    let mut open = String::new();
    encode_registry(&mut open, registry)?;
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (ending, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                writeln!(text, "# HELP {name}{ending} {help}")?;
            }
            writeln!(text, "# TYPE {name}{ending} {kind}")?;
        } else if !line.starts_with("# UNIT ") {
            writeln!(text, "{line}")?;
        }
    }
    for summary in summaries {
        summary.encode(&mut text)?;
    }
    Ok(text)
}

/// One sample of a family: its labels by name, and its value.
pub type Sample<'a> = (Vec<(Cow<'a, str>, Cow<'a, str>)>, f64);

/// A whole family in the text format, for facts that are looked up when somebody asks and kept nowhere in between. A family
/// without samples is not written at all.
pub fn write_family<'a>(
    text: &mut String,
    (name, kind, help): (&str, &str, &str),
    samples: impl IntoIterator<Item = Sample<'a>>,
) -> fmt::Result {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    writeln!(text, "# HELP {name} {help}")?;
    writeln!(text, "# TYPE {name} {kind}")?;
    for (labels, value) in samples {
        text.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            text.push(if index == 0 { '{' } else { ',' });
            write!(text, "{label}=\"{}\"", escaped(value))?;
        }
        if !labels.is_empty() {
            text.push('}');
        }
        writeln!(text, " {}", number(value))?;
    }
    Ok(())
}

fn number(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else if value == f64::NEG_INFINITY {
        "-Inf".to_owned()
    } else {
        value.to_string()
    }
}

fn escaped(value: &str) -> Cow<'_, str> {
    // Names of objects have nothing to escape, and a big cluster has very many of them.
    if !value.contains(['\\', '"', '\n']) {
        return Cow::Borrowed(value);
    }
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::EncodeLabelSet;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::info::Info;

    use super::*;

    const QUANTILES: &[f64] = &[0.0, 0.5, 0.9, 0.99, 1.0];

    fn text_of(summary: &Summary) -> String {
        encode(&Registry::default(), &[summary]).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_summary_is_written_as_scrapers_expect_it() {
        let summary = Summary::new("stay_seconds", "How long they stay.", &["pool"], QUANTILES);
        assert_eq!(text_of(&summary), "");
        summary.observe(&["b"], 8.0);
        summary.observe(&["a\"\\"], f64::NAN);
        summary.observe(&["a\"\\"], 2.0);
        summary.observe(&["a\"\\"], 4.0);
        let expected = r#"# HELP stay_seconds How long they stay.
# TYPE stay_seconds summary
stay_seconds{pool="a\"\\",quantile="0"} 2
stay_seconds{pool="a\"\\",quantile="0.5"} 2
stay_seconds{pool="a\"\\",quantile="0.9"} 4
stay_seconds{pool="a\"\\",quantile="0.99"} 4
stay_seconds{pool="a\"\\",quantile="1"} 4
stay_seconds_sum{pool="a\"\\"} 6
stay_seconds_count{pool="a\"\\"} 2
"#;
        assert!(text_of(&summary).starts_with(expected), "{}", text_of(&summary));
        summary.remove(&["a\"\\"]);
        assert!(!text_of(&summary).contains("a\\"), "{}", text_of(&summary));
    }

    #[tokio::test(start_paused = true)]
    async fn quantiles_are_about_the_last_minutes_and_sums_about_all_time() {
        let summary = Summary::new("x", "X.", &[], &[0.5]);
        summary.observe(&[], 100.0);
        tokio::time::sleep(WINDOW / 2).await;
        summary.observe(&[], 1.0);
        summary.observe(&[], 1.0);
        assert!(text_of(&summary).contains("x{quantile=\"0.5\"} 1\n"), "{}", text_of(&summary));
        tokio::time::sleep(WINDOW).await;
        let text = text_of(&summary);
        assert!(text.contains("x{quantile=\"0.5\"} NaN\nx_sum 102\nx_count 3\n"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn quantiles_are_close_and_memory_is_bounded() {
        let mut sketch = Sketch::default();
        for number in 1..=100_000_u32 {
            // A permutation: 7919 and 100000 have no common factor.
            sketch.observe(f64::from(number * 7919 % 100_000) / 100.0);
        }
        for quantile in [0.1, 0.5, 0.9, 0.99] {
            let exact = quantile * 1000.0;
            let told = sketch.quantile(quantile);
            assert!((told - exact).abs() <= exact * 0.0051 + 0.01, "{quantile}: {told} instead of {exact}");
        }
        assert_eq!((sketch.quantile(0.0), sketch.quantile(1.0)), (0.0, 999.99));
        assert!(sketch.by_size.len() < 1500, "{}", sketch.by_size.len());
    }

    #[test]
    fn odd_observations_are_counted_and_break_nothing() {
        let mut sketch = Sketch::default();
        for odd in [-3.0, 0.0, 1e-300, f64::INFINITY] {
            sketch.observe(odd);
        }
        assert_eq!((sketch.quantile(0.0), sketch.quantile(0.5), sketch.quantile(1.0)), (-3.0, -3.0, f64::INFINITY));
        assert_eq!(number(sketch.quantile(1.0)), "+Inf");
    }

    #[test]
    fn facts_are_written_as_a_family_when_somebody_asks() {
        let mut text = String::new();
        write_family(&mut text, ("empty", "gauge", "Nothing."), []).unwrap();
        let labels = |pool: &'static str| vec![(Cow::from("pool"), Cow::from(pool)), ("zone".into(), "a".into())];
        let samples = [(labels("x\"y"), 0.5), (labels("z"), 2.0)];
        write_family(&mut text, ("free", "gauge", "Free."), samples).unwrap();
        write_family(&mut text, ("synced", "gauge", "Synced."), [(Vec::new(), 1.0)]).unwrap();
        let expected = "# HELP free Free.\n# TYPE free gauge\nfree{pool=\"x\\\"y\",zone=\"a\"} 0.5\n\
            free{pool=\"z\",zone=\"a\"} 2\n# HELP synced Synced.\n# TYPE synced gauge\nsynced 1\n";
        assert_eq!(text, expected);
    }

    #[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
    struct Labels {
        pool: &'static str,
    }

    #[test]
    fn other_metrics_are_written_in_the_old_format() {
        let mut registry = Registry::with_prefix("app");
        let made: Family<Labels, Counter> = Family::default();
        made.get_or_create(&Labels { pool: "a" }).inc_by(2);
        registry.register("made", "Made", made);
        registry.register("empty", "Never seen", Family::<Labels, Counter>::default());
        registry.register("depth", "Depth", Gauge::<i64>::default());
        registry.register("build", "Build", Info::new([("version", "1")]));
        let expected = "# HELP app_made_total Made.\n# TYPE app_made_total counter\napp_made_total{pool=\"a\"} 2\n\
            # HELP app_depth Depth.\n# TYPE app_depth gauge\napp_depth 0\n\
            # HELP app_build_info Build.\n# TYPE app_build_info gauge\napp_build_info{version=\"1\"} 1\n";
        assert_eq!(encode(&registry, &[]).unwrap(), expected);
    }
}
