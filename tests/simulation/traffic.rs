//! What producers write: sessions of every kind of life, malformed records, tombstones, records of aborted transactions.
//!
//! Small on purpose: thousands of seeds are to be run, and a session's numbers are held by other tests. Most gaps are
//! either far below or far above the timeouts, so that what becomes of a session rests on its records alone; some are not.

use std::time::Duration;

use duplex_collector::collector::Settings;

use crate::plan::{Mishap, Plan};
use crate::random::Random;

/// When a simulation begins, in milliseconds since the epoch.
pub const BEGIN: u64 = 1_790_000_000_000;
/// Producers start sessions for this long.
const STARTS: u64 = 60_000;

/// Short lives, so that a simulation is short.
pub fn settings() -> Settings {
    Settings {
        grace: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(40),
        max_duration: Duration::from_secs(100),
        closed_retention: Duration::from_secs(100),
        clock_tolerance: Duration::from_secs(60),
        ..Settings::default()
    }
}

/// What a record is to the product.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Nature {
    Event {
        session: String,
        opens: bool,
        ends: Option<&'static str>,
    },
    DeadLetter,
    Tombstone,
    /// A transaction that its producer aborted: two offsets, nothing to read.
    Gap,
}

/// A record on its way to the events topic.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub at: u64,
    pub partition: i32,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub nature: Nature,
}

/// The records of a seed, in the order of their arrival.
pub fn make(plan: &mut Plan, random: &mut Random) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    for nth in 0..plan.sessions {
        Script::new(nth, plan, random, &mut arrivals).play();
    }
    let noise = if plan.draws(Mishap::Noise) { plan.sessions / 3 } else { 0 };
    for _ in 0..noise {
        arrivals.push(noise_record(plan, random));
    }
    arrivals.iter_mut().for_each(|arrival| arrival.timestamp -= plan.age as i64);
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

fn noise_record(plan: &Plan, random: &mut Random) -> Arrival {
    let session = random.below(plan.sessions);
    let (value, nature) = match random.below(6) {
        0 => (None, Nature::Tombstone),
        1 => (Some("nonsense"), Nature::DeadLetter),
        2 => (Some("[]"), Nature::DeadLetter),
        3 => (Some(r#"{"type":"response.speak","_client_received_at_s":NaN}"#), Nature::DeadLetter),
        _ => (None, Nature::Gap),
    };
    let at = BEGIN + random.below(STARTS);
    Arrival {
        at,
        partition: partition_of(session, plan),
        // Of no session: whatever it says, it moves no time.
        timestamp: at as i64 + if random.one_in(3) { far(plan, random) } else { 0 },
        key: Some(id_of(session).into_bytes()),
        value: value.map(|value| value.as_bytes().to_vec()),
        nature,
    }
}

fn id_of(nth: u64) -> String {
    format!("s{nth:02}")
}

fn partition_of(nth: u64, plan: &Plan) -> i32 {
    (nth % u64::from(plan.partitions.unsigned_abs())) as i32
}

/// How far a wrong clock is off, in milliseconds: in old records, where it is believed, beyond all timeouts and not so far that
/// its sessions outlive the simulation; else far enough never to be believed.
fn far(plan: &Plan, random: &mut Random) -> i64 {
    (if plan.age > 0 { random.between(150_000, 400_000) } else { random.between(3_600_000, 7_200_000) }) as i64
}

/// What a session's timestamps have to do with the time.
#[derive(Clone, Copy)]
enum Clock {
    /// Ahead or behind, by milliseconds.
    Off(i64),
    /// So many times as fast as others since the session's first event.
    Fast(i64),
    /// Now right, now ahead or behind by so much.
    Jumping(i64),
}

impl Clock {
    fn new(plan: &mut Plan, random: &mut Random) -> Self {
        let far = far(plan, random);
        if plan.draws(Mishap::WrongClock) {
            match random.below(5) {
                0 => Self::Off(far),
                1 => Self::Off(-far),
                2 => Self::Off(-(random.between(5_000, 100_000) as i64)),
                3 => Self::Fast(random.between(2, 3) as i64),
                _ => Self::Jumping(far),
            }
        } else if plan.draws(Mishap::SkewedProducer) {
            Self::Off(random.between(0, 4_000) as i64)
        } else {
            Self::Off(0)
        }
    }

    fn stamp(self, began: u64, at: u64, random: &mut Random) -> i64 {
        match self {
            Self::Off(by) => at as i64 + by,
            Self::Fast(times) => began as i64 + (at - began) as i64 * times,
            Self::Jumping(far) => at as i64 + *random.pick(&[0, 0, far, -far, -20_000]),
        }
    }
}

/// One session's records.
struct Script<'a> {
    id: String,
    partition: i32,
    has_key: bool,
    clock: Clock,
    began: u64,
    at: u64,
    seq: u64,
    responses: u64,
    plan: &'a mut Plan,
    random: &'a mut Random,
    arrivals: &'a mut Vec<Arrival>,
}

impl<'a> Script<'a> {
    fn new(nth: u64, plan: &'a mut Plan, random: &'a mut Random, arrivals: &'a mut Vec<Arrival>) -> Self {
        let clock = Clock::new(plan, random);
        let began = BEGIN + random.below(STARTS);
        Self {
            id: id_of(nth),
            partition: partition_of(nth, plan),
            has_key: !random.one_in(5),
            clock,
            began,
            at: began,
            seq: 0,
            responses: 0,
            plan,
            random,
            arrivals,
        }
    }

    fn play(&mut self) {
        let first = self.random.one_in(10);
        if !first {
            self.created();
        }
        self.life();
        self.afterwards();
        if self.random.one_in(6) {
            self.at += self.random.between(25_000, 35_000);
            self.created();
            self.life();
        }
    }

    fn life(&mut self) {
        if self.random.one_in(12) {
            // Long enough for the maximum duration.
            for _ in 0..12 {
                self.at += self.random.between(5_000, 14_000);
                self.event(r#""type":"playback.acknowledged""#);
            }
        }
        if self.random.one_in(2) {
            self.event(r#""type":"input_audio_buffer.append","audio":"AAAA""#);
        }
        for _ in 0..self.random.between(0, 2) {
            self.turn();
        }
        if self.random.one_in(5) {
            // Long enough to be taken for the end by a task whose time runs wild.
            self.at += self.random.between(20_000, 30_000);
            self.event(r#""type":"response.listen""#);
        }
        match self.random.below(10) {
            0..=5 => self.end("closed"),
            6 => self.end("expired"),
            // Silence is its end.
            _ => {}
        }
    }

    /// Stragglers, and events that come after the bundle.
    fn afterwards(&mut self) {
        for _ in 0..self.random.between(0, 2) {
            let gap = match self.random.below(12) {
                0..=5 => self.random.between(0, 3_000),
                6..=9 => self.random.between(60_000, 75_000),
                // Anything, also what the timeouts decide by a hair.
                _ => self.random.between(0, 60_000),
            };
            self.at += gap;
            self.event(r#""type":"response.speak""#);
        }
    }

    fn turn(&mut self) {
        let response = self.responses;
        self.responses += 1;
        let id = format!(r#""response_id":"r{response}""#);
        self.event(&format!(r#""type":"response.created",{id}"#));
        if self.random.one_in(2) {
            self.event(&format!(r#""type":"response.output_text.delta",{id},"delta":"hello""#));
        }
        for packet in 1..=self.random.between(0, 3) {
            let metadata = format!(r#""metadata":{{"audio_duration_ms":{}}}"#, packet * 200);
            self.event(&format!(r#""type":"response.output_audio.delta",{id},"delta":"AAAAAAAA",{metadata}"#));
        }
        match self.random.below(8) {
            0 => self.event(r#""type":"overlap.decision","action":"barge_in""#),
            1 => self.event(r#""type":"error","error":{"code":"overloaded"}"#),
            2 => self.event(r#""type":"response.listen""#),
            3 => self.reconnect(),
            _ => {}
        }
        if !self.random.one_in(5) {
            let tokens = self.random.between(1, 40);
            let stages = format!(r#""vllm_omni":{{"stage_metrics":{{"0":{{"num_tokens_out":{tokens}}}}}}}"#);
            self.event(&format!(r#""type":"response.done",{id},"response":{{"status":"completed"}},{stages}"#));
        }
    }

    /// The server replays its last event, with the number that it had.
    fn reconnect(&mut self) {
        self.event(r#""type":"session.resumed""#);
        self.seq -= 1;
        self.event(r#""type":"session.resumed""#);
    }

    fn created(&mut self) {
        self.put(r#""type":"session.created","session":{"model":"m"}"#.to_owned(), true, None);
    }

    fn end(&mut self, how: &'static str) {
        let fields = format!(r#""type":"session.{how}","reason":"client_close""#);
        self.seq += 1;
        self.put(format!(r#"{fields},"server_event_seq":{}"#, self.seq), false, Some(how));
    }

    fn event(&mut self, fields: &str) {
        self.seq += 1;
        self.put(format!(r#"{fields},"server_event_seq":{}"#, self.seq), false, None);
    }

    fn put(&mut self, fields: String, opens: bool, ends: Option<&'static str>) {
        self.at += match self.random.below(10) {
            0..=4 => 0,
            5..=8 => self.random.between(1, 400),
            _ => self.random.between(1_000, 5_000),
        };
        let mut timestamp = self.clock.stamp(self.began, self.at, self.random);
        if self.plan.draws(Mishap::DelayedRecord) {
            timestamp -= self.random.between(1, 6_000) as i64;
        }
        if self.plan.draws(Mishap::WildTimestamp) {
            timestamp += far(self.plan, self.random);
        }
        let session = if self.has_key { String::new() } else { format!(r#","session_id":"{}""#, self.id) };
        self.arrivals.push(Arrival {
            at: self.at,
            partition: self.partition,
            timestamp,
            key: self.has_key.then(|| self.id.clone().into_bytes()),
            value: Some(format!("{{{fields}{session}}}").into_bytes()),
            nature: Nature::Event { session: self.id.clone(), opens, ends },
        });
    }
}
