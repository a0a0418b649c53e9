//! One session in progress: its script, its microphone, its sequence numbers and its clock.

use std::collections::VecDeque;

use super::character::{Character, Ending};
use super::json::Json;
use super::payloads::Payloads;
use super::profile::Profile;
use super::random::Random;
use super::render::{Renderer, Scene};
use super::script::{REPLAYED, Script};
use super::step::Step;
use crate::ids::SessionId;

/// A session between its first event and its last. Its size does not depend on its length.
#[derive(Debug)]
pub(super) struct Session {
    id: SessionId,
    character: Character,
    script: Script,
    renderer: Renderer,
    /// When the next input packet is pushed, once the stream has started.
    append_at: Option<u64>,
    last_seq: u64,
    replay: Replay,
}

/// What a reconnect replays: server events as they are before their receive time.
///
/// ```text
/// Recording ──session.resumed──▶ Replaying          Off (no reconnect to come)
/// ```
#[derive(Debug)]
enum Replay {
    Off,
    /// The last events, oldest first.
    Recording(VecDeque<Vec<u8>>),
    /// Those not replayed yet.
    Replaying(VecDeque<Vec<u8>>),
}

/// One event as a session hands it out.
#[derive(Debug)]
pub(super) struct Emitted {
    pub at: u64,
    /// `None` for input media.
    pub step: Option<Step>,
    pub value: Vec<u8>,
}

impl Session {
    /// Streams of chance that a session takes from its seed.
    const STREAMS: u64 = 2;

    /// The `nth` session of the traffic. Its course depends on the seed and on `nth` only.
    pub(super) fn new(profile: &Profile, nth: u64, starts_at: u64) -> Self {
        let mut script_random = Random::new(profile.seed, nth * Self::STREAMS);
        let id = format!("duplex-{:016x}{:016x}", script_random.bits(), script_random.bits());
        let character = Character::draw(profile, &mut script_random);
        Self {
            id: SessionId::from(id.as_str()),
            script: Script::new(script_random, starts_at),
            renderer: Renderer::new(Random::new(profile.seed, nth * Self::STREAMS + 1)),
            append_at: None,
            last_seq: 0,
            replay: match character.reconnect_turn {
                Some(_) => Replay::Recording(VecDeque::with_capacity(REPLAYED + 1)),
                None => Replay::Off,
            },
            character,
        }
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(super) fn ending(&self) -> Ending {
        self.character.ending
    }

    /// When the next event is due; `None` once the session is over.
    pub(super) fn next_at(&mut self, profile: &Profile) -> Option<u64> {
        let step_at = self.script.next_at(profile, &self.character)?;
        Some(self.append_at.map_or(step_at, |append_at| append_at.min(step_at)))
    }

    /// The event that [`next_at`](Self::next_at) told of; `None` once the session is over.
    pub(super) fn emit(&mut self, profile: &Profile, payloads: &Payloads) -> Option<Emitted> {
        let step_at = self.script.next_at(profile, &self.character)?;
        let scene = Scene {
            profile,
            payloads,
            session: self.id.as_str(),
            character: &self.character,
            latencies: self.script.latencies(),
        };
        if let Some(at) = self.append_at.filter(|&append_at| append_at < step_at) {
            self.append_at = Some(at + self.character.append_ms * 1_000);
            let json = self.renderer.append(&scene);
            return Some(Emitted { at, step: None, value: self.stamp(json, at) });
        }
        let (at, step) = self.script.pop()?;
        let json = match step {
            Step::Replay => match &mut self.replay {
                Replay::Replaying(kept) => {
                    Json::resume(kept.pop_front().expect("more events precede a reconnect than it replays"))
                }
                Replay::Off | Replay::Recording(_) => unreachable!("a replay follows session.resumed"),
            },
            _ => self.renderer.step(&scene, step),
        };
        if step == Step::StreamStart {
            self.append_at = Some(at + self.character.append_ms * 1_000);
        }
        if step == Step::Resumed
            && let Replay::Recording(kept) = &mut self.replay
        {
            self.replay = Replay::Replaying(std::mem::take(kept));
        }
        let json = if is_numbered(step) { self.number(json) } else { json };
        Some(Emitted { at, step: Some(step), value: self.stamp(json, at) })
    }

    /// Gives a server event its sequence number, and keeps it while a reconnect is to come.
    fn number(&mut self, mut json: Json) -> Json {
        self.last_seq += 1;
        json.number("server_event_seq", self.last_seq);
        if let Replay::Recording(kept) = &mut self.replay {
            kept.push_back(json.unfinished().to_vec());
            if kept.len() > REPLAYED {
                kept.pop_front();
            }
        }
        json
    }

    fn stamp(&self, mut json: Json, at: u64) -> Vec<u8> {
        if let Some(offset_us) = self.character.clock_offset_us {
            json.seconds("_client_received_at_s", offset_us + at);
        }
        json.finish()
    }
}

/// The server numbers what it would replay: neither what opens a connection nor what the client sends.
fn is_numbered(step: Step) -> bool {
    !step.is_client() && !matches!(step, Step::Created | Step::Resumed | Step::Replay)
}
