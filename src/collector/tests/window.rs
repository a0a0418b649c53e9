//! The window is exact in bounded memory: whatever source comes whenever, and whoever comes late (contract.md section 2).

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What comes in: a source, or a fact of one of three responses.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    Marker,
    Append,
    Created,
    Fact { response: usize, is_text: bool },
}

/// What is compared of a response: when it was created, its first text, first and last audio, packets and duration.
type Facts = (Option<f64>, Option<f64>, Option<f64>, Option<f64>, u32, Option<f64>);

fn json(step: Step, at: f64) -> String {
    match step {
        Step::Marker => r#"{"type":"collector.stream_start"}"#.into(),
        Step::Append => r#"{"type":"input_audio_buffer.append"}"#.into(),
        Step::Created => r#"{"type":"session.created"}"#.into(),
        Step::Fact { response, is_text: true } => {
            format!(r#"{{"type":"response.text.delta","response_id":"{response}","delta":"x"}}"#)
        }
        Step::Fact { response, .. } => format!(
            r#"{{"type":"response.output_audio.delta","response_id":"{response}","delta":"AAAA","metadata":{{"audio_duration_ms":{}}}}}"#,
            at * 100.0
        ),
    }
}

/// All is kept, and looked at once the best source is known.
fn unbounded(events: &[(f64, Step)]) -> (f64, BTreeMap<usize, Facts>) {
    let first = |step| events.iter().find(|(_, other)| *other == step).map(|(at, _)| *at);
    let sources = [Step::Marker, Step::Append, Step::Created].into_iter().find_map(first);
    let start = sources.unwrap_or(events[0].0);
    let mut facts = BTreeMap::<usize, Facts>::new();
    for (at, step) in events {
        let Step::Fact { response, is_text } = step else { continue };
        let of = facts.entry(*response).or_default();
        if *at < start {
            continue;
        }
        if *is_text {
            of.1.get_or_insert(*at);
        } else {
            of.2.get_or_insert(*at);
            of.3 = Some(*at);
            of.4 += 1;
            of.5 = Some(of.5.unwrap_or(0.0).max(at * 100.0));
        }
    }
    (start, facts)
}

fn at(moment: Option<Moment>) -> Option<f64> {
    moment.map(|moment| moment.at)
}

/// What the collector says, restored from its snapshots every so many events.
fn bounded(events: &[(f64, Step)], restart_every: usize) -> (SessionCollector, BTreeMap<usize, Facts>) {
    let settings = Settings::default();
    let mut session = SessionCollector::open(SessionId::from("s"), &arrival(events[0].0));
    let (mut held, mut responses) = (BTreeMap::new(), BTreeMap::new());
    for ((at, step), n) in events.iter().zip(1..) {
        handle(&mut session, &settings, *at, &json(*step, *at));
        if n % restart_every == 0 {
            let snapshot = session.snapshot();
            held.extend(snapshot.held);
            held.retain(|index, _| *index >= snapshot.released);
            responses.extend(snapshot.responses);
            let parts = |parts: &BTreeMap<u32, Vec<u8>>| parts.clone().into_iter().collect::<Vec<_>>();
            let (held, responses) = (parts(&held), parts(&responses));
            let slices = |(index, part): &(u32, Vec<u8>)| (*index, part.clone());
            let (held, responses): (Vec<_>, Vec<_>) =
                (held.iter().map(slices).collect(), responses.iter().map(slices).collect());
            session = SessionCollector::restore(
                SessionId::from("s"),
                &snapshot.head,
                held.iter().map(|(index, part)| (*index, &part[..])),
                responses.iter().map(|(index, part)| (*index, &part[..])),
            )
            .expect("restores");
        }
    }
    session.finish(&settings);
    let facts = |response: &ResponseFacts| {
        let window = &response.in_window;
        let moments = [window.created, window.first_text, window.first_audio, window.last_audio].map(at);
        let [created, text, first, last] = moments;
        (
            response.id.as_str().parse().expect("a number"),
            (created, text, first, last, window.packets, window.row_duration_ms()),
        )
    };
    let facts = session.responses.iter().map(facts).collect();
    (session, facts)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Marker),
        1 => Just(Step::Append),
        1 => Just(Step::Created),
        60 => (0..3_usize, any::<bool>()).prop_map(|(response, is_text)| Step::Fact { response, is_text }),
    ]
}

/// Events whose times rise, but for up to 64 that come in at another place than their times say.
fn events() -> impl Strategy<Value = Vec<(f64, Step)>> {
    let stragglers = prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..=64);
    (prop::collection::vec((step(), 0..2_u32), 1..400), stragglers).prop_map(|(steps, stragglers)| {
        let mut at = 0.0;
        let mut events: Vec<_> = steps
            .into_iter()
            .map(|(step, gap)| {
                at += f64::from(gap) * 0.01;
                (at, step)
            })
            .collect();
        for (from, to) in stragglers {
            let from = from.index(events.len());
            // A source that comes very late may lie anywhere between facts that are settled.
            let is_fact = matches!(events[from].1, Step::Fact { .. });
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
        let (session, facts) = bounded(&events, restart_every);
        prop_assert_eq!(session.start().map(|best| best.at), Some(start));
        prop_assert_eq!(facts, expected);
        prop_assert!(!session.head().truncated);
        prop_assert!(session.state_bytes() < 8 << 10, "{} bytes", session.state_bytes());
    }
}

/// A hundred audio packets, one a second from 101 on, after what came first.
fn packets(first: &[(f64, Step)]) -> Vec<(f64, Step)> {
    let packet = |n| (101.0 + f64::from(n), Step::Fact { response: 0, is_text: false });
    first.iter().copied().chain((0..100).map(packet)).collect()
}

#[test]
fn a_source_of_another_time_than_it_came_at_moves_what_is_settled() {
    for (late, first_packet) in [
        // Before all of them, which stay; and those that an append had left out come back.
        ((Step::Marker, 1.0), Some(101.0)),
        ((Step::Marker, 101.0), Some(101.0)),
        // After all of them.
        ((Step::Marker, 999.0), None),
    ] {
        for first in [&[(0.0, Step::Created)][..], &[(150.0, Step::Append)]] {
            let mut events = packets(first);
            events.push((late.1, late.0));
            let (session, facts) = bounded(&events, 1_000);
            assert_eq!((facts[&0].2, session.head().truncated), (first_packet, false), "{late:?} after {first:?}");
            assert_eq!(facts, unbounded(&events).1);
        }
    }
}

#[test]
fn a_source_between_settled_facts_cuts_the_window_as_well_as_known_and_says_so() {
    let mut events = packets(&[(0.0, Step::Created)]);
    events.push((110.5, Step::Marker));
    let (session, facts) = bounded(&events, 1_000);
    assert!(session.head().truncated);
    // The first one in the window is not known any more, the last one is.
    assert_eq!((facts[&0].2, facts[&0].3), (Some(137.0), Some(200.0)));
}
