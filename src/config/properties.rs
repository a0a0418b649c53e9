//! librdkafka's properties: which are secret, which the service keeps to itself, and values that lie in files.

use std::io;
use std::path::Path;

use super::layers::GivenProperty;
use super::value::{HIDDEN, Value, quoted};
use crate::kafka::{self, PropertyError, is_secret};

/// `sasl.password_file` names a file that holds `sasl.password`.
pub(super) const FILE_SUFFIX: &str = "_file";

/// What has a key of its own.
const ELSEWHERE: [(&str, &str); 3] = [
    ("bootstrap.servers", "kafka.bootstrap_servers"),
    ("metadata.broker.list", "kafka.bootstrap_servers"),
    ("group.id", "kafka.group_id"),
];

/// Why the configuration may not set the property at all, if it may not; its file is not even opened then.
pub(super) fn refusal(name: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || !name.chars().all(legal) {
        return Some("must have a property's name: letters, digits, \".\", \"_\" and \"-\"".to_owned());
    }
    if let Some((_, key)) = ELSEWHERE.iter().find(|(owned, _)| *owned == name) {
        return Some(format!("must be set by `{key}`; remove it here"));
    }
    None
}

/// Why the client can't take the property so, if it can't.
pub(super) fn unusable(name: &str, value: &str) -> Option<String> {
    kafka::check_property(name, value).map(|error| match error {
        PropertyError::Owned { owner, .. } => format!("is set by {owner}; remove it"),
        PropertyError::Refused { reason, .. } => format!("can't be used: {reason}"),
        whole @ PropertyError::Combination(_) => whole.to_string(),
    })
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
    fn what_has_a_key_or_no_name_is_refused() {
        for (name, _) in ELSEWHERE {
            assert!(refusal(name).is_some(), "{name}");
        }
        assert_eq!(refusal("group.id"), Some("must be set by `kafka.group_id`; remove it here".to_owned()));
        assert_eq!(refusal("linger.ms"), None);
        assert!(refusal("").is_some());
        assert!(refusal("a b").is_some());
    }

    #[test]
    fn what_the_client_cannot_take_says_why() {
        assert_eq!(unusable("acks", "1"), Some("is set by the service; remove it".to_owned()));
        assert!(unusable("group.protocol", "consumer").is_some_and(|why| why.contains("unsound")));
        assert!(unusable("no.such.property", "1").is_some_and(|why| why.contains("No such configuration property")));
        assert_eq!(unusable("group.protocol", "classic"), None);
        assert_eq!(unusable("linger.ms", "5"), None);
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
