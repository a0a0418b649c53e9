//! The verdict on a run: whether all is well, and if not, what is wrong. Decided here alone; the status page and `top` draw
//! it.
//!
//! What is judged of the run comes from the bundles, so it is the same on every replica. What one process alone knows comes as
//! [`Replica`], and is said to be of this replica.

use std::time::Duration;

use serde::Serialize;

use self::checks::{is_stale, percent, sessions, told_at};
use super::run_view::ALL;
use super::status::RunStatus;
use super::summary::Part;
use crate::numeric::grouped;
use crate::time::Timestamp;

mod checks;

/// Over how long a process counts what it has [read lately](Recent).
pub const RECENT: Duration = Duration::from_secs(300);

/// What one process knows of itself.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Replica {
    pub live: bool,
    pub ready: bool,
    /// `None` while they are not known.
    pub sessions_open: Option<f64>,
    pub lag_seconds: Option<f64>,
    pub recent: Recent,
}

/// What a process has read and committed in the last [`RECENT`], unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Recent {
    pub records: u64,
    pub dead_letters: u64,
    /// Of types that the duplex protocol has.
    pub events: u64,
    /// Of shapes that are known and not read: they give no figures.
    pub events_unsupported: u64,
    /// Of other types, since the process began; 0 once there was any that the protocol has, supported or not.
    pub events_of_no_duplex_protocol: u64,
    /// For how long events have been read without a session that finished.
    pub none_finished_ms: u64,
}

/// How something stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Good,
    Bad,
    Unknown,
}

/// Whether all is well.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    pub state: State,
    pub headline: String,
    pub checks: Vec<Check>,
    /// What the figures rest on, and what would make them better; a sentence each.
    pub notes: Vec<String>,
}

/// One thing that is looked at.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub title: &'static str,
    pub state: State,
    /// What was found.
    pub value: String,
    /// What it should be.
    pub objective: String,
    /// The limit of a measure that is plotted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plotted: Option<PlottedLimit>,
    /// What the headline says of it.
    #[serde(skip)]
    wrong: String,
}

/// A limit to draw into the plot of a measure, in the measure's unit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PlottedLimit {
    pub measure: &'static str,
    pub limit: f64,
}

impl Verdict {
    /// The verdict on what `status` shows, at `now`.
    #[must_use]
    pub fn on(status: &RunStatus, replica: &Replica, now: Timestamp) -> Self {
        let view = status.view.as_ref();
        let part = status.run.as_ref().zip(view).and_then(|(run, view)| run.part(&view.model, &view.window));
        let is_stale = is_stale(status, now);
        let lull = if is_stale { Some(Lull::unknown()) } else { Lull::of(status, replica, now) };
        let checks = checks::all(status, part, replica, lull.as_ref(), now);
        let is_judged = checks.iter().any(|check| check.plotted.is_some() && check.state == State::Good);
        let wrong: Vec<&str> =
            checks.iter().filter(|check| check.state == State::Bad).map(|check| check.wrong.as_str()).collect();
        let (state, headline) = match (&wrong[..], lull) {
            ([], Some(lull)) => (State::Unknown, lull.headline),
            ([], None) if is_judged => (State::Good, "healthy".into()),
            ([], None) => (State::Unknown, "too few responses to judge".into()),
            // What is wrong of the run may be of another day.
            (wrong, Some(lull)) if status.run.is_some() && !is_stale => {
                (State::Bad, format!("{}, {}", wrong.join(", "), lull.headline))
            }
            (wrong, _) => (State::Bad, wrong.join(", ")),
        };
        Self { state, headline: capitalised(&headline), checks, notes: part.map(notes_on).unwrap_or_default() }
    }
}

/// Nothing has finished for longer than the shortest window.
struct Lull {
    headline: String,
    value: String,
}

impl Lull {
    /// Sessions may finish that can't be read.
    fn unknown() -> Self {
        Self { headline: "the figures stand still".into(), value: "not known".into() }
    }

    fn of(status: &RunStatus, replica: &Replica, now: Timestamp) -> Option<Self> {
        let open = replica.sessions_open.filter(|open| *open > 0.0);
        let goes_on = open.is_some() && replica.recent.events > 0;
        let told = |headline: String, value: String| {
            let open = open.map(|open| format!("; {} open here", grouped(open as u64))).unwrap_or_default();
            Some(Self { headline, value: value + &open })
        };
        let Some(run) = &status.run else {
            return match (status.complete, status.runs.is_empty()) {
                (false, _) => told("the bundles topic is being read".into(), "not known yet".into()),
                (true, false) => told("no figures of this run".into(), "this run is not shown".into()),
                (true, true) if goes_on => {
                    told("no session has finished yet".into(), "no session has finished yet".into())
                }
                (true, true) => told("no traffic yet".into(), "none yet".into()),
            };
        };
        let Some(view) = &status.view else {
            return told("no figures of this window".into(), "this window is not shown".into());
        };
        let shortest = status.windows.first().map_or(ALL, String::as_str);
        match (run.part(&view.model, shortest), run.part(ALL, shortest)) {
            (Some(_), _) => return None,
            (None, Some(_)) => {
                let none = format!("no session of this model in the last {shortest}");
                return Some(Self { headline: none.clone(), value: none });
            }
            (None, None) => {}
        }
        let since = run.last_event.map_or("the start of the run".into(), |last| told_at(last, now));
        let of_this_run =
            if status.runs.first().is_some_and(|latest| **latest == *run.run_id) { "" } else { " of this run" };
        // One that reads nothing does not know what others read.
        if goes_on || replica.sessions_open.is_none() || !of_this_run.is_empty() {
            let none = format!("no session{of_this_run} has finished since {since}");
            told(none.clone(), none)
        } else {
            told(format!("no traffic since {since}"), format!("none since {since}"))
        }
    }
}

/// What the sessions' figures rest on.
fn notes_on(part: &Part) -> Vec<String> {
    let mut notes = Vec::new();
    let starts = &part.traits.sessions_by_stream_start;
    let all: u64 = starts.values().sum();
    if all > 0 {
        let share = |(source, n): (&String, &u64)| format!("{source} in {}", percent(*n as f64 / all as f64));
        let shares = starts.iter().map(share).collect::<Vec<_>>().join(", ");
        let mut note = format!("The stream of a session starts at {shares} of sessions.");
        if !starts.keys().any(|source| TOLD_BY_CLIENT.contains(&source.as_str())) {
            note += " So stream TTFT, TTFP and RTF include the wait before the user speaks and what the user says: let the \
                     producer write collector.stream_start, or tap the client's direction as well.";
        }
        notes.push(note);
    }
    let faults = part.traits.sessions_with_clock_faults;
    if faults > 0 {
        notes.push(format!(
            "{} have receive times that do not fit together, so the figures made of them are left out: let every producer of a \
             session take received_at_s from one clock that does not restart within it, or send none.",
            capitalised(&sessions(faults))
        ));
    }
    notes
}

/// Stream starts that are the client's own (contract.md section 2).
const TOLD_BY_CLIENT: [&str; 2] = ["collector.stream_start", "input_audio_buffer.append"];

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
