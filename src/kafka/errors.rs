//! From librdkafka's errors to what the caller must do.

use rdkafka::error::{KafkaError, RDKafkaError, RDKafkaErrorCode as Code};

use super::properties;
use crate::worker::BrokerError;

/// Whether another producer or member has taken this one's place for good.
pub(super) fn is_fencing(code: Code) -> bool {
    matches!(code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch | Code::FencedInstanceId)
}

/// Whether it is the end of a client, and another one in its place begins anew: its sequence of records is broken, or the
/// brokers have forgotten it, as after a long outage.
pub(super) fn is_of_this_client(code: Code) -> bool {
    matches!(
        code,
        Code::OutOfOrderSequenceNumber
            | Code::DuplicateSequenceNumber
            | Code::UnknownProducerId
            | Code::InvalidProducerIdMapping
            | Code::InvalidTransactionalState
            | Code::GaplessGuarantee
            | Code::Inconsistent
    )
}

/// An error of a transaction call, by the flags that librdkafka gives it.
pub(super) fn transaction(call: &str, error: &KafkaError) -> BrokerError {
    let KafkaError::Transaction(error) = error else {
        return other(call, error);
    };
    let text = format!("{call}: {} ({})", error.string(), error.name());
    // A static member that was replaced is told so by an abortable error, but trying again can't help.
    if error.code() == Code::FencedInstanceId || error.is_fatal() && is_fencing(error.code()) {
        BrokerError::Fenced(text)
    } else if error.is_fatal() && is_denied(error.code()) {
        // The client can't go on even once it is given.
        BrokerError::Misconfigured(with_remedy(text, error.code()))
    } else if error.is_fatal() && is_of_this_client(error.code()) {
        BrokerError::Undecided(text)
    } else if error.is_fatal() {
        BrokerError::Fatal(with_remedy(text, error.code()))
    } else if is_denied(error.code()) {
        BrokerError::Denied(with_remedy(text, error.code()))
    } else if error.txn_requires_abort() || has_moved_on(error) {
        BrokerError::Abortable(text)
    } else if error.is_retriable() {
        BrokerError::Retriable(text)
    } else {
        BrokerError::Fatal(with_remedy(text, error.code()))
    }
}

/// Whether the broker knows of no open transaction that could be aborted.
pub(super) fn has_nothing_open(error: &KafkaError) -> bool {
    matches!(error, KafkaError::Transaction(error) if error.code() == Code::InvalidTransactionalState)
}

/// Whether a call was made again while the one before it, whose time was up, was on its way: it is to be made once more.
pub(super) fn is_in_between(error: &KafkaError) -> bool {
    matches!(error, KafkaError::Transaction(error) if error.code() == Code::State && !error.is_fatal())
}

fn is_denied(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed | Code::TransactionalIdAuthorizationFailed
    )
}

fn has_moved_on(error: &RDKafkaError) -> bool {
    matches!(error.code(), Code::UnknownMemberId | Code::IllegalGeneration | Code::RebalanceInProgress)
}

pub(super) fn with_remedy(text: String, code: Code) -> String {
    match code {
        Code::InvalidTransactionTimeout => {
            format!("{text}: transaction.timeout.ms is above the broker's transaction.max.timeout.ms")
        }
        Code::TransactionalIdAuthorizationFailed => {
            format!("{text}: the principal needs Write on the transactional id")
        }
        // librdkafka names the topic in a line of its own.
        Code::TopicAuthorizationFailed => format!("{text}: the principal needs Write on each topic that is written to"),
        Code::GroupAuthorizationFailed => format!("{text}: the principal needs Read on the group"),
        Code::ClusterAuthorizationFailed => format!("{text}: the principal needs IdempotentWrite on the cluster"),
        _ => text,
    }
}

/// An error that a poll returned, `topic` and `group` for its text.
pub(super) fn consumption(error: &KafkaError, topic: &str, group: &str) -> BrokerError {
    let Some(code) = error.rdkafka_error_code() else {
        return BrokerError::Retriable(error.to_string());
    };
    match code {
        Code::FencedInstanceId => BrokerError::Fenced(format!("group {group}: {code}")),
        Code::AutoOffsetReset | Code::OffsetOutOfRange => {
            BrokerError::RecordsLost(format!("topic {topic}, group {group}: {code}"))
        }
        // A batch that can't be read is skipped by librdkafka after this error: its records would be lost silently.
        Code::BadMessage | Code::BadCompression | Code::InvalidMessage | Code::NotImplemented | Code::Fatal => {
            BrokerError::Fatal(format!("topic {topic}: {code}"))
        }
        _ if matches!(error, KafkaError::MessageConsumptionFatal(_)) => {
            BrokerError::Fatal(format!("topic {topic}: {code}"))
        }
        Code::TopicAuthorizationFailed => {
            BrokerError::Denied(format!("{code}: the principal needs Read on topic {topic}"))
        }
        Code::GroupAuthorizationFailed => {
            BrokerError::Denied(format!("{code}: the principal needs Read on group {group}"))
        }
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
            BrokerError::Retriable(format!("topic {topic} is not there (yet): {code}"))
        }
        Code::PollExceeded => {
            BrokerError::Retriable(format!("group {group}: {code}: the worker was busy past max.poll.interval.ms"))
        }
        _ => BrokerError::Retriable(format!("topic {topic}: {code}")),
    }
}

/// An error of an offset commit outside a transaction.
pub(super) fn offset_commit(error: &KafkaError, group: &str) -> BrokerError {
    let text = format!("group {group}: {error}");
    match error.rdkafka_error_code() {
        Some(Code::FencedInstanceId) => BrokerError::Fenced(text),
        Some(Code::UnknownMemberId | Code::IllegalGeneration | Code::RebalanceInProgress) => {
            BrokerError::Abortable(text)
        }
        Some(Code::Fatal) => BrokerError::Fatal(text),
        Some(Code::GroupAuthorizationFailed) => {
            BrokerError::Denied(format!("{text}: the principal needs Read on the group"))
        }
        Some(Code::TopicAuthorizationFailed) => {
            BrokerError::Denied(format!("{text}: the principal needs Read on the events topic"))
        }
        _ => BrokerError::Retriable(text),
    }
}

/// An error of a look-up, `call` with the name of what is looked up: the answer may come the next time.
pub(super) fn lookup(call: &str, error: &KafkaError) -> BrokerError {
    match error.rdkafka_error_code() {
        Some(code) if is_denied(code) => BrokerError::Denied(format!("{call}: {code}: the principal needs Read on it")),
        Some(code @ Code::Fatal) => BrokerError::Fatal(format!("{call}: {code}")),
        Some(code) => BrokerError::Retriable(format!("{call}: {code}")),
        None => BrokerError::Retriable(format!("{call}: {error}")),
    }
}

/// Whether the broker or the client knows no such topic or partition.
pub(super) fn is_unknown(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition)
    )
}

/// A client that can't be made.
pub(super) fn creation(what: &str, error: &KafkaError) -> BrokerError {
    BrokerError::Fatal(format!("the kafka {what} can't be made: {}", properties::why_not_made(error)))
}

/// An error of a call that only a broken client refuses.
pub(super) fn other(call: &str, error: &KafkaError) -> BrokerError {
    BrokerError::Fatal(format!("{call}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll_error(code: Code) -> BrokerError {
        consumption(&KafkaError::MessageConsumption(code), "events", "group")
    }

    #[test]
    fn a_broker_or_topic_that_is_not_there_is_waited_for() {
        for code in [
            Code::UnknownTopicOrPartition,
            Code::BrokerTransportFailure,
            Code::AllBrokersDown,
            Code::OperationTimedOut,
            Code::CoordinatorNotAvailable,
            Code::NotCoordinator,
            Code::NotLeaderForPartition,
            Code::Authentication,
            Code::PollExceeded,
        ] {
            assert!(matches!(poll_error(code), BrokerError::Retriable(_)), "{code:?}");
        }
    }

    #[test]
    fn records_that_are_gone_or_unreadable_stop_the_worker() {
        for code in [Code::AutoOffsetReset, Code::OffsetOutOfRange] {
            assert!(matches!(poll_error(code), BrokerError::RecordsLost(_)), "{code:?}");
        }
        for code in [Code::BadMessage, Code::BadCompression, Code::InvalidMessage, Code::Fatal] {
            assert!(matches!(poll_error(code), BrokerError::Fatal(_)), "{code:?}");
        }
    }

    #[test]
    fn a_client_that_can_not_be_made_shows_no_secret() {
        let error = rdkafka::ClientConfig::new()
            .set("sasl.passwort", "hunter2")
            .create_native_config()
            .map(|_| ())
            .expect_err("no such property");
        assert!(!creation("consumer", &error).to_string().contains("hunter2"));
    }

    #[test]
    fn authorization_errors_name_what_is_missing() {
        let denied = |text: &str| BrokerError::Denied(text.to_owned());
        assert_eq!(
            poll_error(Code::GroupAuthorizationFailed),
            denied(
                "GroupAuthorizationFailed (Broker: Group authorization failed): the principal needs Read on group group"
            )
        );
        assert_eq!(
            poll_error(Code::TopicAuthorizationFailed),
            denied(
                "TopicAuthorizationFailed (Broker: Topic authorization failed): the principal needs Read on topic events"
            )
        );
        let error = KafkaError::MetadataFetch(Code::TopicAuthorizationFailed);
        assert_eq!(
            lookup("topic bundles", &error),
            denied(
                "topic bundles: TopicAuthorizationFailed (Broker: Topic authorization failed): the principal needs Read on it"
            )
        );
    }
}
