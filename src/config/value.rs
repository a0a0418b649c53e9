//! A value as a layer gives it, before the key's type is known. May hold a secret, so it has no `Debug`.

use std::time::Duration;

/// What stands in the place of a secret.
pub(super) const HIDDEN: &str = "(hidden)";

/// The longest value that a problem repeats, in characters.
const SHOWN_CHARS: usize = 120;

/// A value, by the layer's own syntax.
#[derive(Clone, PartialEq)]
pub(super) enum Value {
    /// From the environment or a flag: text that the key's type reads.
    Plain(String),
    Text(String),
    Integer(i64),
    Boolean(bool),
    List(Vec<String>),
    /// What no key takes.
    Other(&'static str),
}

impl Value {
    /// Whether it says nothing: an empty text, blanks apart.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Plain(text) | Self::Text(text) if text.trim().is_empty())
    }

    pub(super) fn text(&self) -> Result<&str, String> {
        match self {
            Self::Plain(text) | Self::Text(text) => Ok(text),
            Self::Integer(_) | Self::Boolean(_) | Self::List(_) | Self::Other(_) => Err("must be a string".to_owned()),
        }
    }

    pub(super) fn boolean(&self) -> Result<bool, String> {
        match self {
            Self::Boolean(value) => Ok(*value),
            Self::Plain(text) if text == "true" => Ok(true),
            Self::Plain(text) if text == "false" => Ok(false),
            _ => Err("must be true or false".to_owned()),
        }
    }

    pub(super) fn integer(&self) -> Result<i64, String> {
        let value = match self {
            Self::Integer(value) => Some(*value),
            Self::Plain(text) => text.trim().parse().ok(),
            Self::Text(_) | Self::Boolean(_) | Self::List(_) | Self::Other(_) => None,
        };
        value.ok_or_else(|| "must be a whole number".to_owned())
    }

    /// A span of whole milliseconds: timestamps are no finer.
    pub(super) fn duration(&self) -> Result<Duration, String> {
        let text = self.text().ok();
        let duration = text.and_then(|text| humantime::parse_duration(text.trim()).ok());
        let duration = duration.ok_or(r#"must be a duration such as "500ms", "20s" or "6h""#)?;
        if duration.subsec_nanos().is_multiple_of(1_000_000) {
            Ok(duration)
        } else {
            Err("must be whole milliseconds".to_owned())
        }
    }

    /// A list; from the environment or a flag its elements are separated by commas, and an empty one is `""`.
    pub(super) fn list(&self) -> Result<Vec<String>, String> {
        match self {
            Self::List(elements) => Ok(elements.clone()),
            Self::Plain(text) if text.trim().is_empty() => Ok(Vec::new()),
            Self::Plain(text) => Ok(text.split(',').map(|element| element.trim().to_owned()).collect()),
            Self::Text(_) | Self::Integer(_) | Self::Boolean(_) | Self::Other(_) => {
                Err("must be a list of strings".to_owned())
            }
        }
    }

    /// A librdkafka property: a string, or a number or switch in librdkafka's spelling.
    pub(super) fn property(&self) -> Result<String, String> {
        match self {
            Self::Plain(text) | Self::Text(text) => Ok(text.clone()),
            Self::Integer(value) => Ok(value.to_string()),
            Self::Boolean(value) => Ok(value.to_string()),
            Self::List(_) | Self::Other(_) => Err("must be a string, a whole number, true or false".to_owned()),
        }
    }

    /// The value in TOML's spelling, cut to what a line can bear. Not for secrets.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Plain(text) | Self::Text(text) => quoted(&cut(text)),
            Self::Integer(value) => value.to_string(),
            Self::Boolean(value) => value.to_string(),
            Self::List(elements) => cut(&quoted_list(elements.iter().map(String::as_str))),
            Self::Other(what) => (*what).to_owned(),
        }
    }
}

/// A TOML string.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A TOML list of strings.
pub(super) fn quoted_list<'a>(elements: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", elements.map(quoted).collect::<Vec<_>>().join(", "))
}

fn cut(text: &str) -> String {
    if text.chars().count() <= SHOWN_CHARS {
        return text.to_owned();
    }
    text.chars().take(SHOWN_CHARS).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Value {
        Value::Plain(text.to_owned())
    }

    #[test]
    fn text_of_the_environment_is_read_by_the_type_that_is_asked_for() {
        assert_eq!(plain("7").integer(), Ok(7));
        assert_eq!(plain("7").text(), Ok("7"));
        assert_eq!(plain("true").boolean(), Ok(true));
        assert_eq!(plain("yes").boolean(), Err("must be true or false".into()));
        assert_eq!(plain("a, b").list(), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(plain("").list(), Ok(vec![]));
    }

    #[test]
    fn a_string_of_the_file_is_not_a_number() {
        assert_eq!(Value::Text("7".into()).integer(), Err("must be a whole number".into()));
        assert_eq!(Value::Integer(7).text(), Err("must be a string".into()));
        assert_eq!(Value::Text("a,b".into()).list(), Err("must be a list of strings".into()));
    }

    #[test]
    fn a_duration_has_a_unit_and_whole_milliseconds() {
        assert_eq!(Value::Text("1m 500ms".into()).duration(), Ok(Duration::from_millis(60_500)));
        assert_eq!(Value::Text("0s".into()).duration(), Ok(Duration::ZERO));
        assert_eq!(Value::Text("1500us".into()).duration(), Err("must be whole milliseconds".into()));
        for wrong in [Value::Text("5".into()), Value::Integer(5), Value::Text("-1s".into())] {
            assert_eq!(wrong.duration(), Err(r#"must be a duration such as "500ms", "20s" or "6h""#.into()));
        }
    }

    #[test]
    fn a_long_value_is_cut_where_it_is_shown() {
        assert_eq!(Value::Text("x".repeat(1000)).shown().len(), SHOWN_CHARS + "...".len() + 2);
        assert_eq!(Value::Text("a\"b".into()).shown().parse::<toml::Value>().ok(), Some("a\"b".into()));
    }
}
