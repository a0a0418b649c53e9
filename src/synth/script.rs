//! What happens next in a session: steps and their times, written one turn ahead.
//!
//! Owns the course of a session and no bytes. Its own stream of chance keeps the course the same whatever
//! the payloads, the tap or the clock on the wire. Times are microseconds since the traffic started.

use std::collections::VecDeque;

use super::character::{Character, Ending};
use super::playback::{Playback, Played};
use super::profile::{Profile, Tap};
use super::random::Random;
use super::response::{BURST_US, Latencies, Outcome, Response};
use super::share::Share;
use super::step::{Fault, Status, Step};

/// Events that the server replays after a reconnect. The opening and one turn of speech are more than these.
pub(super) const REPLAYED: usize = 4;
/// From the client's `playback.ack` to the server's `playback.acknowledged`.
const ACK_US: u64 = 15_000;

/// The steps to come. Holds at most one turn, so memory does not grow with a session's length.
#[derive(Debug)]
pub(super) struct Script {
    random: Random,
    steps: VecDeque<(u64, Step)>,
    stage: Stage,
    /// Where the next stage begins.
    cursor: u64,
    latencies: Latencies,
}

/// ```text
/// Opening ──▶ Turn(0) ──▶ Turn(1) ──▶ … ──▶ Ending ──▶ Over
///    └────────────── no turns ──────────────▶┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Opening,
    Turn {
        nth: u32,
        /// The user barged in, and speaks already.
        speaking: bool,
    },
    Ending {
        /// A response is under way.
        hung_up: bool,
    },
    Over,
}

impl Script {
    pub(super) fn new(random: Random, starts_at: u64) -> Self {
        Self {
            random,
            steps: VecDeque::new(),
            stage: Stage::Opening,
            cursor: starts_at,
            latencies: Latencies::default(),
        }
    }

    /// When the next step is due; `None` once the session is over.
    pub(super) fn next_at(&mut self, profile: &Profile, character: &Character) -> Option<u64> {
        while self.steps.is_empty() && self.stage != Stage::Over {
            self.write_stage(profile, character);
        }
        self.steps.front().map(|&(at, _)| at)
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Step)> {
        self.steps.pop_front()
    }

    /// What the server says of the response under way.
    pub(super) fn latencies(&self) -> Latencies {
        self.latencies
    }

    fn write_stage(&mut self, profile: &Profile, character: &Character) {
        self.stage = match self.stage {
            Stage::Opening => {
                self.write_opening();
                if character.turns == 0 {
                    Stage::Ending { hung_up: false }
                } else {
                    Stage::Turn { nth: 0, speaking: false }
                }
            }
            Stage::Turn { nth, speaking } => self.write_turn(profile, character, nth, speaking),
            Stage::Ending { hung_up } => {
                self.write_ending(character.ending, hung_up);
                Stage::Over
            }
            // Nothing follows; `next_at` does not come here.
            Stage::Over => Stage::Over,
        };
        if profile.tap == Tap::ServerEvents {
            self.steps.retain(|(_, step)| !step.is_client());
        }
        self.steps.make_contiguous().sort_by_key(|&(at, _)| at);
    }

    fn push(&mut self, at: u64, step: Step) {
        self.steps.push_back((at, step));
    }

    fn write_opening(&mut self) {
        let created_at = self.cursor;
        self.push(created_at, Step::Created);
        self.push(created_at + BURST_US, Step::Updated);
        let stream_start_at = created_at + self.random.between(50_000, 400_000);
        self.push(stream_start_at, Step::StreamStart);
        self.cursor = stream_start_at + self.random.between(200_000, 1_500_000);
    }

    fn write_turn(&mut self, profile: &Profile, character: &Character, nth: u32, speaking: bool) -> Stage {
        let last = nth + 1 == character.turns;
        let fault = self.random.chance(profile.errors).then(|| self.random.between(0, 3));
        let committed_at = self.write_speech(speaking, fault);
        let reconnects = character.reconnect_turn == Some(nth);
        let next = Stage::Turn { nth: nth + 1, speaking: false };
        if character.listens_only {
            let at = if reconnects { self.write_reconnect(committed_at) } else { committed_at };
            self.push(at + 200_000, Step::Listen);
            self.cursor = at + 200_000 + self.random.between(500_000, 3_000_000);
            return if last { Stage::Ending { hung_up: false } } else { next };
        }
        let response = Response::draw(&mut self.random, committed_at, profile.packet_bounds_ms(), character.slow);
        let barges_in = self.random.chance(profile.barge_ins);
        let outcome = match fault {
            _ if last && character.hangs_up => Outcome::Unfinished,
            Some(0 | 1) => Outcome::Failed,
            _ if !last && barges_in => Outcome::BargedIn,
            _ if self.random.chance(Share::percent(2)) => Outcome::Incomplete,
            _ => Outcome::Completed,
        };
        self.latencies = response.latencies;
        self.write_response(&response, outcome, reconnects);
        match outcome {
            Outcome::Unfinished => Stage::Ending { hung_up: true },
            _ if last => Stage::Ending { hung_up: false },
            Outcome::BargedIn => Stage::Turn { nth: nth + 1, speaking: true },
            Outcome::Completed | Outcome::Incomplete | Outcome::Failed => next,
        }
    }

    /// The user's side of a turn. Returns when it is committed.
    fn write_speech(&mut self, speaking: bool, fault: Option<u64>) -> u64 {
        let started_at = self.cursor;
        let stopped_at = started_at + self.random.latency_us(1_800_000);
        if !speaking {
            self.push(started_at, Step::SpeechStarted);
        }
        // The model decides once a second whether to go on listening.
        let listens = (started_at + 700_000..stopped_at).step_by(1_000_000);
        self.steps.extend(listens.map(|at| (at, Step::Listen)));
        match fault {
            Some(2) => self.push(stopped_at - BURST_US, Step::Error(Fault::CommitEmpty)),
            Some(3) => self.push(stopped_at - BURST_US, Step::Error(Fault::RateLimit)),
            // The other faults are the response's.
            _ => {}
        }
        self.push(stopped_at, Step::SpeechStopped);
        self.push(stopped_at + 10_000, Step::UserItemAdded);
        self.push(stopped_at + 10_000 + BURST_US, Step::Committed);
        stopped_at + 10_000 + BURST_US
    }

    /// The connection is lost and comes back. Returns when the replay is through.
    fn write_reconnect(&mut self, lost_at: u64) -> u64 {
        let resumed_at = lost_at + self.random.latency_us(300_000);
        self.push(resumed_at - 30_000, Step::Resume);
        self.push(resumed_at, Step::Resumed);
        let replays = (1..=REPLAYED as u64).map(|nth| (resumed_at + nth * BURST_US, Step::Replay));
        self.steps.extend(replays);
        resumed_at + (REPLAYED as u64 + 1) * BURST_US
    }

    fn write_response(&mut self, response: &Response, outcome: Outcome, reconnects: bool) {
        for (nth, step) in [Step::ResponseCreated, Step::OutputItemAdded, Step::Speak].into_iter().enumerate() {
            self.push(response.created_at + nth as u64 * BURST_US, step);
        }
        self.push(response.first_text_at, Step::Text);
        let delivered = match outcome {
            Outcome::Completed => response.packets.len(),
            Outcome::Failed => match self.random.between(0, response.packets.len() as u64) as usize {
                packets if packets < response.shortest => 0,
                packets => packets,
            },
            Outcome::Incomplete | Outcome::BargedIn | Outcome::Unfinished => {
                self.random.between(response.shortest as u64, response.packets.len() as u64) as usize
            }
        };
        let mut playback = Playback::default();
        let mut ended_at = response.first_text_at;
        // The server goes on while the connection is lost: what it held comes at once afterwards.
        let mut not_before = 0;
        for (nth, packet) in response.packets[..delivered].iter().enumerate() {
            let at = packet.at.max(not_before);
            self.push(at, Step::Audio { audio_ms: packet.audio_ms });
            playback.add(at, packet.audio_ms);
            ended_at = at;
            not_before = at + 3 * BURST_US;
            if nth + 1 < delivered {
                self.push(at + BURST_US, Step::Text);
            }
            if reconnects && nth == 0 {
                ended_at = self.write_reconnect(at + BURST_US);
                not_before = ended_at;
            }
        }
        self.write_outcome(outcome, ended_at + BURST_US, &playback);
    }

    fn write_outcome(&mut self, outcome: Outcome, at: u64, playback: &Playback) {
        match outcome {
            Outcome::Completed | Outcome::Incomplete | Outcome::Failed => {
                let status = match outcome {
                    Outcome::Failed => {
                        self.push(at, Step::Error(Fault::Server));
                        Status::Failed
                    }
                    Outcome::Incomplete => Status::Incomplete,
                    _ => Status::Completed,
                };
                self.push(at + BURST_US, Step::AudioDone);
                self.push(at + 2 * BURST_US, Step::TranscriptDone);
                self.push(at + 3 * BURST_US, Step::Done(status));
                let quiet_at = self.write_playback(playback, u64::MAX).max(at + 4 * BURST_US);
                self.push(quiet_at + 50_000, Step::Listen);
                self.cursor = quiet_at + 50_000 + self.random.latency_us(900_000);
            }
            Outcome::BargedIn => {
                let spoken_at = at + self.random.between(5_000, 120_000);
                self.write_playback(playback, spoken_at);
                self.push(spoken_at, Step::SpeechStarted);
                self.push(spoken_at + 5_000, Step::Overlap);
                self.push(spoken_at + 25_000, Step::Cancel);
                self.push(spoken_at + 60_000, Step::Cleared);
                self.push(spoken_at + 62_000, Step::AudioDone);
                self.push(spoken_at + 62_000 + BURST_US, Step::Done(Status::Cancelled));
                self.cursor = spoken_at + 70_000;
            }
            Outcome::Unfinished => {
                self.cursor = at + self.random.between(1_000, 120_000);
                self.write_playback(playback, self.cursor);
            }
        }
    }

    /// Acknowledges what was played before `until`. Returns when the last sound was heard.
    fn write_playback(&mut self, playback: &Playback, until: u64) -> u64 {
        for Played { at, played_ms } in playback.acknowledged().filter(|played| played.at + ACK_US < until) {
            self.push(at, Step::PlaybackAck { played_ms });
            self.push(at + ACK_US, Step::PlaybackAcknowledged { played_ms });
        }
        playback.heard_at() + ACK_US
    }

    fn write_ending(&mut self, ending: Ending, hung_up: bool) {
        let pause_us = if hung_up { 0 } else { self.random.between(300_000, 2_000_000) };
        let at = self.cursor + pause_us;
        match ending {
            Ending::Closed => {
                self.push(at, Step::Close);
                self.push(at + 20_000, Step::Closed);
            }
            Ending::Expired => self.push(at + 20_000, Step::Expired),
            // No event tells of it.
            Ending::Abandoned => {}
        }
    }
}
