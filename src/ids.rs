//! The names things go by: sessions, responses, partitions and offsets.
//!
//! Owns the newtypes that keep one kind of name from being taken for another. Knows nothing of Kafka's client.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Longest session id, in bytes (contract.md section 1).
pub const MAX_SESSION_ID_BYTES: usize = 256;

macro_rules! shared_name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id as the producer wrote it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(Arc::from(id))
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

shared_name! {
    /// A session's identity: the record key, never parsed (contract.md section 1).
    SessionId
}

shared_name! {
    /// A response id; unique within its session only (contract.md section 1.2).
    ResponseId
}

shared_name! {
    /// The id that Kafka gave a topic when it was made, as its tools print it: another topic of the same name has another.
    TopicId
}

/// A partition number. The events topic and the changelog share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Partition(pub i32);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A place in a partition. A committed offset is the next one to read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Offset(pub i64);

impl Offset {
    /// The offset after this one: what is committed once this record has been processed.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A topic and one of its partitions, as they stand in bundles and dead letters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicPartition {
    pub topic: Arc<str>,
    pub partition: Partition,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_to_commit_is_the_next_one_to_read() {
        assert_eq!(Offset(41).next(), Offset(42));
    }

    #[test]
    fn names_print_as_the_producer_wrote_them() {
        let at = TopicPartition { topic: "duplex.events".into(), partition: Partition(3) };
        assert_eq!(at.to_string(), "duplex.events[3]");
        assert_eq!(SessionId::from("s-1").to_string(), "s-1");
    }
}
