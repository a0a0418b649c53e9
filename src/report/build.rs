//! Building and merging `duplex_metrics.json`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use thiserror::Error;

use super::measure::Measure;
use super::python::finite;
use super::samples::{RowMetrics, RunSamples, StreamMetrics};
use crate::distribution::Distribution;

const REQUEST_ROWS: &str = "duplex_request_metrics";
const SESSION_ROWS: &str = "duplex_session_metrics";

/// A report: rows with the bytes they came with, and whatever else a merged file held.
#[derive(Debug, Default)]
pub struct Report {
    requests: Vec<Row>,
    sessions: Vec<Row>,
    /// Keys of a merged report that are not this program's, as they stand in it.
    others: BTreeMap<String, Box<RawValue>>,
}

#[derive(Debug)]
struct Row {
    json: Box<RawValue>,
    identity: Option<Identity>,
}

/// `split` and `sample_id`, as JSON.
type Identity = (String, String);

/// Why a file is no report, or a record no bundle.
#[derive(Debug, Error)]
pub enum ReportError {
    #[error("it is no JSON: {0}")]
    InvalidJson(serde_json::Error),
    #[error("it is JSON, but not an object")]
    NotAnObject,
    #[error("`{0}` is missing")]
    MissingKey(&'static str),
    #[error("`{0}` is not a list")]
    RowsNotAList(&'static str),
    #[error("`{rows}` has an entry {at} that is not an object")]
    RowNotAnObject { rows: &'static str, at: usize },
    #[error("`{0}` is not an object")]
    NotARow(&'static str),
}

#[derive(Deserialize)]
struct Bundle<'a> {
    /// Of a bundle of several records; only the first part has the session's metrics.
    #[serde(default)]
    part: usize,
    #[serde(borrow)]
    request_metrics: Option<&'a RawValue>,
    #[serde(borrow)]
    session_metrics: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RowIdentity {
    #[serde(default)]
    split: Value,
    #[serde(default)]
    sample_id: Value,
}

impl Report {
    /// Reads an existing report, as Python writes it: what is not finite counts as null.
    ///
    /// # Errors
    /// When it is no report (contract.md section 6).
    pub fn parse(json: &str) -> Result<Self, ReportError> {
        let json = finite(json);
        let file: &RawValue = serde_json::from_str(&json).map_err(ReportError::InvalidJson)?;
        let Ok(mut keys) = serde_json::from_str::<BTreeMap<String, &RawValue>>(file.get()) else {
            return Err(ReportError::NotAnObject);
        };
        let requests = keys.remove(REQUEST_ROWS).map_or(Ok(Vec::new()), |raw| rows(REQUEST_ROWS, raw))?;
        let sessions = keys.remove(SESSION_ROWS).map_or(Ok(Vec::new()), |raw| rows(SESSION_ROWS, raw))?;
        let others = keys.into_iter().filter(|(key, _)| !Distributions::own(key));
        Ok(Self { requests, sessions, others: others.map(|(key, raw)| (key, raw.to_owned())).collect() })
    }

    /// Adds a bundle's rows, or those of a part of one.
    ///
    /// # Errors
    /// When it is no bundle.
    pub fn add_bundle(&mut self, json: &str) -> Result<(), ReportError> {
        let bundle: Bundle<'_> = serde_json::from_str(json).map_err(ReportError::InvalidJson)?;
        let requests = bundle.request_metrics.ok_or(ReportError::MissingKey("request_metrics"))?;
        let requests = rows("request_metrics", requests)?;
        if bundle.part == 0 {
            let session = bundle.session_metrics.ok_or(ReportError::MissingKey("session_metrics"))?;
            self.sessions.push(Row::of(session).ok_or(ReportError::NotARow("session_metrics"))?);
        }
        self.requests.extend(requests);
        Ok(())
    }

    /// Merges this report into an `existing` one: rows whose (`split`, `sample_id`) come in again are all replaced,
    /// rows without that identity are kept and appended to.
    #[must_use]
    pub fn merge_into(self, mut existing: Self) -> Self {
        let incoming: BTreeSet<&Identity> =
            self.requests.iter().chain(&self.sessions).filter_map(|row| row.identity.as_ref()).collect();
        let stays = |row: &Row| row.identity.as_ref().is_none_or(|identity| !incoming.contains(identity));
        existing.requests.retain(stays);
        existing.sessions.retain(stays);
        existing.requests.extend(self.requests);
        existing.sessions.extend(self.sessions);
        existing.others.extend(self.others);
        existing
    }

    /// How many session rows there are.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// How many request rows there are.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// The report as a file: a row a line, distributions computed anew over all rows.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct File<'a> {
            duplex_request_metrics: Vec<&'a RawValue>,
            duplex_session_metrics: Vec<&'a RawValue>,
            #[serde(flatten)]
            distributions: Distributions,
            #[serde(flatten)]
            others: &'a BTreeMap<String, Box<RawValue>>,
        }
        let file = File {
            duplex_request_metrics: self.requests.iter().map(|row| &*row.json).collect(),
            duplex_session_metrics: self.sessions.iter().map(|row| &*row.json).collect(),
            distributions: Distributions::of(&mut self.samples()),
            others: &self.others,
        };
        let mut json = serde_json::to_vec_pretty(&file).expect("a report can be written to memory");
        json.push(b'\n');
        json
    }

    /// The samples of all rows; a row of another program may lack any of them.
    fn samples(&self) -> RunSamples {
        let mut samples = RunSamples::default();
        for row in &self.requests {
            if let Ok(metrics) = serde_json::from_str::<RowMetrics<'_>>(row.json.get()) {
                samples.add_row(&metrics, None);
            }
        }
        for row in &self.sessions {
            if let Ok(metrics) = serde_json::from_str::<StreamMetrics>(row.json.get()) {
                samples.add_session(&metrics);
            }
        }
        samples
    }
}

impl Row {
    fn of(raw: &RawValue) -> Option<Self> {
        // A struct may stand as a list too, for serde; a row may not.
        let is_object = raw.get().starts_with('{');
        let row: RowIdentity = is_object.then(|| serde_json::from_str(raw.get()).ok()).flatten()?;
        // One that is null, absent or empty is none.
        let is_known = |part: &Value| !part.is_null() && part.as_str() != Some("");
        let identity = (is_known(&row.split) && is_known(&row.sample_id))
            .then(|| (row.split.to_string(), row.sample_id.to_string()));
        Some(Self { json: raw.to_owned(), identity })
    }
}

fn rows(name: &'static str, raw: &RawValue) -> Result<Vec<Row>, ReportError> {
    let rows: Option<Vec<&RawValue>> = serde_json::from_str(raw.get()).map_err(|_| ReportError::RowsNotAList(name))?;
    let row = |(raw, at)| Row::of(raw).ok_or(ReportError::RowNotAnObject { rows: name, at });
    rows.into_iter().flatten().zip(0..).map(row).collect()
}

/// The report's distributions, in its own order and names.
#[derive(Serialize)]
struct Distributions {
    #[serde(skip_serializing_if = "Option::is_none")]
    duplex_stream_ttft_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplex_stream_ttfp_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplex_stream_rtf: Option<Distribution>,
    #[serde(flatten)]
    responses: Map<String, Value>,
}

/// The distributions over responses that a report has.
const OVER_RESPONSES: [Measure; 4] =
    [Measure::ResponseTtft, Measure::ResponseTtfp, Measure::ClientTtft, Measure::ClientTtfp];

impl Distributions {
    fn of(samples: &mut RunSamples) -> Self {
        let mut responses = Map::new();
        for measure in OVER_RESPONSES {
            let name = measure.name();
            if let Some(Distribution { count, mean, p50, p99 }) = samples.distribution(measure) {
                responses.insert(format!("num_{name}_samples"), count.into());
                responses.insert(format!("mean_{name}"), mean.into());
                responses.insert(format!("median_{name}"), p50.into());
                responses.insert(format!("p99_{name}"), p99.into());
            }
        }
        Self {
            duplex_stream_ttft_ms: samples.distribution(Measure::StreamTtft),
            duplex_stream_ttfp_ms: samples.distribution(Measure::StreamTtfp),
            duplex_stream_rtf: samples.distribution(Measure::StreamRtf),
            responses,
        }
    }

    /// Whether a report's key is a distribution, which is computed anew rather than kept.
    fn own(key: &str) -> bool {
        matches!(key, "duplex_stream_ttft_ms" | "duplex_stream_ttfp_ms" | "duplex_stream_rtf")
            || OVER_RESPONSES.map(Measure::name).iter().any(|name| {
                key.strip_prefix("num_").and_then(|rest| rest.strip_suffix("_samples")) == Some(name)
                    || ["mean_", "median_", "p99_"].iter().any(|prefix| key.strip_prefix(prefix) == Some(name))
            })
    }
}
