//! What can be wrong with a configuration: the key, where it came from, the value and the remedy, never a secret.

use std::fmt;

use thiserror::Error;

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The machine's name, for `kafka.instance`.
    HostName,
    File {
        name: String,
        /// From 1.
        line: usize,
    },
    /// The variable's name.
    Environment(String),
    /// The command line.
    Flag,
}

/// One thing wrong. The value is in TOML's spelling, or `(hidden)`.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Problem {
    #[error("{file}, line {line}, column {column}: {message}; it is not valid TOML")]
    Syntax { file: String, line: usize, column: usize, message: String },
    #[error("unknown key `{key}`{origin}; {}", suggestion(key, nearest.as_deref()))]
    UnknownKey { key: String, origin: Origin, nearest: Option<String> },
    #[error("unknown variable `{variable}`; {}", suggestion(variable, nearest.as_deref()))]
    UnknownVariable { variable: String, nearest: Option<String> },
    #[error("`{key}` {value}{origin} {remedy}")]
    Invalid { key: String, origin: Origin, value: String, remedy: String },
    #[error("`{key}`{origin} must be a section; write [{key}]")]
    NotASection { key: String, origin: Origin },
    #[error("`{key}`{origin} is given twice; give it once, itself or with `_file`")]
    Twice { key: String, origin: Origin },
    #[error("`{key}` is not set; {remedy}")]
    Missing { key: String, remedy: String },
    #[error("{file} can't be read: {reason}; give `--config` a file that this user may read")]
    Unreadable { file: String, reason: String },
}

/// Every problem of one load, at least one.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str(" (the default)"),
            Self::HostName => f.write_str(" (the host name)"),
            Self::File { name, line } => write!(f, " ({name}, line {line})"),
            Self::Environment(variable) => write!(f, " (from {variable})"),
            Self::Flag => f.write_str(" (from the command line)"),
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

fn suggestion(unknown: &str, nearest: Option<&str>) -> String {
    let name = unknown.to_ascii_lowercase().replace("__", ".");
    match nearest {
        _ if name.ends_with("bundle_bytes") => {
            "remove it: a bundle has all of its rows, in several records where they do not fit one".to_owned()
        }
        _ if name.ends_with("stream_start") || name.contains("stream_start.") || name.ends_with("held_facts") => {
            "remove it: the best source of the stream start that came in a session rules, whenever it comes".to_owned()
        }
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "remove it, or see config/default.toml for the keys there are".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_key_value_origin_and_remedy() {
        let problem = Problem::Invalid {
            key: "worker.count".into(),
            origin: Origin::File { name: "collector.toml".into(), line: 3 },
            value: "0".into(),
            remedy: "must be 1 to 256".into(),
        };
        assert_eq!(problem.to_string(), "`worker.count` 0 (collector.toml, line 3) must be 1 to 256");
    }

    #[test]
    fn a_key_that_is_gone_is_not_taken_for_another() {
        for unknown in [
            "limits.bundle_bytes",
            "DUPLEX_LIMITS__BUNDLE_BYTES",
            "stream_start",
            "stream_start.sources",
            "DUPLEX_STREAM_START__SOURCES",
            "limits.held_facts",
            "DUPLEX_LIMITS__HELD_FACTS",
        ] {
            assert!(suggestion(unknown, Some("limits.record_bytes")).starts_with("remove it"), "{unknown}");
        }
    }

    #[test]
    fn problems_are_listed_one_a_line() {
        let missing = Problem::Missing { key: "kafka.instance".into(), remedy: "set it".into() };
        assert_eq!(
            Problems(vec![missing.clone(), missing]).to_string(),
            "`kafka.instance` is not set; set it\n`kafka.instance` is not set; set it"
        );
    }
}
