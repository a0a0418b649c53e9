//! One response's facts, in constant space however long its audio (contract.md section 3).

use serde::{Deserialize, Serialize};

use super::playback::Playback;
use super::settings::Limits;
use crate::ids::ResponseId;
use crate::wire::{RequestMetrics, StageSnapshot};

/// What is known of a response so far. Receive times are seconds of the session's clock.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ResponseFacts {
    pub id: ResponseId,
    /// Position among the session's `response.created` ids; `None` until its own comes.
    pub request_index: Option<u32>,
    pub status: Option<FinalStatus>,
    /// Decoded bytes of every audio packet, in the window or not.
    pub bytes: u64,
    /// When its first `response.done` came, in the window or not, as are the next two.
    pub ended: Option<f64>,
    /// The client's first `response.cancel`.
    pub cancel: Option<f64>,
    /// The last onset of user speech before it ended; looked for where it was cancelled.
    pub speech_onset: Option<f64>,
    /// Whatever is below was in the window.
    pub created: Option<f64>,
    pub first_text: Option<Moment>,
    pub first_audio: Option<Moment>,
    pub last_audio: Option<Moment>,
    /// First audio delta whose payload was a string, an empty one too.
    pub client_audio: Option<f64>,
    pub packets: u64,
    /// `None` where it can't be told: a part of it was seen by an earlier release.
    pub playback: Option<Playback>,
    /// Largest cumulative duration as the row reads it.
    pub row_duration_ms: Option<f64>,
    /// Largest cumulative duration as the stream reads it.
    pub stream_duration_ms: Option<f64>,
    /// Each stage's last snapshot, in the order the stages were first seen.
    pub stages: Vec<(String, StageSnapshot)>,
    pub server: RequestMetrics,
}

/// A receive time, and the event's place in the session's order of arrival.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Moment {
    pub at: f64,
    pub ordinal: u64,
}

/// The final status of a response (contract.md section 5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalStatus {
    Completed,
    Cancelled,
    Failed,
    Incomplete,
    /// No `response.done` came before the session ended.
    Unfinished,
}

impl FinalStatus {
    /// The status in a `response.done`; one that is missing or not known counts as incomplete.
    #[must_use]
    pub fn of(status: Option<&str>) -> Self {
        match status {
            Some("completed") => Self::Completed,
            Some("cancelled") => Self::Cancelled,
            Some("failed") => Self::Failed,
            _ => Self::Incomplete,
        }
    }

    /// The status as it stands in the bundle and in labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
            Self::Unfinished => "unfinished",
        }
    }
}

/// The facts of one event that count only inside the window: kept until the stream start is known.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WindowedFacts {
    pub created: bool,
    pub text: bool,
    pub audio: Option<AudioFact>,
    pub stages: Vec<(String, StageSnapshot)>,
    pub request: Option<RequestMetrics>,
}

/// An audio delta whose payload was a string.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct AudioFact {
    /// The payload was not empty.
    pub packet: bool,
    pub row_duration_ms: Option<f64>,
    pub stream_duration_ms: Option<f64>,
    /// Duration of its own bytes, at the sample rate known when it came; `None` where an earlier release held it.
    pub bytes_ms: Option<f64>,
}

impl WindowedFacts {
    /// Whether the event carried none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.created && !self.text && self.audio.is_none() && !self.has_metrics()
    }

    /// Whether the server's own metrics are among them: all else is of constant size.
    #[must_use]
    pub fn has_metrics(&self) -> bool {
        !self.stages.is_empty() || self.request.is_some()
    }

    /// What holding them costs, in events: long interval lists count for more than one.
    #[must_use]
    pub fn cost(&self) -> usize {
        let values: usize = self.stages.iter().map(|(_, stage)| stage.interval_values()).sum();
        1 + self.stages.len() / 8 + values / 32
    }
}

impl ResponseFacts {
    /// A response of which nothing but its id is known.
    #[must_use]
    pub fn new(id: ResponseId) -> Self {
        Self {
            id,
            request_index: None,
            status: None,
            bytes: 0,
            ended: None,
            cancel: None,
            speech_onset: None,
            created: None,
            first_text: None,
            first_audio: None,
            last_audio: None,
            client_audio: None,
            packets: 0,
            playback: Some(Playback::default()),
            row_duration_ms: None,
            stream_duration_ms: None,
            stages: Vec::new(),
            server: RequestMetrics::default(),
        }
    }

    /// Takes the facts of one event in the window; returns whether a limit kept a stage out.
    #[must_use]
    pub fn apply(&mut self, moment: Moment, facts: WindowedFacts, limits: &Limits) -> bool {
        let WindowedFacts { created, text, audio, stages, request } = facts;
        if created {
            self.created.get_or_insert(moment.at);
        }
        if text {
            self.first_text.get_or_insert(moment);
        }
        if let Some(request) = request {
            self.server.merge(request);
        }
        if let Some(audio) = audio {
            self.apply_audio(moment, audio);
        }
        let mut truncated = false;
        for (id, snapshot) in stages {
            let known = self.stages.iter().position(|(known, _)| *known == id);
            let others = self.stages.iter().filter(|(other, _)| *other != id);
            let values: usize = others.map(|(_, stage)| stage.interval_values()).sum();
            if values + snapshot.interval_values() > limits.interval_values {
                truncated = true;
            } else if let Some(at) = known {
                self.stages[at].1 = snapshot;
            } else if self.stages.len() < limits.stages {
                self.stages.reserve_exact(1);
                self.stages.push((id, snapshot));
            } else {
                truncated = true;
            }
        }
        truncated
    }

    /// Takes note of an end, at a receive time; the first one counts. `speech_onset` is the session's last.
    pub fn end(&mut self, at: f64, status: FinalStatus, speech_onset: Option<f64>) {
        if self.status.is_none() {
            self.ended = Some(at);
            self.speech_onset = speech_onset.filter(|_| status == FinalStatus::Cancelled);
        }
        self.status = Some(status);
    }

    fn apply_audio(&mut self, moment: Moment, audio: AudioFact) {
        self.client_audio.get_or_insert(moment.at);
        if !audio.packet {
            return;
        }
        self.packets += 1;
        let since_first = moment.at - self.first_audio.get_or_insert(moment).at;
        let since_last = self.last_audio.replace(moment).map(|last| moment.at - last.at);
        self.playback = self.playback.and_then(|playback| playback.after(since_last, since_first, &audio));
        self.row_duration_ms = larger(self.row_duration_ms, audio.row_duration_ms);
        self.stream_duration_ms = larger(self.stream_duration_ms, audio.stream_duration_ms);
    }
}

fn larger(known: Option<f64>, new: Option<f64>) -> Option<f64> {
    match (known, new) {
        (Some(known), Some(new)) => Some(known.max(new)),
        (known, new) => known.or(new),
    }
}
