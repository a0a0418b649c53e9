//! librdkafka's properties: which are secret, which the service keeps to itself, and values that lie in files.

use std::io;
use std::path::Path;

use super::Config;
use super::layers::GivenProperty;
use super::value::{HIDDEN, Value, quoted};

/// `sasl.password_file` names a file that holds `sasl.password`.
pub(super) const FILE_SUFFIX: &str = "_file";

const SECRET: [&str; 1] = ["sasl.oauthbearer.config"];

/// A property with one of these in its name is a secret.
const SECRET_PARTS: [&str; 6] = ["password", "passphrase", "secret", "token", ".pem", "jaas"];

/// What a transaction's promise rests on: nobody else sets it.
const OWNED: [&str; 8] = [
    "transactional.id",
    "enable.auto.commit",
    "auto.commit.enable",
    "enable.auto.offset.store",
    "isolation.level",
    "auto.offset.reset",
    "enable.partition.eof",
    "enable.idempotence",
];

/// What has a key of its own.
const ELSEWHERE: [(&str, &str); 3] = [
    ("bootstrap.servers", "kafka.bootstrap_servers"),
    ("metadata.broker.list", "kafka.bootstrap_servers"),
    ("group.id", "kafka.group_id"),
];

/// Whether the property's value is never to be seen.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.contains(&name.as_str()) || SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// Why the configuration may not set the property so, if it may not.
pub(super) fn refusal(name: &str, value: &str, config: &Config) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || !name.chars().all(legal) {
        return Some("must have a property's name: letters, digits, \".\", \"_\" and \"-\"".to_owned());
    }
    if let Some((_, key)) = ELSEWHERE.iter().find(|(owned, _)| *owned == name) {
        return Some(format!("must be set by `{key}`; remove it here"));
    }
    if OWNED.contains(&name) {
        return Some("is the service's own, for exactly-once rests on it; remove it".to_owned());
    }
    if name == "group.protocol" && value.eq_ignore_ascii_case("consumer") {
        return Some("is unsound in the bundled librdkafka; use classic".to_owned());
    }
    if name == "group.instance.id" && config.worker.count > 1 {
        let count = config.worker.count;
        return Some(format!("would be shared by {count} workers, which fence each other; set `worker.count` to 1"));
    }
    None
}

/// The property's value, read from its file where it lies in one; the error says what it must be.
pub(super) fn resolve(given: &GivenProperty, read: fn(&Path) -> io::Result<String>) -> Result<String, String> {
    if !given.from_file {
        return given.value.property();
    }
    let path = given.value.text()?;
    if !path.starts_with('/') {
        return Err("must be the absolute path of a file".to_owned());
    }
    let content = read(Path::new(path))
        .map_err(|error| format!("can't be read: {}; name a file that this user may read", error.kind()))?;
    let content = content.strip_suffix('\n').unwrap_or(&content);
    let content = content.strip_suffix('\r').unwrap_or(content);
    if content.is_empty() {
        Err("must be a file with the value in it; it is empty".to_owned())
    } else {
        Ok(content.to_owned())
    }
}

/// What a problem or the effective configuration may show of a property.
pub(super) fn shown(name: &str, given: &GivenProperty) -> String {
    match &given.value {
        // Somebody may have put the secret itself where its path belongs.
        Value::Plain(path) | Value::Text(path) if given.from_file && path.starts_with('/') => quoted(path),
        _ if given.from_file || is_secret(name) => HIDDEN.to_owned(),
        value => value.shown(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    #[test]
    fn secrets_are_known_by_name() {
        for secret in [
            "sasl.password",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.truststore.password",
            "ssl.key.pem",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.config",
            "sasl.jaas.config",
            "some.TOKEN",
        ] {
            assert!(is_secret(secret), "{secret}");
        }
        for open in ["sasl.username", "security.protocol", "ssl.ca.location", "linger.ms"] {
            assert!(!is_secret(open), "{open}");
        }
    }

    #[test]
    fn what_the_service_owns_is_refused() {
        let config = Config::with_instance("host");
        for name in OWNED.into_iter().chain(ELSEWHERE.map(|(name, _)| name)) {
            assert!(refusal(name, "x", &config).is_some(), "{name}");
        }
        assert_eq!(
            refusal("group.id", "x", &config),
            Some("must be set by `kafka.group_id`; remove it here".to_owned())
        );
        assert_eq!(refusal("linger.ms", "5", &config), None);
        assert!(refusal("", "5", &config).is_some());
        assert!(refusal("a b", "5", &config).is_some());
    }

    #[test]
    fn the_next_generation_group_protocol_is_refused() {
        let config = Config::with_instance("host");
        assert_eq!(
            refusal("group.protocol", "CONSUMER", &config),
            Some("is unsound in the bundled librdkafka; use classic".to_owned())
        );
        assert_eq!(refusal("group.protocol", "classic", &config), None);
    }

    #[test]
    fn a_static_member_is_one_worker() {
        let mut config = Config::with_instance("host");
        assert_eq!(refusal("group.instance.id", "a", &config), None);
        config.worker.count = 2;
        assert!(refusal("group.instance.id", "a", &config).is_some());
    }

    #[test]
    fn a_file_gives_its_content_without_the_newline_at_its_end() {
        let given =
            |path: &str| GivenProperty { value: Value::Text(path.to_owned()), origin: Origin::Flag, from_file: true };
        assert_eq!(resolve(&given("/p"), |_| Ok("a b\n".into())), Ok("a b".into()));
        assert_eq!(resolve(&given("/p"), |_| Ok("a\r\n".into())), Ok("a".into()));
        assert_eq!(resolve(&given("/p"), |_| Ok("a\n\n".into())), Ok("a\n".into()));
        assert!(resolve(&given("/p"), |_| Ok("\n".into())).is_err());
        assert!(resolve(&given("p"), |_| Ok("a".into())).is_err());
        assert_eq!(
            resolve(&given("/p"), |_| Err(io::ErrorKind::NotFound.into())),
            Err("can't be read: entity not found; name a file that this user may read".into())
        );
    }
}
