//! The registry of keys, in the order of config/default.toml: name, type, range, and the value's place in [`Config`].
//!
//! The file's walk, the environment, suggestions, type checks and the rendering all read this one table.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use humantime::format_duration;

use super::value::{Value, quoted, quoted_list};
use super::{Config, LogFormat, rules};
use crate::kafka::DeadLetterPayload;
use crate::worker::ProcessingGuarantee;

/// Below this path every name is a librdkafka property.
pub(super) const PROPERTIES: &str = "kafka.properties";

/// One key.
pub(super) struct Key {
    /// `section.name`, as in the file.
    pub(super) path: &'static str,
    kind: Kind,
}

/// A key's type and its place.
enum Kind {
    Text { place: fn(&mut Config) -> &mut String, rule: fn(&str) -> Result<(), String> },
    Switch { place: fn(&mut Config) -> &mut bool },
    Count { place: fn(&mut Config) -> &mut usize, range: RangeInclusive<usize> },
    Replicas { place: fn(&mut Config) -> &mut i32, range: RangeInclusive<i32> },
    Span { place: fn(&mut Config) -> &mut Duration, range: RangeInclusive<Duration>, reason: &'static str },
    Word { words: [&'static str; 2], get: fn(&Config) -> &'static str, set: fn(&mut Config, &str) },
    Windows { place: fn(&mut Config) -> &mut Vec<(String, Duration)> },
    Address { place: fn(&mut Config) -> &mut SocketAddr },
    File { place: fn(&mut Config) -> &mut Option<PathBuf> },
}

const MS_10: Duration = Duration::from_millis(10);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Every key but those below [`PROPERTIES`].
pub(super) static KEYS: [Key; 39] = [
    text("kafka.bootstrap_servers", |c| &mut c.kafka.bootstrap_servers, rules::servers),
    text("kafka.group_id", |c| &mut c.kafka.group_id, rules::group_id),
    text("kafka.instance", |c| &mut c.kafka.instance, rules::instance),
    text("kafka.oauth_token_file", |c| &mut c.kafka.oauth_token_file, rules::token_file),
    text("topics.events", |c| &mut c.topics.events, rules::topic_name),
    text("topics.bundles", |c| &mut c.topics.bundles, rules::topic_name),
    text("topics.dead_letters", |c| &mut c.topics.dead_letters, rules::topic_name),
    text("topics.changelog", |c| &mut c.topics.changelog, rules::topic_name),
    Key { path: "topics.create", kind: Kind::Switch { place: |c| &mut c.topics.create } },
    replicas("topics.partitions", |c| &mut c.topics.partitions, 1..=100_000),
    replicas("topics.replication_factor", |c| &mut c.topics.replication_factor, 1..=32_767),
    Key {
        path: "dead_letters.payload",
        kind: Kind::Word {
            words: ["keep", "drop"],
            get: |c| match c.dead_letter_payload {
                DeadLetterPayload::Keep => "keep",
                DeadLetterPayload::Drop => "drop",
            },
            set: |c, word| {
                c.dead_letter_payload = if word == "drop" { DeadLetterPayload::Drop } else { DeadLetterPayload::Keep };
            },
        },
    },
    count("worker.count", |c| &mut c.worker.count, 1..=256),
    span("worker.commit_interval", |c| &mut c.worker.commit_interval, MS_10..=MINUTE, ""),
    Key {
        path: "worker.processing_guarantee",
        kind: Kind::Word {
            words: ["exactly_once", "at_least_once"],
            get: |c| c.worker.processing_guarantee.as_str(),
            set: |c, word| {
                c.worker.processing_guarantee = if word == ProcessingGuarantee::AtLeastOnce.as_str() {
                    ProcessingGuarantee::AtLeastOnce
                } else {
                    ProcessingGuarantee::ExactlyOnce
                };
            },
        },
    },
    span("worker.restore_timeout", |c| &mut c.worker.restore_timeout, SECOND..=HOUR, ""),
    span(
        "worker.drain_timeout",
        |c| &mut c.worker.drain_timeout,
        SECOND..=Duration::from_secs(24),
        ": below 25s, so that a supervisor's 30s suffice",
    ),
    span("session.grace", |c| &mut c.session.grace, Duration::ZERO..=HOUR, ""),
    span("session.idle_timeout", |c| &mut c.session.idle_timeout, SECOND..=DAY, ""),
    span("session.max_duration", |c| &mut c.session.max_duration, SECOND..=Duration::from_secs(30 * 24 * 3600), ""),
    span("session.closed_retention", |c| &mut c.session.closed_retention, Duration::ZERO..=DAY, ""),
    span("session.clock_tolerance", |c| &mut c.session.clock_tolerance, Duration::ZERO..=DAY, ""),
    text("run.default_id", |c| &mut c.run.default_run_id, rules::run_id),
    Key { path: "run.windows", kind: Kind::Windows { place: |c| &mut c.run.windows } },
    count("run.exact_samples", |c| &mut c.run.exact_samples, 60..=100_000_000),
    count("run.max_runs", |c| &mut c.run.max_runs, 1..=1_000),
    count("limits.record_bytes", |c| &mut c.session.limits.record_bytes, 1..=256 << 20),
    count("limits.sessions", |c| &mut c.session.limits.sessions, 1..=100_000_000),
    count("limits.state_bytes", |c| &mut c.session.limits.state_bytes, 1 << 20..=1 << 40),
    count("limits.session_bytes", |c| &mut c.session.limits.session_bytes, 1 << 16..=1 << 40),
    count("limits.responses", |c| &mut c.session.limits.responses, 1..=10_000_000),
    count("limits.error_codes", |c| &mut c.session.limits.error_codes, 1..=10_000),
    count("limits.stages", |c| &mut c.session.limits.stages, 1..=10_000),
    count("limits.interval_values", |c| &mut c.session.limits.interval_values, 1..=16_777_216),
    count("limits.text_bytes", |c| &mut c.session.limits.text_bytes, 1..=65_536),
    Key { path: "admin.listen", kind: Kind::Address { place: |c| &mut c.admin.listen } },
    Key { path: "admin.web_config", kind: Kind::File { place: |c| &mut c.admin.web_config } },
    Key {
        path: "log.format",
        kind: Kind::Word {
            words: ["text", "json"],
            get: |c| c.log.format.as_str(),
            set: |c, word| {
                c.log.format = if word == LogFormat::Json.as_str() { LogFormat::Json } else { LogFormat::Text };
            },
        },
    },
    text("log.filter", |c| &mut c.log.filter, rules::log_filter),
];

/// The key at a path.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Whether keys lie below this path.
pub(super) fn is_section(path: &str) -> bool {
    path == PROPERTIES || KEYS.iter().any(|key| key.section() == path)
}

impl Key {
    /// Whether an empty text is as if the key were not there. Not where it tells what is read and written: the default would
    /// be another cluster, group or topic than was meant.
    pub(super) fn is_optional(&self) -> bool {
        let is_place = matches!(self.path, "kafka.bootstrap_servers" | "kafka.group_id")
            || self.section() == "topics" && matches!(self.kind, Kind::Text { .. });
        !is_place
    }

    /// The part before the name.
    pub(super) fn section(&self) -> &'static str {
        self.path.split_once('.').map_or("", |(section, _)| section)
    }

    /// The part after the section.
    pub(super) fn name(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, name)| name)
    }

    /// Puts the value in its place; the error says what the value must be.
    pub(super) fn assign(&self, config: &mut Config, value: &Value) -> Result<(), String> {
        match &self.kind {
            Kind::Text { place, rule } => {
                let text = value.text()?;
                rule(text)?;
                text.clone_into(place(config));
            }
            Kind::Switch { place } => *place(config) = value.boolean()?,
            Kind::Count { place, range } => {
                let count = usize::try_from(value.integer()?).ok().filter(|count| range.contains(count));
                *place(config) = count.ok_or_else(|| format!("must be {} to {}", range.start(), range.end()))?;
            }
            Kind::Replicas { place, range } => {
                let count = i32::try_from(value.integer()?).ok().filter(|count| range.contains(count));
                *place(config) = count.ok_or_else(|| format!("must be {} to {}", range.start(), range.end()))?;
            }
            Kind::Span { place, range, reason } => {
                let span = Some(value.duration()?).filter(|span| range.contains(span));
                let [least, most] = [range.start(), range.end()].map(|bound| format_duration(*bound));
                *place(config) = span.ok_or_else(|| format!("must be {least} to {most}{reason}"))?;
            }
            Kind::Word { words, set, .. } => {
                let word = value.text().ok().filter(|text| words.contains(text));
                let [one, other] = words;
                set(config, word.ok_or_else(|| format!(r#"must be "{one}" or "{other}""#))?);
            }
            Kind::Windows { place } => *place(config) = windows(&value.list()?)?,
            Kind::Address { place } => {
                let address = value.text()?.parse();
                *place(config) =
                    address.map_err(|_| r#"must be an IP address and a port such as "0.0.0.0:9464""#.to_owned())?;
            }
            Kind::File { place } => *place(config) = Some(PathBuf::from(value.text()?)),
        }
        Ok(())
    }

    /// The key's value as it stands in a TOML file.
    pub(super) fn shown(&self, config: &mut Config) -> String {
        match &self.kind {
            Kind::Text { place, .. } => quoted(place(config)),
            Kind::Switch { place } => place(config).to_string(),
            Kind::Count { place, .. } => place(config).to_string(),
            Kind::Replicas { place, .. } => place(config).to_string(),
            Kind::Span { place, .. } => quoted(&format_duration(*place(config)).to_string()),
            Kind::Word { get, .. } => quoted(get(config)),
            Kind::Windows { place } => quoted_list(place(config).iter().map(|(name, _)| name.as_str())),
            Kind::Address { place } => quoted(&place(config).to_string()),
            Kind::File { place } => {
                quoted(&place(config).as_deref().map_or(String::new(), |path| path.display().to_string()))
            }
        }
    }
}

/// Rolling windows by name and length; each is named by its length.
fn windows(texts: &[String]) -> Result<Vec<(String, Duration)>, String> {
    const MOST: usize = 5;
    const LENGTHS: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(7 * 24 * 3600);
    let refused = || format!(r#"must be 1 to {MOST} different durations of 1m to 7days such as ["5m", "1h"]"#);
    let mut windows = Vec::new();
    for text in texts {
        let length =
            humantime::parse_duration(text).ok().filter(|length| LENGTHS.contains(length)).ok_or_else(refused)?;
        windows.push((format_duration(length).to_string().replace(' ', ""), length));
    }
    windows.sort_by_key(|(_, length)| *length);
    let is_twice = windows.windows(2).any(|pair| pair[0] == pair[1]);
    if is_twice || windows.is_empty() || windows.len() > MOST { Err(refused()) } else { Ok(windows) }
}

const fn text(path: &'static str, place: fn(&mut Config) -> &mut String, rule: fn(&str) -> Result<(), String>) -> Key {
    Key { path, kind: Kind::Text { place, rule } }
}

const fn count(path: &'static str, place: fn(&mut Config) -> &mut usize, range: RangeInclusive<usize>) -> Key {
    Key { path, kind: Kind::Count { place, range } }
}

const fn replicas(path: &'static str, place: fn(&mut Config) -> &mut i32, range: RangeInclusive<i32>) -> Key {
    Key { path, kind: Kind::Replicas { place, range } }
}

const fn span(
    path: &'static str,
    place: fn(&mut Config) -> &mut Duration,
    range: RangeInclusive<Duration>,
    reason: &'static str,
) -> Key {
    Key { path, kind: Kind::Span { place, range, reason } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_there_once_and_has_a_section() {
        for (index, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..index].iter().all(|other| other.path != key.path), "{} twice", key.path);
            assert_eq!(format!("{}.{}", key.section(), key.name()), key.path);
        }
    }

    #[test]
    fn every_default_satisfies_its_own_rule() {
        for key in &KEYS {
            let mut config = Config::with_instance("host");
            let shown = key.shown(&mut config);
            let plain = shown.trim_matches(['"', '[', ']']).replace("\", \"", ",");
            let value = Value::Plain(plain);
            if value.is_empty() && key.is_optional() {
                continue;
            }
            assert_eq!(key.assign(&mut config, &value), Ok(()), "{} {shown}", key.path);
            assert_eq!(config, Config::with_instance("host"), "{} reads back as another value", key.path);
        }
    }
}
