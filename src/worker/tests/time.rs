//! When the clock brings a partition's time on although there is something to read.

use super::*;

/// After how many seconds `silent` ended, while `talker` sends a record each second, stamped as `stamp` has it.
fn ended_after(is_more_to_read: bool, stamp: impl Fn(i64) -> i64) -> Option<i64> {
    let (mut worker, broker) = running();
    broker.0.stamp.set(broker.0.now.get() as i64);
    broker.push([Next::Record(0, 0, "silent", CREATED), Next::Record(0, 1, "other", CREATED)]);
    round(&mut worker, &broker).expect("goes on");
    (1..600).find(|second| {
        broker.0.stamp.set(stamp(broker.0.now.get() as i64));
        broker.push([Next::Record(0, 1 + second, "talker", CREATED)]);
        // Where records keep coming the client never tells the end, and knows where it is.
        let high = Offset(if is_more_to_read { 1_000 } else { 2 + second });
        broker.0.ends.set(Some(Ends { stable: high, high }));
        round(&mut worker, &broker).expect("goes on");
        broker.take_calls().contains(&Call::Bundle("silent".into()))
    })
}

/// After how many seconds of silence a session that closed has its bundle, where the partition's time is a day old and nobody
/// else says otherwise. Its records come `late` seconds after they were stamped.
fn closed_after(late: i64) -> Option<i64> {
    let (mut worker, broker) = running();
    broker.0.stamp.set(-86_400_000);
    broker.push([Next::Record(0, 0, "old", CREATED), Next::Record(0, 1, "older", CREATED)]);
    round(&mut worker, &broker).expect("goes on");
    broker.0.stamp.set(broker.0.now.get() as i64 - late * 1000);
    broker.push([Next::Record(0, 2, "new", CREATED), Next::Record(0, 3, "new", CLOSED), Next::End(0)]);
    (1..600).find(|_| {
        round(&mut worker, &broker).expect("goes on");
        broker.take_calls().contains(&Call::Bundle("new".into()))
    })
}

#[test]
fn after_a_day_without_the_service_a_single_session_gets_its_bundle_after_its_grace() {
    assert_eq!([0, 50, 3_600].map(closed_after), [Some(2); 3]);
}

#[test]
fn a_lone_talker_keeps_nobody_s_bundle_waiting_whatever_its_clock() {
    let stamps: [fn(i64) -> i64; 6] =
        [|now| now, |now| now + 5_000, |now| now + 3_600_000, |_| 0, |now| now / 2, |now| now - 3_600_000];
    for (nth, stamp) in stamps.into_iter().enumerate() {
        let ended = ended_after(nth < 2, stamp).unwrap_or_else(|| panic!("no bundle with stamp {nth}"));
        assert!((355..=375).contains(&ended), "{ended} s with stamp {nth}");
    }
}
