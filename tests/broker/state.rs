//! State that is gone, or not of the group's offset: the service stops and says so, and what it says helps.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{ClientConfig, Offset};

use crate::service::Deployment;
use crate::topics::send_all;
use crate::wait::{PATIENCE, until_true};
use crate::{START, deployment, expected};

/// The exit code of a state that can't be gone on with.
const STATE_UNUSABLE: i32 = 72;

/// Somebody with the rights to do harm.
struct Operator<'a> {
    deployment: &'a Deployment,
    client: ClientConfig,
    runtime: tokio::runtime::Runtime,
}

impl<'a> Operator<'a> {
    fn of(deployment: &'a Deployment) -> Self {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", &deployment.bootstrap).set("group.id", &deployment.name);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Self { deployment, client, runtime }
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client.create().expect("an admin client")
    }

    fn consumer(&self) -> BaseConsumer {
        self.client.create().expect("a consumer")
    }

    /// The group's committed offsets.
    fn committed(&self) -> BTreeMap<i32, i64> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(&self.deployment.topic("events"), 0, self.deployment.shape.partitions - 1);
        let committed = self.consumer().committed_offsets(asked, PATIENCE).expect("the broker answers");
        let offset = |offset: Offset| offset.to_raw().expect("every partition was committed");
        committed.elements().iter().map(|element| (element.partition(), offset(element.offset()))).collect()
    }

    /// As `kafka-consumer-groups --reset-offsets` does it.
    fn set_offsets(&self, offsets: &BTreeMap<i32, i64>) {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            let position = Offset::Offset(*offset);
            list.add_partition_offset(&self.deployment.topic("events"), *partition, position).expect("an offset");
        }
        self.consumer().commit(&list, CommitMode::Sync).expect("an empty group's offsets can be set");
    }

    /// Deletes what stands in the changelog but each partition's last commit, as retention by time would.
    fn truncate_changelog(&self) {
        let changelog = self.deployment.topic("changelog");
        let consumer = self.consumer();
        let mut list = TopicPartitionList::new();
        for partition in 0..self.deployment.shape.partitions {
            let (_, end) = consumer.fetch_watermarks(&changelog, partition, PATIENCE).expect("the broker answers");
            // Its checkpoint and the marker of its transaction.
            list.add_partition_offset(&changelog, partition, Offset::Offset(end - 2)).expect("an offset");
        }
        self.set_cleanup_policy("delete");
        let deleted = self.runtime.block_on(self.admin().delete_records(&list, &AdminOptions::new()));
        deleted.expect("records can be deleted");
        self.set_cleanup_policy("compact");
    }

    fn write_checkpoint_of_a_newer_release(&self) {
        let producer: BaseProducer = self.client.create().expect("a producer");
        let changelog = self.deployment.topic("changelog");
        let record = BaseRecord::to(&changelog).partition(0).key("T").payload(&[u8::MAX]);
        producer.send(record).map_err(|(error, _)| error).expect("the record is queued");
        producer.flush(PATIENCE).expect("the record is delivered");
    }

    fn set_cleanup_policy(&self, policy: &str) {
        let changelog = self.deployment.topic("changelog");
        let alter = AlterConfig::new(ResourceSpecifier::Topic(&changelog)).set("cleanup.policy", policy);
        let altered = self.runtime.block_on(self.admin().alter_configs([&alter], &AdminOptions::new()));
        altered.expect("the broker answers").remove(0).expect("the policy can be set");
    }

    fn delete_changelog(&self) {
        let changelog = self.deployment.topic("changelog");
        let admin = self.admin();
        let deleted = self.runtime.block_on(admin.delete_topics(&[&changelog], &AdminOptions::new()));
        deleted.expect("the broker answers").remove(0).expect("the topic can be deleted");
        until_true("the changelog is gone", || {
            let metadata = admin.inner().fetch_metadata(None, Duration::from_secs(5)).expect("the broker answers");
            metadata.topics().iter().all(|topic| topic.name() != changelog)
        });
    }
}

#[track_caller]
fn assert_refused(deployment: &Deployment, settings: &[(&str, &str)], why: &str) {
    // What may come together by itself is waited for.
    let settings = [settings, &[("DUPLEX_WORKER__RESTORE_TIMEOUT", "3s")]].concat();
    let (status, log) = deployment.start("a", &settings).wait_until_ended();
    assert_eq!(status.code(), Some(STATE_UNUSABLE), "{log}");
    assert!(log.contains(why), "the log does not say `{why}`:\n{log}");
}

#[test]
fn a_state_that_is_lost_or_of_another_offset_stops_the_service_and_its_remedies_help() {
    let deployment = deployment("state");
    let mut records = expected::traffic(7, 60, START);
    // Everybody is in the middle of a session.
    records.truncate(records.len() / 2);
    send_all(&deployment, &records);
    let service = deployment.start_ready("a", &[]);
    until_true("all records are committed", || service.metric("duplex_records_total") == Some(records.len() as f64));
    let open = service.metric("duplex_sessions_open").expect("a gauge");
    assert!(open > 20.0, "{open} sessions are open");
    service.terminate_well();

    let operator = Operator::of(&deployment);
    let committed = operator.committed();
    let another_group = format!("{}-other", deployment.name);
    assert_refused(&deployment, &[("DUPLEX_KAFKA__GROUP_ID", &another_group)], "the group has no committed offset");

    let earlier = committed.iter().map(|(partition, offset)| (*partition, offset - 1)).collect();
    operator.set_offsets(&earlier);
    assert_refused(&deployment, &[], "it was set by hand");
    operator.set_offsets(&committed);
    let service = deployment.start_ready("a", &[]);
    assert_eq!(service.metric("duplex_sessions_open"), Some(open), "the sessions are back");
    // Until something is read nothing is committed, and so the offsets have no mark of ours yet.
    send_all(&deployment, &records);
    until_true("all records are committed", || service.metric("duplex_records_total") == Some(records.len() as f64));
    service.terminate_well();

    let committed = operator.committed();
    operator.truncate_changelog();
    assert_refused(&deployment, &[], "the changelog is incomplete");
    operator.delete_changelog();
    assert_refused(&deployment, &[], "with a state that the changelog does not have");
    operator.set_offsets(&committed);
    let service = deployment.start_ready("a", &[]);
    assert_eq!(service.metric("duplex_sessions_open"), Some(0.0));
    service.terminate_well();

    operator.write_checkpoint_of_a_newer_release();
    assert_refused(&deployment, &[], "snapshot version 255 is not known to this release");
}
