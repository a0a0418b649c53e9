//! What a response did in the stream's window, in constant space however long its audio (contract.md section 3).
//!
//! Facts may be taken in any order: what is first and last goes by the order in which the events arrived.

use serde::{Deserialize, Serialize};

use super::fact::{Audio, Fact, Reported};
use super::playback::Playback;
use super::received::Moment;
use super::settings::Limits;
use super::source::Clocks;
use crate::wire::{Origin, RequestMetrics, Scalar, StageSnapshot};

/// The facts of one response.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Windowed {
    pub created: Option<Moment>,
    pub first_text: Option<Moment>,
    pub first_audio: Option<Moment>,
    pub last_audio: Option<Moment>,
    /// First audio delta whose payload was a string, an empty one too.
    pub client_audio: Option<Moment>,
    pub packets: u32,
    /// `None` where it can't be told: packets did not come in their order, or an earlier release saw a part of them.
    pub playback: Option<Playback>,
    pub(super) row_duration: Largest,
    pub(super) stream_duration: Largest,
    pub(super) audio_clocks: Clocks,
    pub(super) metrics: Option<Box<Metrics>>,
}

/// What the server reported of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Metrics {
    /// Each stage's last snapshot, in the order the stages were first seen.
    pub stages: Vec<Stage>,
    ttft_ms: Option<(u32, Scalar)>,
    ttfp_ms: Option<(u32, Scalar)>,
    measurement_origin: Option<(u32, Origin)>,
}

/// A stage's last snapshot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stage {
    pub id: String,
    pub snapshot: StageSnapshot,
    /// The ordinals of the events that it was first and last in.
    first: u32,
    last: u32,
}

impl Default for Windowed {
    fn default() -> Self {
        Self {
            created: None,
            first_text: None,
            first_audio: None,
            last_audio: None,
            client_audio: None,
            packets: 0,
            playback: Some(Playback::default()),
            row_duration: Largest::default(),
            stream_duration: Largest::default(),
            audio_clocks: Clocks::default(),
            metrics: None,
        }
    }
}

impl Windowed {
    /// Takes one event's facts; returns whether a limit kept a stage out.
    #[must_use]
    pub fn apply(&mut self, fact: Fact, limits: &Limits) -> bool {
        let moment = fact.moment;
        if fact.created {
            self.created = earlier(self.created, Some(moment));
        }
        if fact.text {
            self.first_text = earlier(self.first_text, Some(moment));
        }
        if let Some(audio) = fact.audio {
            self.client_audio = earlier(self.client_audio, Some(moment));
            self.audio_clocks = self.audio_clocks.and(moment.clock);
            if audio != Audio::Empty {
                self.packet(moment, audio, fact.audio_ms);
            }
        }
        fact.metrics.is_some_and(|reported| self.report(*reported, moment.ordinal, limits))
    }

    /// Takes what the server reported in the event of that ordinal; returns whether a limit kept a stage out.
    pub(super) fn report(&mut self, reported: Reported, ordinal: u32, limits: &Limits) -> bool {
        self.metrics.get_or_insert_default().merge(Metrics::of(reported, ordinal), limits)
    }

    fn packet(&mut self, moment: Moment, audio: Audio, ms: f64) {
        self.packets = self.packets.saturating_add(1);
        let last = self.last_audio;
        let is_in_order = last.is_none_or(|last| last.ordinal < moment.ordinal);
        self.first_audio = earlier(self.first_audio, Some(moment));
        self.last_audio = later(last, Some(moment));
        let since = |other: Option<Moment>| other.map(|other| moment.at - other.at);
        let since_first = since(self.first_audio).unwrap_or(0.0);
        let playback = self.playback.filter(|_| is_in_order);
        self.playback = playback.and_then(|playback| playback.after(since(last), since_first, audio, ms));
        self.row_duration.take(matches!(audio, Audio::SoFar | Audio::SoFarOfRow).then_some(ms));
        self.stream_duration.take((audio == Audio::SoFar).then_some(ms));
    }

    /// Takes all that `other` has; returns whether a limit kept a stage out.
    #[must_use]
    pub fn merge(&mut self, other: Self, limits: &Limits) -> bool {
        self.playback = match (self.packets, other.packets) {
            (_, 0) => self.playback,
            (0, _) => other.playback,
            _ => None,
        };
        self.created = earlier(self.created, other.created);
        self.first_text = earlier(self.first_text, other.first_text);
        self.first_audio = earlier(self.first_audio, other.first_audio);
        self.last_audio = later(self.last_audio, other.last_audio);
        self.client_audio = earlier(self.client_audio, other.client_audio);
        self.packets = self.packets.saturating_add(other.packets);
        self.row_duration.take(other.row_duration_ms());
        self.stream_duration.take(other.stream_duration_ms());
        self.audio_clocks = self.audio_clocks.and(other.audio_clocks);
        other.metrics.is_some_and(|metrics| self.metrics.get_or_insert_default().merge(*metrics, limits))
    }

    /// Leaves out what is known not to be in. What came first of the rest is not known then.
    pub fn cut(&mut self, is_in: impl Fn(&Moment) -> bool) {
        let has_any_before = self.first_audio.is_some_and(|moment| !is_in(&moment));
        self.playback = self.playback.filter(|_| !has_any_before);
        for moment in [
            &mut self.created,
            &mut self.first_text,
            &mut self.first_audio,
            &mut self.last_audio,
            &mut self.client_audio,
        ] {
            *moment = moment.filter(&is_in);
        }
    }

    /// What `limits` leave to others of the same response.
    pub(super) fn leaves(&self, limits: &Limits) -> Limits {
        let values: usize = self.stages().iter().map(|stage| stage.snapshot.interval_values()).sum();
        Limits {
            stages: limits.stages.saturating_sub(self.stages().len()),
            interval_values: limits.interval_values.saturating_sub(values),
            ..limits.clone()
        }
    }

    /// The clocks of the times that figures are made of.
    #[must_use]
    pub fn clocks(&self) -> Clocks {
        [self.created, self.first_text].into_iter().flatten().fold(self.audio_clocks, |clocks, m| clocks.and(m.clock))
    }

    /// Largest duration so far as the row reads it, in milliseconds.
    #[must_use]
    pub fn row_duration_ms(&self) -> Option<f64> {
        self.row_duration.value()
    }

    /// Largest duration so far as the stream reads it, in milliseconds.
    #[must_use]
    pub fn stream_duration_ms(&self) -> Option<f64> {
        self.stream_duration.value()
    }

    /// Each stage's last snapshot, in the order the stages were first seen.
    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        self.metrics.as_ref().map_or(&[], |metrics| &metrics.stages)
    }

    /// The server's own `ttft_ms`.
    #[must_use]
    pub fn server_ttft_ms(&self) -> Option<Scalar> {
        self.metrics.as_ref()?.ttft_ms.map(|(_, value)| value)
    }

    /// The server's own `ttfp_ms`.
    #[must_use]
    pub fn server_ttfp_ms(&self) -> Option<Scalar> {
        self.metrics.as_ref()?.ttfp_ms.map(|(_, value)| value)
    }

    /// The server's texts for what its values measure.
    #[must_use]
    pub fn server_origin(&self) -> Option<&Origin> {
        self.metrics.as_ref()?.measurement_origin.as_ref().map(|(_, origin)| origin)
    }
}

impl Metrics {
    fn of(reported: Reported, ordinal: u32) -> Self {
        let stage = |(id, snapshot)| Stage { id, snapshot, first: ordinal, last: ordinal };
        let RequestMetrics { ttft_ms, ttfp_ms, measurement_origin } = reported.request.unwrap_or_default();
        Self {
            stages: reported.stages.into_iter().map(stage).collect(),
            ttft_ms: ttft_ms.map(|value| (ordinal, value)),
            ttfp_ms: ttfp_ms.map(|value| (ordinal, value)),
            measurement_origin: measurement_origin.map(|origin| (ordinal, origin)),
        }
    }

    /// The last of equal keys rules, `null` included; returns whether a limit kept a stage out.
    fn merge(&mut self, other: Self, limits: &Limits) -> bool {
        last_said(&mut self.ttft_ms, other.ttft_ms);
        last_said(&mut self.ttfp_ms, other.ttfp_ms);
        last_said(&mut self.measurement_origin, other.measurement_origin);
        let mut truncated = false;
        for stage in other.stages {
            truncated |= !self.take_stage(stage, limits);
        }
        truncated
    }

    /// Takes a stage's snapshot; returns whether the limits let it in.
    fn take_stage(&mut self, stage: Stage, limits: &Limits) -> bool {
        let known = self.stages.iter().position(|known| known.id == stage.id);
        let others = self.stages.iter().filter(|other| other.id != stage.id);
        let values: usize = others.map(|other| other.snapshot.interval_values()).sum();
        if values + stage.snapshot.interval_values() > limits.interval_values {
            return false;
        }
        let Some(known) = known else {
            let has_room = self.stages.len() < limits.stages;
            if has_room {
                self.stages.reserve_exact(1);
                let at = self.stages.partition_point(|other| other.first <= stage.first);
                self.stages.insert(at, stage);
            }
            return has_room;
        };
        let first = self.stages[known].first.min(stage.first);
        if self.stages[known].last <= stage.last {
            self.stages[known] = stage;
        }
        if self.stages[known].first != first {
            self.stages[known].first = first;
            self.stages.sort_by_key(|stage| stage.first);
        }
        true
    }
}

fn last_said<T>(known: &mut Option<(u32, T)>, new: Option<(u32, T)>) {
    if let Some(new) = new
        && known.as_ref().is_none_or(|(ordinal, _)| *ordinal <= new.0)
    {
        *known = Some(new);
    }
}

/// The one that arrived first.
fn earlier(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    one.into_iter().chain(other).min_by_key(|moment| moment.ordinal)
}

/// The one that arrived last.
fn later(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    one.into_iter().chain(other).max_by_key(|moment| moment.ordinal)
}

/// The largest of some numbers; below every number where there was none, which takes half the room of an `Option`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Largest(f64);

impl Default for Largest {
    fn default() -> Self {
        Self(f64::NEG_INFINITY)
    }
}

impl Largest {
    pub(super) fn take(&mut self, number: Option<f64>) {
        self.0 = self.0.max(number.unwrap_or(f64::NEG_INFINITY));
    }

    fn value(self) -> Option<f64> {
        Some(self.0).filter(|number| *number > f64::NEG_INFINITY)
    }
}
