//! `/status` as `top` reads it. What a later release adds is passed over.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cli::foreign::Foreign;

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Status {
    pub version: Foreign,
    pub now_ms: i64,
    pub verdict: Verdict,
    pub live: Probe,
    pub ready: Probe,
    pub sessions_open: Option<f64>,
    pub lag: Option<Lag>,
    pub dead_letters: BTreeMap<Foreign, u64>,
    pub partitions: Partitions,
    /// Whether the run view has read all bundles there were.
    pub complete: bool,
    pub runs: Vec<Foreign>,
    pub run: Option<Run>,
    pub windows: Vec<Foreign>,
    pub view: Option<View>,
    pub last_sessions: Vec<Session>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Verdict {
    /// `good`, `bad`, or not known.
    pub state: Foreign,
    pub headline: Foreign,
    pub checks: Vec<Check>,
    pub notes: Vec<Foreign>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Check {
    pub title: Foreign,
    pub state: Foreign,
    pub value: Foreign,
    pub objective: Foreign,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Probe {
    pub passes: bool,
    pub lines: Vec<Foreign>,
}

#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
pub struct Lag {
    pub records: f64,
    pub seconds: f64,
}

#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
pub struct Partitions {
    pub running: i64,
    pub restoring: i64,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Run {
    pub run_id: Foreign,
    pub last_event_ms: Option<i64>,
    pub parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Part {
    pub model: Foreign,
    pub window: Foreign,
    pub sessions: u64,
    pub sessions_by_end_reason: BTreeMap<Foreign, u64>,
    pub responses: u64,
    pub figures: BTreeMap<String, Figures>,
}

#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
pub struct Figures {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
    pub approximate: bool,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct View {
    pub model: Foreign,
    pub window: Foreign,
    pub slot_ms: i64,
    pub slots: Vec<Slot>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Slot {
    pub start_ms: i64,
    pub figures: BTreeMap<String, Figures>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Session {
    pub session_id: Foreign,
    pub model: Option<Foreign>,
    pub end_reason: Foreign,
    pub duration_ms: Option<f64>,
    pub stream_ttft_ms: Option<f64>,
    pub stream_rtf: Option<f64>,
    pub responses: Vec<Response>,
    pub more_responses: u64,
}

/// Times are milliseconds since the stream start.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Response {
    pub status: Foreign,
    pub created_ms: Option<f64>,
    pub first_audio_ms: Option<f64>,
    pub last_audio_ms: Option<f64>,
    pub ended_ms: Option<f64>,
}

impl Status {
    /// The figures that were asked for; `None` where there are none.
    pub fn part(&self) -> Option<&Part> {
        let (run, view) = (self.run.as_ref()?, self.view.as_ref()?);
        run.parts.iter().find(|part| part.model == view.model && part.window == view.window)
    }
}
