//! A topic as Kafka's own client reads it: the service and the tests' other readers are all librdkafka's.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cluster;
use crate::service::Deployment;

/// Keys and values of every committed record of a topic nobody writes to any more.
pub fn read_committed(deployment: &Deployment, kind: &str) -> Vec<(String, Vec<u8>)> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/ReadCommitted.java");
    let program = program.to_str().expect("the path is UTF-8");
    let lines = cluster::tool(program, &[&deployment.bootstrap, &deployment.topic(kind)]);
    let decoded = |base64: &str| STANDARD.decode(base64).expect("base64");
    let record = |line: &str| {
        let mut fields = line.split(' ').skip(2).map(decoded);
        let (key, value) = (fields.next().expect("a key"), fields.next().expect("a value"));
        (String::from_utf8(key).expect("the key is UTF-8"), value)
    };
    lines.lines().map(record).collect()
}
