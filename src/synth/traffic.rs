//! The traffic itself: the sessions at once, merged into one order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use super::character::Ending;
use super::payloads::Payloads;
use super::profile::Profile;
use super::random::Random;
use super::session::{Emitted, Session};
use super::step::Step;
use crate::ids::SessionId;
use crate::time::Timestamp;

/// Streams of chance above those of any session.
const PAYLOAD_STREAM: u64 = u64::MAX;
const ARRIVAL_STREAM: u64 = u64::MAX - 1;

/// One record of the events topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The record's key.
    pub session: SessionId,
    /// Receive time, by the traffic's own pace.
    pub at: Timestamp,
    /// One JSON object.
    pub value: Vec<u8>,
    /// Names and values; every record of the traffic has the same.
    pub headers: Arc<[(String, String)]>,
}

/// What was made so far. An event handed out is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub events: u64,
    /// Bytes of the values.
    pub bytes: u64,
    /// Sessions of which at least one event was handed out.
    pub sessions: u64,
    pub closed: u64,
    pub expired: u64,
    /// Sessions that fell silent without an end.
    pub abandoned: u64,
    pub responses: u64,
    pub audio_packets: u64,
    pub errors: u64,
    /// Events replayed with their old `server_event_seq`.
    pub duplicates: u64,
}

/// Made-up traffic, in order of time. Holds `concurrency` sessions and one block of audio, whatever its length.
#[derive(Debug)]
pub struct Traffic {
    profile: Profile,
    payloads: Payloads,
    arrivals: Random,
    headers: Arc<[(String, String)]>,
    /// The sessions in progress. A place is taken again when its session is over.
    sessions: Vec<Session>,
    /// When each place's next event is due, microseconds since the start.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    counts: Counts,
    /// Sessions made so far, handed out or not.
    made: u64,
}

impl Traffic {
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let at_once = u64::try_from(profile.concurrency.max(1)).unwrap_or(u64::MAX).min(profile.sessions);
        let headers = profile.run_id.iter().map(|run_id| ("run_id".to_owned(), run_id.clone())).collect();
        let mut traffic = Self {
            payloads: Payloads::new(&mut Random::new(profile.seed, PAYLOAD_STREAM)),
            arrivals: Random::new(profile.seed, ARRIVAL_STREAM),
            headers,
            sessions: Vec::new(),
            due: BinaryHeap::new(),
            counts: Counts::default(),
            made: 0,
            profile,
        };
        let ramp_us = u64::try_from(traffic.profile.ramp.as_micros()).unwrap_or(u64::MAX);
        for place in 0..at_once {
            let starts_at = u128::from(ramp_us) * u128::from(place) / u128::from(at_once);
            traffic.start_session(None, u64::try_from(starts_at).expect("a part of the ramp is within it"));
        }
        traffic
    }

    /// Sessions there will be in all; as many bundles are due once every session has ended.
    #[must_use]
    pub fn expected_sessions(&self) -> u64 {
        self.profile.sessions
    }

    /// What was handed out so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn start_session(&mut self, place: Option<usize>, starts_at: u64) {
        let mut session = Session::new(&self.profile, self.made, starts_at);
        self.made += 1;
        let at = session.next_at(&self.profile).expect("a session opens with session.created");
        let place = match place {
            Some(place) => {
                self.sessions[place] = session;
                place
            }
            None => {
                self.sessions.push(session);
                self.sessions.len() - 1
            }
        };
        self.due.push(Reverse((at, place)));
    }

    fn count(&mut self, emitted: &Emitted) {
        let counts = &mut self.counts;
        counts.events += 1;
        counts.bytes += emitted.value.len() as u64;
        match emitted.step {
            Some(Step::Created) => counts.sessions += 1,
            Some(Step::Closed) => counts.closed += 1,
            Some(Step::Expired) => counts.expired += 1,
            Some(Step::ResponseCreated) => counts.responses += 1,
            Some(Step::Audio { .. }) => counts.audio_packets += 1,
            Some(Step::Error(_)) => counts.errors += 1,
            Some(Step::Replay) => counts.duplicates += 1,
            // Counted as an event only.
            _ => {}
        }
    }
}

impl Iterator for Traffic {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let Reverse((_, place)) = self.due.pop()?;
        let session = &mut self.sessions[place];
        let emitted =
            session.emit(&self.profile, &self.payloads).expect("a place is due only while its session has events");
        let id = session.id().clone();
        match session.next_at(&self.profile) {
            Some(next_at) => self.due.push(Reverse((next_at, place))),
            None => {
                self.counts.abandoned += u64::from(session.ending() == Ending::Abandoned);
                if self.made < self.profile.sessions {
                    let pause_us = self.arrivals.between(0, 500_000);
                    self.start_session(Some(place), emitted.at + pause_us);
                }
            }
        }
        self.count(&emitted);
        Some(Event {
            session: id,
            at: self.profile.start + Duration::from_micros(emitted.at),
            value: emitted.value,
            headers: Arc::clone(&self.headers),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::super::{Share, Tap};
    use super::*;

    fn profile() -> Profile {
        Profile {
            seed: 11,
            sessions: 60,
            concurrency: 7,
            payload_bytes: Some(25),
            run_id: Some("nightly".to_owned()),
            reconnects: Share::percent(30),
            abandoned: Share::percent(20),
            expired: Share::percent(20),
            ..Profile::default()
        }
    }

    fn parsed(event: &Event) -> Value {
        let value: Value = serde_json::from_slice(&event.value).expect("an event is JSON");
        assert!(value.is_object(), "{value}");
        value
    }

    fn kind(value: &Value) -> &str {
        value["type"].as_str().expect("an event has a type")
    }

    fn by_session(profile: Profile) -> BTreeMap<SessionId, Vec<Value>> {
        let mut sessions = BTreeMap::<SessionId, Vec<Value>>::new();
        for event in Traffic::new(profile) {
            sessions.entry(event.session.clone()).or_default().push(parsed(&event));
        }
        sessions
    }

    fn course(profile: Profile) -> Vec<(SessionId, Timestamp, String)> {
        let told = |event: Event| (event.session.clone(), event.at, kind(&parsed(&event)).to_owned());
        Traffic::new(profile).map(told).collect()
    }

    #[test]
    fn the_same_profile_gives_the_same_bytes() {
        assert!(Traffic::new(profile()).eq(Traffic::new(profile())));
        let other = Profile { seed: 12, ..profile() };
        assert!(!Traffic::new(profile()).eq(Traffic::new(other)));
    }

    /// Fails when a change gives old seeds new traffic: then stored figures of the demo and the benches change too.
    #[test]
    fn a_seed_gives_these_bytes_in_every_version() {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for event in Traffic::new(profile()) {
            for byte in event.at.0.to_le_bytes().iter().chain(&event.value) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        assert_eq!(format!("{hash:016x}"), "c1a48f5ed49583ea");
    }

    #[test]
    fn sizes_the_client_clock_and_concurrency_leave_the_course_of_a_session_as_it_is() {
        let expected = course(profile());
        assert_eq!(course(Profile { payload_bytes: Some(900), ..profile() }), expected);
        assert_eq!(course(Profile { client_clock: Share::NONE, ..profile() }), expected);
        let kinds = |profile| {
            let of_one = |events: Vec<Value>| events.iter().map(|event| kind(event).to_owned()).collect::<Vec<_>>();
            by_session(profile).into_iter().map(|(id, events)| (id, of_one(events))).collect::<BTreeMap<_, _>>()
        };
        let alone = kinds(Profile { concurrency: 1, ..profile() });
        assert_eq!(alone, kinds(profile()));
    }

    #[test]
    fn time_never_goes_back() {
        assert!(course(profile()).is_sorted_by_key(|&(_, at, _)| at));
        for events in by_session(profile()).into_values() {
            let clock = |event: &Value| event["_client_received_at_s"].as_f64();
            assert!(events.iter().map(clock).is_sorted());
        }
    }

    #[test]
    fn every_session_begins_once_and_ends_once_at_most() {
        let mut traffic = Traffic::new(profile());
        let mut ended = BTreeSet::new();
        let mut begun = BTreeSet::new();
        for event in traffic.by_ref() {
            assert!(!ended.contains(&event.session), "an event after the end");
            match kind(&parsed(&event)) {
                "session.created" => assert!(begun.insert(event.session)),
                "session.closed" | "session.expired" => assert!(ended.insert(event.session)),
                _ => assert!(begun.contains(&event.session)),
            }
        }
        let counts = traffic.counts();
        assert_eq!(begun.len() as u64, traffic.expected_sessions());
        assert_eq!(counts.sessions, traffic.expected_sessions());
        assert_eq!(counts.closed + counts.expired, ended.len() as u64);
        assert_eq!(counts.closed + counts.expired + counts.abandoned, counts.sessions);
        assert!(counts.closed > 0 && counts.expired > 0 && counts.abandoned > 0, "{counts:?}");
    }

    #[test]
    fn no_more_sessions_are_held_than_run_at_once() {
        let mut traffic = Traffic::new(profile());
        while traffic.next().is_some() {
            assert!(traffic.sessions.len() <= 7 && traffic.due.len() <= 7);
        }
        assert_eq!((traffic.due.len(), traffic.sessions.len()), (0, 7));
    }

    #[test]
    fn counts_agree_with_the_events() {
        let mut traffic = Traffic::new(profile());
        let mut seen = Counts::default();
        let mut last_seqs = BTreeMap::new();
        for event in traffic.by_ref() {
            seen.events += 1;
            seen.bytes += event.value.len() as u64;
            let value = parsed(&event);
            match kind(&value) {
                "session.created" => seen.sessions += 1,
                "session.closed" => seen.closed += 1,
                "session.expired" => seen.expired += 1,
                _ => {}
            }
            if let Some(seq) = value["server_event_seq"].as_u64() {
                let last_seq = last_seqs.entry(event.session).or_insert(0);
                if seq <= *last_seq {
                    seen.duplicates += 1;
                    continue;
                }
                assert_eq!(seq, *last_seq + 1, "a gap");
                *last_seq = seq;
            }
            match kind(&value) {
                "response.created" => seen.responses += 1,
                "response.output_audio.delta" => seen.audio_packets += 1,
                "error" => seen.errors += 1,
                _ => {}
            }
        }
        seen.abandoned = traffic.counts().abandoned;
        assert_eq!(seen, traffic.counts());
        assert!(seen.duplicates > 0 && seen.errors > 0 && seen.audio_packets > seen.responses, "{seen:?}");
    }

    #[test]
    fn a_response_is_created_before_its_audio_and_done_after_it() {
        let profile = Profile { reconnects: Share::NONE, hang_ups: Share::NONE, ..profile() };
        for events in by_session(profile).into_values() {
            let mut open = None;
            let mut audio_ms = 0;
            for event in &events {
                let response = event["response_id"].as_str().or(event["response"]["id"].as_str());
                match kind(event) {
                    "response.created" => {
                        assert_eq!(open, None);
                        (open, audio_ms) = (response, 0);
                    }
                    "response.output_audio.delta" => {
                        assert!(open.is_some() && open == response);
                        let cumulative_ms = event["metadata"]["audio_duration_ms"].as_u64().unwrap();
                        assert!(cumulative_ms > audio_ms);
                        audio_ms = cumulative_ms;
                    }
                    "response.done" => assert_eq!(open.take(), response),
                    _ => {}
                }
            }
            assert_eq!(open, None);
        }
    }

    #[test]
    fn the_headers_name_the_run_and_nothing_else() {
        let headers = |profile| Traffic::new(profile).next().expect("a first event").headers;
        assert_eq!(*headers(profile()), [("run_id".to_owned(), "nightly".to_owned())]);
        assert_eq!(*headers(Profile { run_id: None, ..profile() }), []);
    }

    #[test]
    fn a_tap_on_the_server_sees_no_event_of_the_client() {
        let both = course(profile());
        let server = course(Profile { tap: Tap::ServerEvents, ..profile() });
        let of_client = [
            "collector.stream_start",
            "input_audio_buffer.append",
            "playback.ack",
            "response.cancel",
            "session.resume",
            "session.close",
        ];
        let without: Vec<_> = both.into_iter().filter(|(_, _, kind)| !of_client.contains(&kind.as_str())).collect();
        assert_eq!(without.len(), server.len());
        assert!(of_client.iter().all(|name| server.iter().all(|(_, _, kind)| kind != name)));
    }

    /// Bytes that a padded base64 text decodes to.
    fn decoded_bytes(text: &str) -> usize {
        let data = text.trim_end_matches('=');
        assert!(text.len().is_multiple_of(4) && text.len() - data.len() <= 2, "{text}");
        assert!(data.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'+' || c == b'/'), "{text}");
        data.len() * 3 / 4
    }

    #[test]
    fn audio_is_valid_base64_of_the_real_size_or_of_the_size_asked_for() {
        for payload_bytes in [None, Some(1), Some(2), Some(3)] {
            let profile = Profile { sessions: 3, payload_bytes, packet_ms: 200..=200, ..profile() };
            let expected = |ms: u64, per_ms: u64| payload_bytes.map_or(ms * per_ms, u64::from) as usize;
            let mut packets = 0;
            for event in Traffic::new(profile).map(|event| parsed(&event)) {
                let cumulative_ms = event["metadata"]["audio_duration_ms"].as_u64();
                match kind(&event) {
                    "input_audio_buffer.append" => {
                        assert_eq!(decoded_bytes(event["audio"].as_str().unwrap()), expected(200, 32));
                    }
                    // The last packet of a response is shorter.
                    "response.output_audio.delta" if cumulative_ms.is_some_and(|ms| ms.is_multiple_of(200)) => {
                        assert_eq!(decoded_bytes(event["delta"].as_str().unwrap()), expected(200, 48));
                        packets += 1;
                    }
                    "response.output_audio.delta" => drop(decoded_bytes(event["delta"].as_str().unwrap())),
                    _ => {}
                }
            }
            assert!(packets > 0);
        }
    }

    #[test]
    fn extreme_profiles_are_traffic_too() {
        let none = Profile { sessions: 0, ..profile() };
        assert_eq!(Traffic::new(none).count(), 0);
        let unpaced = Profile { concurrency: 0, turns: 0..=0, sessions: 3, payload_bytes: Some(0), ..profile() };
        assert!(Traffic::new(unpaced).count() > 0);
        let all = Profile {
            barge_ins: Share::ALL,
            errors: Share::ALL,
            reconnects: Share::ALL,
            abandoned: Share::ALL,
            hang_ups: Share::ALL,
            slow: Share::ALL,
            ..profile()
        };
        let mut traffic = Traffic::new(all);
        traffic.by_ref().for_each(|event| drop(parsed(&event)));
        assert_eq!(traffic.counts().abandoned, 60);
    }
}
