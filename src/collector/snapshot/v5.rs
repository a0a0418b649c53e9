//! The layouts of versions 4 and 5, which held facts until the stream start was chosen for good, and one clock for all times.
//!
//! Never changed. Where they did not keep what is needed now, the session says that it is not known.

use serde::Deserialize;

use crate::collector::fact::{self, Fact, Reported};
use crate::collector::head::{self, Created, Sample};
use crate::collector::received::{self, Received};
use crate::collector::response::{FinalStatus, ResponseFacts};
use crate::collector::settings::Limits;
use crate::collector::source::{Clocks, ReceiveClock, StreamStartSource};
use crate::collector::stream_start;
use crate::collector::tallies::Tallies;
use crate::collector::windowed;
use crate::collector::{EndReason, Playback};
use crate::ids::{Offset, ResponseId};
use crate::time::Timestamp;
use crate::wire::{RequestMetrics, StageSnapshot};

#[derive(Deserialize)]
pub(super) struct Head {
    pub opened_at: Timestamp,
    pub last_event_at: Timestamp,
    pub ended: Option<End>,
    pub first_offset: Offset,
    pub last_offset: Offset,
    pub first_event: Option<Timestamp>,
    pub last_event: Option<Timestamp>,
    pub clock: Clock,
    pub run_id: Option<String>,
    pub model: Option<String>,
    pub created_model: Option<String>,
    pub split: Option<String>,
    pub sample_id: Option<String>,
    pub last_seq: Option<i128>,
    pub sample_rate_hz: Option<f64>,
    pub received: Option<(f64, f64)>,
    pub speech_onset: Option<f64>,
    pub start: StreamStart,
    pub tallies: Tallies,
    pub known: u32,
    pub responses: u32,
    pub truncated: bool,
}

#[derive(Deserialize)]
pub(super) struct End {
    pub at: Timestamp,
    pub reason: EndReason,
    pub close_reason: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
pub(super) enum Clock {
    ClientMonotonic,
    KafkaTimestamp,
    Mixed,
}

#[derive(Deserialize)]
pub(super) struct StreamStart {
    pub marker: Option<f64>,
    pub input_audio_append: Option<f64>,
    pub session_created: Option<f64>,
    pub first_event: Option<f64>,
    pub chosen: Option<Chosen>,
    /// Not empty in versions 1 and 2 only; [`Held`] since then.
    pub held: Vec<HeldFacts>,
    pub held_cost: usize,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Chosen {
    pub source: StreamStartSource,
    pub at: f64,
}

#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Held(pub Vec<HeldFacts>);

#[derive(Deserialize)]
pub(super) struct HeldFacts {
    pub at: f64,
    pub ordinal: u64,
    pub response: u32,
    pub facts: Windowed,
}

#[derive(Deserialize)]
pub(super) struct Windowed {
    pub created: bool,
    pub text: bool,
    pub audio: Option<Audio>,
    pub stages: Vec<(String, StageSnapshot)>,
    pub request: Option<RequestMetrics>,
}

#[derive(Deserialize)]
pub(super) struct Audio {
    pub packet: bool,
    pub row_duration_ms: Option<f64>,
    pub stream_duration_ms: Option<f64>,
    pub bytes_ms: Option<f64>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Moment {
    pub at: f64,
    pub ordinal: u64,
}

#[derive(Deserialize)]
pub(super) struct Response {
    pub id: ResponseId,
    pub request_index: Option<u32>,
    pub status: Option<FinalStatus>,
    pub bytes: u64,
    pub ended: Option<f64>,
    pub cancel: Option<f64>,
    pub speech_onset: Option<f64>,
    pub created: Option<f64>,
    pub first_text: Option<Moment>,
    pub first_audio: Option<Moment>,
    pub last_audio: Option<Moment>,
    pub client_audio: Option<f64>,
    pub packets: u64,
    pub playback: Option<Playback>,
    pub row_duration_ms: Option<f64>,
    pub stream_duration_ms: Option<f64>,
    pub stages: Vec<(String, StageSnapshot)>,
    pub server: RequestMetrics,
}

impl HeldFacts {
    /// What holding it counted for.
    fn cost(&self) -> usize {
        let values: usize = self.facts.stages.iter().map(|(_, stage)| stage.interval_values()).sum();
        1 + self.facts.stages.len() / 8 + values / 32
    }

    fn of_now(self, clock: ReceiveClock) -> Fact {
        let Windowed { created, text, audio, stages, request } = self.facts;
        let reported = Reported { stages, request };
        Fact {
            moment: moment(self.at, self.ordinal, clock),
            response: self.response,
            created,
            text,
            audio: audio.as_ref().map(|audio| match audio {
                Audio { packet: false, .. } => fact::Audio::Empty,
                Audio { stream_duration_ms: Some(_), .. } => fact::Audio::SoFar,
                Audio { row_duration_ms: Some(_), .. } => fact::Audio::SoFarOfRow,
                Audio { bytes_ms: Some(_), .. } => fact::Audio::OfBytes,
                _ => fact::Audio::Unknown,
            }),
            audio_ms: audio.and_then(|audio| audio.row_duration_ms.or(audio.bytes_ms)).unwrap_or(0.0),
            metrics: (!reported.is_empty()).then(|| Box::new(reported)),
        }
    }
}

fn moment(at: f64, ordinal: u64, clock: ReceiveClock) -> received::Moment {
    received::Moment { at, ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX), clock }
}

/// The clock of times that were kept without one.
fn clock_of(received: &Received) -> ReceiveClock {
    if received.clocks == Clocks::from(ReceiveClock::KafkaTimestamp) {
        ReceiveClock::KafkaTimestamp
    } else {
        ReceiveClock::ClientMonotonic
    }
}

impl Response {
    pub(super) fn of_now(self, received: &Received) -> ResponseFacts {
        let clock = clock_of(received);
        let first = |at: Option<f64>| at.map(|at| moment(at, 0, clock));
        let with_clock = |of: Option<Moment>| of.map(|of| moment(of.at, of.ordinal, clock));
        let mut response = ResponseFacts::new(self.id);
        response.request_index = self.request_index;
        response.status = self.status;
        response.bytes = self.bytes;
        response.ended = first(self.ended.or(self.cancel));
        response.speech_onset = first(self.speech_onset).map(Box::new);
        let client_audio = first(self.client_audio);
        let window = &mut response.in_window;
        window.row_duration.take(self.row_duration_ms);
        window.stream_duration.take(self.stream_duration_ms);
        *window = windowed::Windowed {
            created: first(self.created),
            first_text: with_clock(self.first_text),
            first_audio: with_clock(self.first_audio),
            last_audio: with_clock(self.last_audio),
            client_audio,
            packets: u32::try_from(self.packets).unwrap_or(u32::MAX),
            playback: self.playback,
            audio_clocks: client_audio.map(|moment| moment.clock.into()).unwrap_or_default(),
            ..window.clone()
        };
        let reported = Reported { stages: self.stages, request: Some(self.server) };
        if reported != (Reported { stages: Vec::new(), request: Some(RequestMetrics::default()) }) {
            // Whatever came was let in by the limits.
            let unlimited = Limits { stages: usize::MAX, interval_values: usize::MAX, ..Limits::default() };
            response.in_window.report(reported, 0, &unlimited);
        }
        response
    }
}

impl Head {
    /// Whether these are all the facts that wait, beside its own.
    pub(super) fn has_all(&self, held: &[HeldFacts]) -> bool {
        let cost = self.start.held.iter().chain(held).map(HeldFacts::cost).fold(0, usize::saturating_add);
        cost == self.start.held_cost
    }

    /// The head, and the facts that wait, of which `held` are those outside of it.
    pub(super) fn of_now(self, held: Vec<HeldFacts>) -> (head::Head, Vec<Fact>) {
        let clocks = match self.clock {
            Clock::ClientMonotonic => Clocks::from(ReceiveClock::ClientMonotonic),
            Clock::KafkaTimestamp => Clocks::from(ReceiveClock::KafkaTimestamp),
            Clock::Mixed => Clocks::from(ReceiveClock::ClientMonotonic).and(ReceiveClock::KafkaTimestamp),
        };
        let received = Received::restored(self.received, clocks);
        let clock = clock_of(&received);
        let held: Vec<_> = self.start.held.into_iter().chain(held).collect();
        let start = StreamStart { held: Vec::new(), ..self.start };
        let was_created = start.session_created.is_some() || self.created_model.is_some();
        let sample = Sample { split: self.split.map(Into::into), id: self.sample_id.map(Into::into) };
        let head = head::Head {
            opened_at: self.opened_at,
            last_event_at: self.last_event_at,
            ended: self.ended.map(|end| {
                let close_reason = end.close_reason.map(Into::into);
                Box::new(head::End { at: end.at, reason: end.reason, close_reason })
            }),
            first_offset: self.first_offset,
            last_offset: self.last_offset,
            first_event: self.first_event,
            last_event: self.last_event,
            received,
            run_id: self.run_id.map(Into::into),
            model: self.model.map(Into::into),
            created_model: self.created_model.map(Into::into),
            sample: (sample != Sample::default()).then(|| Box::new(sample)),
            created: was_created.then_some(Created::WITHOUT_ID),
            last_seq: self.last_seq.map(Into::into),
            sample_rate_hz: self.sample_rate_hz.unwrap_or(head::DEFAULT_SAMPLE_RATE_HZ),
            speech_onset: self.speech_onset.map(|at| moment(at, 0, clock)),
            start: start.of_now(clock, self.clock == Clock::Mixed),
            waiting: 0,
            tallies: self.tallies,
            known: self.known,
            responses: self.responses,
            truncated: self.truncated,
        };
        (head, held.into_iter().map(|held| held.of_now(clock)).collect())
    }
}

impl StreamStart {
    /// The start; where the session's times are of two clocks, everything is in its window.
    fn of_now(self, clock: ReceiveClock, is_mixed: bool) -> stream_start::StreamStart {
        let sources = [
            (StreamStartSource::Marker, self.marker),
            (StreamStartSource::InputAudioAppend, self.input_audio_append),
            (StreamStartSource::SessionCreated, self.session_created),
            (StreamStartSource::FirstEvent, self.first_event),
        ];
        let best = sources.into_iter().find_map(|(source, at)| at.map(|at| Chosen { source, at }));
        let is_final = self.chosen.is_some();
        let best = self.chosen.or(best).map(|Chosen { source, at }| {
            let at = if is_mixed { f64::MIN } else { at };
            stream_start::Chosen { source, at, clock }
        });
        stream_start::StreamStart { best, is_final, settled: None }
    }
}
