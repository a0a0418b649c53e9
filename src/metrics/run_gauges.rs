//! The run view's figures as gauges: milliseconds of the report become seconds.
//!
//! A collector of its own in place of `prometheus`' vectors: series come and go with the runs, and two labels, `run` and
//! `model`, are free text, which those vectors would mix up ("ab", "c" and "a", "bc" are one series to them).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};

use super::declare::NO_LABELS;
use super::registry::Metrics;
use crate::distribution::Figures;
use crate::numeric::seconds;
use crate::report::{Measure, Part, RunSummary};

/// The labels of a part of a run.
const PART: [&str; 3] = ["run", "model", "window"];
/// Those of a measure that is told apart by who took it.
const PART_AND_SOURCE: [&str; 4] = ["run", "model", "window", "source"];

/// A measure's families of gauges.
struct Families {
    measure: Measure,
    /// What the families' names begin with, the unit left out.
    name: &'static str,
    source: Option<&'static str>,
    /// What is summarised, for the help.
    what: &'static str,
}

const fn families(measure: Measure, name: &'static str, source: Option<&'static str>, what: &'static str) -> Families {
    Families { measure, name, source, what }
}

static FAMILIES: [Families; 12] = [
    families(
        Measure::StreamTtft,
        "duplex_stream_ttft",
        None,
        "stream TTFT of sessions: input stream start to first non-empty text delta",
    ),
    families(
        Measure::StreamTtfp,
        "duplex_stream_ttfp",
        None,
        "stream TTFP of sessions: input stream start to first audio packet",
    ),
    families(
        Measure::StreamRtf,
        "duplex_stream_rtf",
        None,
        "stream real-time factor of sessions; it includes the time the user speaks",
    ),
    families(Measure::ResponseTtft, "duplex_response_ttft", Some("reported"), TTFT),
    families(Measure::ServerTtft, "duplex_response_ttft", Some("server"), TTFT),
    families(Measure::ClientTtft, "duplex_response_ttft", Some("client"), TTFT),
    families(Measure::ResponseTtfp, "duplex_response_ttfp", Some("reported"), TTFP),
    families(Measure::ServerTtfp, "duplex_response_ttfp", Some("server"), TTFP),
    families(Measure::ClientTtfp, "duplex_response_ttfp", Some("client"), TTFP),
    families(
        Measure::ResponseRtf,
        "duplex_response_rtf",
        None,
        "real-time factor of responses: created to last audio packet, by audio emitted",
    ),
    families(Measure::Tpot, "duplex_response_tpot", None, "stage-0 time per output token of responses"),
    families(
        Measure::AudioGap,
        "duplex_response_audio_gap",
        None,
        "largest gap between two audio packets of a response",
    ),
];

const TTFT: &str = "TTFT of responses, by who measured it: the server, or the client from response.created on; reported is the \
                    server's where it sent one, else the client's, as the report has it";
const TTFP: &str = "TTFP of responses, by who measured it: the server, or the client from response.created on; reported is the \
                    server's where it sent one, else the client's, as the report has it";

/// A figure's suffix, its words in the help, and where it is.
type Statistic = (&'static str, &'static str, fn(&Figures) -> f64);

const STATISTICS: [Statistic; 5] = [
    ("mean", "Mean of the", |figures| figures.mean),
    ("p50", "Median, by nearest rank, of the", |figures| figures.p50),
    ("p90", "90th percentile, by nearest rank, of the", |figures| figures.p90),
    ("p99", "99th percentile, by nearest rank, of the", |figures| figures.p99),
    ("max", "Maximum of the", |figures| figures.max),
];

/// The gauges of every run that was last set.
#[derive(Clone, Debug)]
pub(super) struct RunGauges {
    descriptions: Arc<Vec<Desc>>,
    runs: Arc<Mutex<Vec<RunSummary>>>,
}

impl Metrics {
    /// Sets the gauges of these runs; those of every other run go. What has no sample has no series, nor has what is not
    /// known.
    pub fn set_runs(&self, runs: Vec<RunSummary>, not_shown: Option<usize>) {
        let family = &self.catalog().runs_not_shown;
        match not_shown {
            Some(runs) => family.with_label_values(NO_LABELS).set(i64::try_from(runs).unwrap_or(i64::MAX)),
            None => family.reset(),
        }
        *self.run_gauges().runs.lock().unwrap_or_else(PoisonError::into_inner) = runs;
    }
}

impl Families {
    fn unit(&self) -> &'static str {
        if self.measure.is_ratio() { "" } else { "_seconds" }
    }

    fn add(&self, to: &mut Gathered, run: &str, part: &Part) {
        let Some(figures) = part.figures.get(&self.measure) else { return };
        let in_unit = |value| if self.measure.is_ratio() { value } else { seconds(value) };
        let labels = labels_of(run, part, self.source);
        for (suffix, words, of) in STATISTICS {
            let name = format!("{}{}_{suffix}", self.name, self.unit());
            to.add(name, || format!("{words} {}.", self.what), &labels, in_unit(of(figures)));
        }
        let help = || format!("Samples of the {}.", self.what);
        to.add(format!("{}_samples", self.name), help, &labels, figures.count as f64);
    }
}

/// Families as they are put together.
#[derive(Default)]
struct Gathered(BTreeMap<String, MetricFamily>);

impl Gathered {
    fn add(&mut self, name: String, help: impl FnOnce() -> String, labels: &[LabelPair], value: f64) {
        let family = self.0.entry(name).or_insert_with_key(|name| {
            let mut family = MetricFamily::default();
            family.set_name(name.clone());
            family.set_help(help());
            family.set_field_type(MetricType::GAUGE);
            family
        });
        let (mut gauge, mut metric) = (Gauge::default(), Metric::default());
        gauge.set_value(value);
        metric.set_label(labels.to_vec());
        metric.set_gauge(gauge);
        family.mut_metric().push(metric);
    }

    fn add_run(&mut self, run: &RunSummary) {
        let id = &run.run_id;
        if let Some(at) = run.last_event {
            let help = || "Record timestamp of the last event of a run's finished sessions.".to_owned();
            let labels = [label("run", id)];
            self.add("duplex_run_last_event_timestamp_seconds".into(), help, &labels, at.as_secs_f64());
        }
        for part in &run.parts {
            let labels = labels_of(id, part, None);
            let help = || "Sessions finished in a run.".to_owned();
            self.add("duplex_run_sessions".into(), help, &labels, part.sessions as f64);
            let help = || "Request rows of the sessions finished in a run.".to_owned();
            self.add("duplex_run_responses".into(), help, &labels, part.responses as f64);
            let help = || {
                "1 where a measure has more samples than are kept, so that its quantiles are off by up to 0.5 %, else 0."
                    .to_owned()
            };
            let approximate = f64::from(u8::from(part.approximate));
            self.add("duplex_distribution_approximate".into(), help, &labels, approximate);
            FAMILIES.iter().for_each(|families| families.add(self, id, part));
        }
    }
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut label = LabelPair::default();
    label.set_name(name.to_owned());
    label.set_value(value.to_owned());
    label
}

fn labels_of(run: &str, part: &Part, source: Option<&str>) -> Vec<LabelPair> {
    let values = PART.into_iter().zip([run, &part.model, &part.window]);
    // As the text format has them: sorted by name.
    let mut labels: Vec<_> = values.chain(source.map(|source| ("source", source))).collect();
    labels.sort_unstable();
    labels.into_iter().map(|(name, value)| label(name, value)).collect()
}

impl RunGauges {
    pub fn new() -> Self {
        let describe = |name: String, labels: &[&str]| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            Desc::new(name, "Of the run view.".to_owned(), labels, std::collections::HashMap::new())
                .expect("every name and label is valid")
        };
        let mut descriptions = BTreeMap::new();
        for families in &FAMILIES {
            let labels: &[&str] = if families.source.is_some() { &PART_AND_SOURCE } else { &PART };
            let statistics =
                STATISTICS.iter().map(|(suffix, ..)| format!("{}{}_{suffix}", families.name, families.unit()));
            for name in statistics.chain([format!("{}_samples", families.name)]) {
                descriptions.insert(name.clone(), describe(name, labels));
            }
        }
        for name in ["duplex_run_sessions", "duplex_run_responses", "duplex_distribution_approximate"] {
            descriptions.insert(name.to_owned(), describe(name.to_owned(), &PART));
        }
        let name = "duplex_run_last_event_timestamp_seconds";
        descriptions.insert(name.to_owned(), describe(name.to_owned(), &["run"]));
        Self { descriptions: Arc::new(descriptions.into_values().collect()), runs: Arc::default() }
    }
}

impl Collector for RunGauges {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut gathered = Gathered::default();
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|run| gathered.add_run(run));
        gathered.0.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{RunView, ViewSettings};
    use crate::time::Timestamp;

    const DAY: i64 = 24 * 3600 * 1000;

    /// The view after bundles of these runs, models and stream TTFTs in milliseconds.
    fn view(sessions: &[(&str, &str, Option<f64>)]) -> RunView {
        let windows = vec![("5m".to_owned(), std::time::Duration::from_secs(300))];
        let mut view = RunView::new(ViewSettings { windows, ..ViewSettings::default() });
        for (run, model, ttft) in sessions {
            let bundle = serde_json::json!({
                "request_metrics": [], "session_metrics": {"stream_ttft_ms": ttft},
                "session": {"run_id": run, "model": model, "end_reason": "closed", "last_event_ms": DAY},
            });
            view.observe(bundle.to_string().as_bytes(), Timestamp(DAY), Timestamp(DAY));
        }
        view
    }

    fn runs(sessions: &[(&str, &str, Option<f64>)]) -> Vec<RunSummary> {
        view(sessions).summaries(Timestamp(DAY))
    }

    fn series(metrics: &Metrics, of: &str) -> Vec<String> {
        metrics.encode().lines().filter(|line| line.starts_with(of)).map(str::to_owned).collect()
    }

    fn shown(sessions: &[(&str, &str, Option<f64>)]) -> Metrics {
        let metrics = Metrics::new(Timestamp(0));
        metrics.set_runs(runs(sessions), Some(0));
        metrics
    }

    #[test]
    fn a_run_has_the_figures_of_all_models_and_of_each_over_every_window() {
        let metrics = shown(&[("r", "a", Some(100.0)), ("r", "b", Some(300.5))]);
        let expected = |figures: [(&str, &str); 3]| {
            let lines = figures.iter().flat_map(|(model, value)| {
                ["5m", "all"].map(|window| {
                    format!(r#"duplex_stream_ttft_seconds_p99{{model="{model}",run="r",window="{window}"}} {value}"#)
                })
            });
            lines.collect::<Vec<_>>()
        };
        let mut found = series(&metrics, "duplex_stream_ttft_seconds_p99{");
        found.sort();
        assert_eq!(found, expected([("a", "0.1"), ("all", "0.3005"), ("b", "0.3005")]));
        let mean = series(&metrics, r#"duplex_stream_ttft_seconds_mean{model="all",run="r",window="all"}"#);
        assert_eq!(mean.len(), 1);
        assert!(mean[0].ends_with(" 0.20025"), "{mean:?}");
    }

    #[test]
    fn gauges_are_the_report_s_figures_digit_by_digit_and_its_headline_is_one_of_them() {
        let rows = serde_json::json!([
            {"source": "server_request_start_and_client_receive", "ttft_ms": 277.636, "client_ttft_ms": 0.021, "tpot_ms": 0.0},
            {"source": "client_monotonic_receive", "ttft_ms": 1001.001, "client_ttft_ms": 1001.001, "tpot_ms": 7.007},
        ]);
        let mut view = RunView::new(ViewSettings { windows: vec![], ..ViewSettings::default() });
        let session = serde_json::json!({"run_id": "r", "end_reason": "closed"});
        let bundle = serde_json::json!({"request_metrics": rows, "session_metrics": {}, "session": session});
        view.observe(bundle.to_string().as_bytes(), Timestamp(DAY), Timestamp(DAY));
        let metrics = Metrics::new(Timestamp(0));
        metrics.set_runs(view.summaries(Timestamp(DAY)), Some(0));
        let of_all = |name: &str, source: &str| {
            let labels = format!(r#"{{model="all",run="r",{source}window="all"}} "#);
            let prefix = format!("{name}{labels}");
            let found = series(&metrics, &prefix);
            found.iter().map(|line| line[prefix.len()..].to_owned()).collect::<Vec<_>>()
        };
        for (source, p50, max, samples) in [
            ("reported", "0.277636", "1.001001", "2"),
            ("server", "0.277636", "0.277636", "1"),
            ("client", "0.000021", "1.001001", "2"),
        ] {
            let source = format!(r#"source="{source}","#);
            assert_eq!(of_all("duplex_response_ttft_seconds_p50", &source), [p50], "{source}");
            assert_eq!(of_all("duplex_response_ttft_seconds_max", &source), [max], "{source}");
            assert_eq!(of_all("duplex_response_ttft_samples", &source), [samples], "{source}");
        }
        // As in a session, 0 is no time per token.
        assert_eq!(of_all("duplex_response_tpot_seconds_mean", ""), ["0.007007"]);
        assert_eq!(of_all("duplex_response_tpot_samples", ""), ["1"]);
    }

    #[test]
    fn what_has_no_sample_has_no_series() {
        let metrics = shown(&[("r", "a", None)]);
        let text = metrics.encode();
        let is_figure = |line: &&str| {
            line.contains(r#"run="r""#)
                && !["duplex_run_", "duplex_distribution_"].iter().any(|of| line.starts_with(of))
        };
        assert_eq!(text.lines().filter(is_figure).collect::<Vec<_>>(), [""; 0]);
        assert_eq!(series(&metrics, "duplex_run_sessions{").len(), 4);
    }

    #[test]
    fn a_window_that_became_empty_takes_its_series_along() {
        let windows = |silent_ms: i64| {
            let metrics = Metrics::new(Timestamp(0));
            metrics.set_runs(view(&[("r", "a", Some(1.0))]).summaries(Timestamp(DAY + silent_ms)), Some(0));
            let text = metrics.encode();
            [r#"window="5m""#, r#"window="all""#].map(|window| text.matches(window).count())
        };
        let [of_5m, whole] = windows(300_000);
        assert!(of_5m > 0 && of_5m == whole);
        assert_eq!(windows(300_001), [0, whole]);
    }

    #[test]
    fn a_run_that_left_takes_its_series_along() {
        let metrics = shown(&[("gone", "a", Some(1.0)), ("stays", "a", Some(1.0))]);
        metrics.set_runs(runs(&[("stays", "a", Some(1.0))]), Some(0));
        let text = metrics.encode();
        assert!(!text.contains("gone") && text.contains(r#"run="stays""#), "{text}");
    }

    #[test]
    fn labels_that_look_alike_when_put_together_stay_apart_and_are_escaped() {
        let metrics = shown(&[("ab", "c", Some(1.0)), ("a", "bc", Some(2.0)), ("a\"\n\\", "d", Some(3.0))]);
        let found = series(&metrics, "duplex_stream_ttft_samples{");
        assert!(
            found.iter().any(|line| line.starts_with(r#"duplex_stream_ttft_samples{model="c",run="ab","#)),
            "{found:?}"
        );
        assert!(
            found.iter().any(|line| line.starts_with(r#"duplex_stream_ttft_samples{model="bc",run="a","#)),
            "{found:?}"
        );
        assert!(found.iter().any(|line| line.contains(r#"run="a\"\n\\""#)), "{found:?}");
        assert_eq!(found.len(), 3 * 4);
    }

    #[test]
    fn names_carry_their_unit() {
        let descriptions = RunGauges::new();
        for desc in descriptions.desc() {
            let name = &desc.fq_name;
            assert!(name.starts_with("duplex_") && !name.ends_with("_total") && !name.contains("_ms"), "{name}");
        }
    }
}
