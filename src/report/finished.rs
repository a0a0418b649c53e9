//! The last sessions that finished, with what each response did when.

use std::collections::btree_map::{BTreeMap, Entry};

use serde::Serialize;

use super::names;
use super::samples::{ResponseView, Source};
use super::view::BundleView;
use crate::collector::{EndReason, FinalStatus};
use crate::time::Timestamp;

/// How many sessions of a model are kept, and shown of all models.
const MAX_SESSIONS: usize = 25;

/// How many responses of a session are kept.
const MAX_RESPONSES: usize = 20;

/// One finished session as the status page shows it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FinishedSession {
    pub session_id: String,
    pub model: Option<String>,
    pub end_reason: EndReason,
    /// Its first and last event by record timestamp.
    pub started_ms: Option<Timestamp>,
    pub ended_ms: Option<Timestamp>,
    /// Between them by receive time; `None` where that is of two clocks.
    pub duration_ms: Option<f64>,
    pub errors: u64,
    pub truncated: bool,
    pub stream_ttft_ms: Option<f64>,
    pub stream_ttfp_ms: Option<f64>,
    pub stream_rtf: Option<f64>,
    /// The first ones.
    pub responses: Vec<FinishedResponse>,
    pub more_responses: usize,
}

/// One of its responses; times are milliseconds since the stream start.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct FinishedResponse {
    pub status: FinalStatus,
    pub ttft_source: Option<Source>,
    pub created_ms: Option<f64>,
    pub first_text_ms: Option<f64>,
    pub first_audio_ms: Option<f64>,
    pub last_audio_ms: Option<f64>,
    pub ended_ms: Option<f64>,
    pub audio_packets: u64,
    pub audio_duration_ms: f64,
    pub speech_to_cancel_ms: Option<f64>,
}

/// The sessions whose last event is latest, of those that were added in whatever order.
#[derive(Debug, Default)]
pub struct LastSessions(BTreeMap<(Option<Timestamp>, String), FinishedSession>);

impl LastSessions {
    /// Adds a session; `at` is its last event, where that can be right.
    pub fn add(&mut self, bundle: &BundleView<'_>, at: Option<Timestamp>) {
        let key = (at, bundle.session_id.clone().into_owned());
        let is_full = self.0.len() == MAX_SESSIONS;
        if is_full && self.0.first_key_value().is_some_and(|(earliest, _)| *earliest > key) {
            return;
        }
        self.insert(key, FinishedSession::of(bundle));
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        other.0.into_iter().for_each(|(key, session)| self.insert(key, session));
    }

    fn insert(&mut self, key: (Option<Timestamp>, String), session: FinishedSession) {
        match self.0.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(session)),
            // Of two sessions of one id that ended at once the same one stays, whichever came first.
            Entry::Occupied(mut entry) if entry.get().as_json() < session.as_json() => drop(entry.insert(session)),
            Entry::Occupied(_) => {}
        }
        if self.0.len() > MAX_SESSIONS {
            self.0.pop_first();
        }
    }

    /// The last sessions of all of these, the latest first.
    pub fn of_all<'a>(all: impl Iterator<Item = &'a Self>) -> Vec<FinishedSession> {
        let mut sessions: Vec<_> = all.flat_map(|last| &last.0).collect();
        sessions.sort_by(|(a, _), (b, _)| b.cmp(a));
        sessions.into_iter().take(MAX_SESSIONS).map(|(_, session)| session.clone()).collect()
    }
}

impl FinishedSession {
    fn of(bundle: &BundleView<'_>) -> Self {
        let (session, stream) = (&bundle.session, &bundle.session_metrics);
        Self {
            session_id: bundle.session_id.clone().into_owned(),
            model: session.model.as_deref().map(|model| names::shown(model).into_owned()),
            end_reason: session.end_reason,
            started_ms: session.first_event_ms,
            ended_ms: session.last_event_ms,
            duration_ms: session.duration_ms,
            errors: session.errors.values().sum(),
            truncated: session.truncated,
            stream_ttft_ms: stream.stream_ttft_ms,
            stream_ttfp_ms: stream.stream_ttfp_ms,
            stream_rtf: stream.stream_rtf,
            responses: bundle.responses.iter().take(MAX_RESPONSES).map(FinishedResponse::of).collect(),
            more_responses: bundle.responses.len().saturating_sub(MAX_RESPONSES),
        }
    }
}

impl FinishedSession {
    fn as_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl FinishedResponse {
    fn of(response: &ResponseView<'_>) -> Self {
        Self {
            status: response.status,
            ttft_source: response.ttft_source,
            created_ms: response.created_ms,
            first_text_ms: response.first_text_ms,
            first_audio_ms: response.first_audio_ms,
            last_audio_ms: response.last_audio_ms,
            ended_ms: response.ended_ms,
            audio_packets: response.audio_packets,
            audio_duration_ms: response.audio_duration_ms,
            speech_to_cancel_ms: response.speech_to_cancel_ms,
        }
    }
}
