//! That the simulated cluster does what Kafka does, where the product leans on it.

use crate::broker::{Broker, Identity, LogId, Refused, TRANSACTION_TIMEOUT};
use crate::group::{Metadata, SESSION_TIMEOUT};
use crate::log::{Body, Log};
use crate::random::Random;

const CHANGELOG: LogId = LogId::Changelog(0);

fn owner(broker: &mut Broker) -> Identity {
    let epoch = loop {
        if let Ok(epoch) = broker.init("slot") {
            break epoch;
        }
        broker.tick(0, false, &mut Random::new(0, 0));
    };
    Identity { transactional_id: "slot".into(), epoch, process: 0 }
}

fn put(broker: &mut Broker, by: &Identity, key: &str) -> Result<(), Refused> {
    broker.append(by, CHANGELOG, key.into(), Some(b"value".to_vec()), 0)
}

fn visible(broker: &Broker) -> Vec<String> {
    let keys = broker.log(CHANGELOG).read(0).map(|record| record.key.unwrap_or_default());
    keys.map(|key| String::from_utf8_lossy(key).into_owned()).collect()
}

fn settle(broker: &mut Broker) {
    broker.tick(0, false, &mut Random::new(0, 0));
}

#[test]
fn records_and_offsets_of_a_transaction_come_with_its_marker() {
    let mut broker = Broker::new(1, false);
    let by = owner(&mut broker);
    put(&mut broker, &by, "a").expect("appends");
    broker.add_offsets(&by, &[(0, 7)], Metadata::BLANK, 0).expect("accepted");
    broker.end(&by, true).expect("ends");
    // Decided and answered, not visible: what a restore has to wait for.
    assert_eq!((visible(&broker).len(), broker.group.committed(0)), (0, None));
    assert!(broker.group.is_unstable(0));
    assert!(broker.log(CHANGELOG).stable_end() < broker.log(CHANGELOG).end());
    settle(&mut broker);
    assert_eq!((visible(&broker), broker.group.committed(0)), (vec!["a".to_owned()], Some(7)));
    assert_eq!(broker.log(CHANGELOG).end(), 2, "the marker takes an offset");
}

#[test]
fn an_aborted_transaction_is_never_seen() {
    let mut broker = Broker::new(1, false);
    let by = owner(&mut broker);
    put(&mut broker, &by, "a").expect("appends");
    broker.add_offsets(&by, &[(0, 7)], Metadata::BLANK, 0).expect("accepted");
    broker.end(&by, false).expect("ends");
    settle(&mut broker);
    assert_eq!((visible(&broker).len(), broker.group.committed(0)), (0, None));
}

#[test]
fn a_new_owner_fences_the_old_one_and_ends_its_transaction() {
    let mut broker = Broker::new(1, false);
    let zombie = owner(&mut broker);
    put(&mut broker, &zombie, "zombie").expect("appends");
    let heir = owner(&mut broker);
    assert_eq!(put(&mut broker, &zombie, "late"), Err(Refused::Fenced));
    assert_eq!(broker.end(&zombie, true), Err(Refused::Fenced));
    put(&mut broker, &heir, "heir").expect("appends");
    broker.end(&heir, true).expect("ends");
    settle(&mut broker);
    assert_eq!(visible(&broker), ["heir"]);
}

#[test]
fn an_open_transaction_is_aborted_when_its_time_is_up() {
    let mut broker = Broker::new(1, false);
    let by = owner(&mut broker);
    put(&mut broker, &by, "a").expect("appends");
    let mut random = Random::new(0, 0);
    broker.tick(TRANSACTION_TIMEOUT, false, &mut random);
    broker.tick(TRANSACTION_TIMEOUT, false, &mut random);
    assert_eq!(broker.end(&by, true), Err(Refused::Fenced));
    assert_eq!((visible(&broker).len(), broker.unfinished_transactions()), (0, 0));
}

#[test]
fn an_empty_transaction_can_not_be_committed() {
    let mut broker = Broker::new(1, false);
    let by = owner(&mut broker);
    assert_eq!(broker.end(&by, true), Err(Refused::NothingOpen));
}

#[test]
fn offsets_are_taken_from_members_of_the_generation_only() {
    let mut broker = Broker::new(1, false);
    let by = owner(&mut broker);
    let mut random = Random::new(0, 0);
    let member = broker.group.enter(0);
    broker.tick(0, false, &mut random);
    let generation = broker.group.stable_generation().expect("all have joined");
    let current = Metadata { member, generation };
    assert_eq!(broker.add_offsets(&by, &[(0, 1)], current, 0), Ok(()));
    let old = Metadata { member, generation: generation - 1 };
    assert_eq!(broker.add_offsets(&by, &[(0, 1)], old, 0), Err(Refused::Group("illegal generation")));
    broker.tick(SESSION_TIMEOUT, false, &mut random);
    assert_eq!(broker.group.accepts(current), Err("unknown member id"));
}

#[test]
fn what_is_deleted_moves_the_beginning_and_no_other_offset() {
    let mut log = Log::default();
    for key in ["a", "b", "c"] {
        log.append(Body::Data { key: Some(key.into()), value: None, transaction: None }, 0, 0);
    }
    log.delete_below(2);
    assert_eq!((log.start(), log.end(), log.read(0).map(|record| record.offset).collect()), (2, 3, vec![2]));
    log.delete_below(1);
    assert_eq!(log.start(), 2);
}

#[test]
fn cleaning_keeps_the_last_committed_value_of_each_key_and_every_offset() {
    let mut log = Log::default();
    let mut put = |key: &str, value: Option<&str>, transaction| {
        let value = value.map(|value| value.as_bytes().to_vec());
        log.append(Body::Data { key: Some(key.into()), value, transaction: Some(transaction) }, 0, 0);
    };
    put("a", Some("old"), 1);
    put("a", Some("new"), 1);
    put("gone", None, 1);
    put("a", Some("aborted"), 2);
    log.mark(1, true, 0);
    log.mark(2, false, 0);
    assert_eq!(log.compact(i64::MAX, 10, 60), 4);
    let left =
        |log: &Log| log.read(0).map(|record| (record.offset, record.value.map(<[u8]>::to_vec))).collect::<Vec<_>>();
    assert_eq!(left(&log), [(1, Some(b"new".to_vec())), (2, None)]);
    log.compact(i64::MAX, 69, 60);
    assert_eq!(left(&log).len(), 2, "the cleaner first came by at 10");
    log.compact(i64::MAX, 70, 60);
    assert_eq!(left(&log), [(1, Some(b"new".to_vec()))]);
    assert_eq!(log.end(), 6);
}
