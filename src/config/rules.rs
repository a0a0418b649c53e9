//! What a single text must look like. An error says what it must be; the caller names key and value.

use tracing_subscriber::EnvFilter;

/// Kafka's own bound on a topic's name.
const TOPIC_CHARS: usize = 249;
/// Of a process: a worker's slot comes behind it.
const INSTANCE_CHARS: usize = 240;
/// The bound on the names this service gives itself.
const NAME_CHARS: usize = 249;

/// `host:port[,host:port...]`
pub(super) fn servers(text: &str) -> Result<(), String> {
    if text.split(',').all(|server| is_server(server.trim())) {
        Ok(())
    } else {
        Err(r#"must be a list of host:port such as "kafka-0:9092,kafka-1:9092""#.to_owned())
    }
}

/// A consumer group's name.
pub(super) fn group_id(text: &str) -> Result<(), String> {
    name(text)
}

/// A process's name within its group: a part of `transactional.id` and, with a worker's slot behind it, of a
/// `group.instance.id`, of which brokers admit what they admit of a topic's name.
pub(super) fn instance(text: &str) -> Result<(), String> {
    if (1..=INSTANCE_CHARS).contains(&text.len()) && text.chars().all(is_legal) {
        Ok(())
    } else {
        Err(format!(r#"must be 1 to {INSTANCE_CHARS} of a-z, A-Z, 0-9, ".", "_", "-""#))
    }
}

/// A file by its absolute path, or nothing.
pub(super) fn token_file(text: &str) -> Result<(), String> {
    if text.is_empty() || text.starts_with('/') && !text.contains('\0') {
        Ok(())
    } else {
        Err("must be the absolute path of a file, or \"\"".to_owned())
    }
}

/// A run's name.
pub(super) fn run_id(text: &str) -> Result<(), String> {
    name(text)
}

/// A topic's name, as brokers admit it.
pub(super) fn topic_name(text: &str) -> Result<(), String> {
    if (1..=TOPIC_CHARS).contains(&text.len()) && text.chars().all(is_legal) && text != "." && text != ".." {
        Ok(())
    } else {
        Err(format!(r#"must be 1 to {TOPIC_CHARS} of a-z, A-Z, 0-9, ".", "_", "-", and neither "." nor "..""#))
    }
}

/// Directives such as `info,duplex_collector=debug`.
pub(super) fn log_filter(text: &str) -> Result<(), String> {
    match EnvFilter::builder().parse(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(r#"must be a log filter such as "info" or "info,duplex_collector=debug""#.to_owned()),
    }
}

/// Whether brokers admit it in a name.
fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn name(text: &str) -> Result<(), String> {
    let characters = text.chars().count();
    if text.trim() == text && (1..=NAME_CHARS).contains(&characters) && !text.contains(char::is_control) {
        Ok(())
    } else {
        Err(format!("must be 1 to {NAME_CHARS} characters, without control characters or blanks around it"))
    }
}

fn is_server(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let host_is_legal = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(legal),
    };
    host_is_legal && port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_hosts_with_ports() {
        for good in ["127.0.0.1:9092", "kafka-0.kafka.svc:9092, kafka_1:9093", "[::1]:9092"] {
            assert_eq!(servers(good), Ok(()), "{good}");
        }
        for bad in
            ["", "kafka", "kafka:", ":9092", "kafka:0", "kafka:65536", "a:1,", "a:1,,b:2", "ssl://a:1", "::1:9092"]
        {
            assert!(servers(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn topic_names_are_those_that_brokers_admit() {
        for good in ["a", "duplex.events", "A_b-9", &"x".repeat(249)] {
            assert_eq!(topic_name(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "é", &"x".repeat(250)] {
            assert!(topic_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_not_empty_and_have_no_control_characters() {
        assert_eq!(group_id("duplex-collector"), Ok(()));
        assert_eq!((instance("collector-0.a_b"), instance(&"x".repeat(240))), (Ok(()), Ok(())));
        for bad in ["pod 0", "pod/0", "é", &"x".repeat(241)] {
            assert!(instance(bad).is_err(), "{bad:?}");
        }
        for bad in ["", " ", "a\n", "a\u{0}b", &"x".repeat(250)] {
            assert!(group_id(bad).is_err() && instance(bad).is_err() && run_id(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_instance_has_no_slash_and_a_group_may() {
        assert_eq!((group_id("a/b"), instance("eu-0.a")), (Ok(()), Ok(())));
        assert!(instance("a/b").is_err());
    }

    #[test]
    fn a_log_filter_is_what_the_subscriber_reads() {
        for good in ["info", "info,duplex_collector=debug", "warn,rdkafka=off"] {
            assert_eq!(log_filter(good), Ok(()), "{good}");
        }
        for bad in ["duplex_collector=loud", "info,,=="] {
            assert!(log_filter(bad).is_err(), "{bad}");
        }
    }
}
