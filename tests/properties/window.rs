//! The stream's window is exact in bounded memory: whatever source comes whenever, and whoever comes late (contract.md
//! section 2).

use std::collections::BTreeMap;

use duplex_collector::collector::{Arrival, Labels, Moment, ReceiveClock, ResponseFacts, SessionCollector, Settings};
use duplex_collector::ids::{Offset, SessionId};
use duplex_collector::time::Timestamp;
use duplex_collector::wire::Decoder;
use proptest::prelude::*;

/// What comes in: a source, or a fact of one of three responses.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    Marker,
    Append,
    Created,
    Fact(usize, Fact),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fact {
    Created,
    Text,
    Audio,
}

/// What is compared of a response: when it was created, its first text, first and last audio, packets and duration.
type Facts = (Option<f64>, Option<f64>, Option<f64>, Option<f64>, u32, Option<f64>);

fn json(step: Step, at: f64) -> String {
    match step {
        Step::Marker => r#"{"type":"collector.stream_start"}"#.into(),
        Step::Append => r#"{"type":"input_audio_buffer.append"}"#.into(),
        Step::Created => r#"{"type":"session.created"}"#.into(),
        Step::Fact(response, Fact::Created) => format!(r#"{{"type":"response.created","response_id":"{response}"}}"#),
        Step::Fact(response, Fact::Text) => {
            format!(r#"{{"type":"response.text.delta","response_id":"{response}","delta":"x"}}"#)
        }
        Step::Fact(response, Fact::Audio) => {
            let duration = at * 100.0;
            format!(
                r#"{{"type":"response.output_audio.delta","response_id":"{response}","delta":"AAAA","metadata":{{"audio_duration_ms":{duration}}}}}"#
            )
        }
    }
}

/// All is kept, and looked at once the best source is known.
fn unbounded(events: &[(f64, Step)]) -> (f64, BTreeMap<usize, Facts>) {
    let first = |step| events.iter().find(|(_, other)| *other == step).map(|(at, _)| *at);
    let sources = [Step::Marker, Step::Append, Step::Created].into_iter().find_map(first);
    let start = sources.unwrap_or(events[0].0);
    let mut facts = BTreeMap::<usize, Facts>::new();
    for (at, step) in events {
        let Step::Fact(response, fact) = step else { continue };
        let of = facts.entry(*response).or_default();
        if *at < start {
            continue;
        }
        match fact {
            Fact::Created => drop(of.0.get_or_insert(*at)),
            Fact::Text => drop(of.1.get_or_insert(*at)),
            Fact::Audio => {
                of.2.get_or_insert(*at);
                of.3 = Some(*at);
                of.4 += 1;
                of.5 = Some(of.5.unwrap_or(0.0).max(at * 100.0));
            }
        }
    }
    (start, facts)
}

fn facts(response: &ResponseFacts) -> (usize, Facts) {
    let window = &response.in_window;
    let at = |moment: Option<Moment>| moment.map(|moment| moment.at);
    let [created, text, first, last] =
        [window.created, window.first_text, window.first_audio, window.last_audio].map(at);
    let id = response.id.as_str().parse().expect("a number");
    (id, (created, text, first, last, window.packets, window.row_duration_ms()))
}

/// A session, and its snapshots as they stand.
#[derive(Default)]
struct Snapshots {
    held: BTreeMap<u32, Vec<u8>>,
    responses: BTreeMap<u32, Vec<u8>>,
}

impl Snapshots {
    /// The next process' session.
    fn restart(&mut self, mut session: SessionCollector) -> SessionCollector {
        let snapshot = session.snapshot();
        self.held.extend(snapshot.held);
        self.held.retain(|index, _| *index >= snapshot.released);
        self.responses.extend(snapshot.responses);
        let held = self.held.iter().map(|(index, part)| (*index, &part[..]));
        let responses = self.responses.iter().map(|(index, part)| (*index, &part[..]));
        SessionCollector::restore(session.id().clone(), &snapshot.head, held, responses).expect("restores")
    }
}

/// What the collector says, restored from its snapshots every so many events.
fn bounded(events: &[(f64, Step)], restart_every: usize) -> SessionCollector {
    let (settings, mut decoder, mut snapshots) = (Settings::default(), Decoder::new(1 << 20), Snapshots::default());
    let mut session: Option<SessionCollector> = None;
    for ((at, step), n) in events.iter().zip(1..) {
        let arrival = Arrival {
            received_at_s: *at,
            clock: ReceiveClock::ClientMonotonic,
            timestamp: None,
            now: Timestamp(0),
            offset: Offset(0),
            labels: Labels::default(),
        };
        let json = json(*step, *at);
        let event = decoder.decode(json.as_bytes()).expect("an event");
        let mut next = session.take().unwrap_or_else(|| SessionCollector::open(SessionId::from("s"), &arrival));
        next.handle_event(&event, &arrival, &settings);
        session = Some(if n % restart_every == 0 { snapshots.restart(next) } else { next });
    }
    let mut session = session.expect("an event");
    session.finish(&settings);
    session
}

fn step() -> impl Strategy<Value = Step> {
    let fact = prop_oneof![1 => Just(Fact::Text), 9 => Just(Fact::Audio)];
    prop_oneof![
        1 => Just(Step::Marker),
        1 => Just(Step::Append),
        1 => Just(Step::Created),
        60 => (0..3_usize, fact).prop_map(|(response, fact)| Step::Fact(response, fact)),
    ]
}

/// Events whose times rise, but for up to 64 that come in at another place than their times say.
fn events() -> impl Strategy<Value = Vec<(f64, Step)>> {
    let stragglers = prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..=64);
    (prop::collection::vec((step(), 0..2_u32), 1..400), stragglers).prop_map(|(steps, stragglers)| {
        let mut at = 0.0;
        // Of each response it is known that there is one.
        let known = (0..3).map(|response| (Step::Fact(response, Fact::Created), 1));
        let mut events: Vec<_> = known
            .chain(steps)
            .map(|(step, gap)| {
                at += f64::from(gap) * 0.01;
                (at, step)
            })
            .collect();
        for (from, to) in stragglers {
            let from = from.index(events.len());
            // A source that comes very late may lie anywhere between facts that are settled.
            let is_fact = matches!(events[from].1, Step::Fact(..));
            let event = events.remove(from);
            let to = to.index(events.len() + 1);
            events.insert(if is_fact { to } else { from }, event);
        }
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn bounded_memory_gives_the_unbounded_answer(events in events(), restart_every in 1..100_usize) {
        let (start, expected) = unbounded(&events);
        let session = bounded(&events, restart_every);
        prop_assert_eq!(session.start().map(|best| best.at), Some(start));
        prop_assert_eq!(session.known_responses().into_iter().map(facts).collect::<BTreeMap<_, _>>(), expected);
        prop_assert!(!session.head().truncated);
        prop_assert!(session.state_bytes() < 8 << 10, "{} bytes", session.state_bytes());
    }
}
