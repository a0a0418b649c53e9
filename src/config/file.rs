//! The file's layer: a walk over the TOML document, with the line of each value.

use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use super::inputs::ConfigFile;
use super::keys::{self, PROPERTIES};
use super::layers::Layers;
use super::problem::{Origin, Problem};
use super::value::Value;

/// Lays the file's values over what is there.
pub(super) fn read(file: &ConfigFile, layers: &mut Layers) {
    let (document, errors) = DeTable::parse_recoverable(&file.text);
    if !errors.is_empty() {
        layers.file_is_unread = true;
        let mut places: Vec<_> = errors
            .iter()
            .map(|error| (line_and_column(&file.text, error.span().map_or(0, |span| span.start)), error.message()))
            .collect();
        // What follows on a line is mostly the parser's finding its feet again.
        places.dedup_by_key(|((line, _), _)| *line);
        layers.problems.extend(places.into_iter().map(|((line, column), message)| Problem::Syntax {
            file: file.name.clone(),
            line,
            column,
            message: message.to_owned(),
        }));
        return;
    }
    Walk { file, layers }.section(document.get_ref(), "");
}

struct Walk<'a> {
    file: &'a ConfigFile,
    layers: &'a mut Layers,
}

impl Walk<'_> {
    fn section(&mut self, table: &DeTable<'_>, path: &str) {
        for (name, value) in in_file_order(table) {
            let path = if path.is_empty() { name.get_ref().to_string() } else { format!("{path}.{}", name.get_ref()) };
            let origin = self.origin(name.span().start);
            match (keys::find(&path), value.get_ref()) {
                (Some(key), value) => self.layers.set(key, value_of(value), origin),
                (None, DeValue::Table(table)) if path == PROPERTIES => self.properties(table, ""),
                (None, DeValue::Table(table)) if !table.is_empty() || keys::is_section(&path) => {
                    self.section(table, &path);
                }
                (None, _) if keys::is_section(&path) => {
                    self.layers.problems.push(Problem::NotASection { key: path, origin });
                }
                (None, _) => self.layers.unknown(&path, origin),
            }
        }
    }

    /// Properties have dots in their names, which TOML reads as tables unless quoted: both are the same here.
    fn properties(&mut self, table: &DeTable<'_>, prefix: &str) {
        for (name, value) in in_file_order(table) {
            let property = format!("{prefix}{}", name.get_ref());
            match value.get_ref() {
                DeValue::Table(table) => self.properties(table, &format!("{property}.")),
                value => self.layers.set_property(&property, value_of(value), self.origin(name.span().start)),
            }
        }
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::File { name: self.file.name.clone(), line: line_and_column(&self.file.text, offset).0 }
    }
}

/// TOML's tables come sorted by name; problems are listed as somebody reads the file.
fn in_file_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<(&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

fn value_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(digits) => match i64::from_str_radix(digits.as_str(), digits.radix()) {
            Ok(integer) => Value::Integer(integer),
            Err(_) => Value::Other("a number beyond 64 bits"),
        },
        DeValue::Float(_) => Value::Other("a number with a fraction"),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(elements) => strings(elements).map_or(Value::Other("a list of other things"), Value::List),
        DeValue::Table(_) => Value::Other("a table"),
    }
}

fn strings(elements: &DeArray<'_>) -> Option<Vec<String>> {
    elements.iter().map(|element| element.get_ref().as_str().map(str::to_owned)).collect()
}

/// The place of a byte, both from 1; the column in characters.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers_of(text: &str) -> Layers {
        let mut layers = Layers::default();
        read(&ConfigFile { name: "collector.toml".into(), text: text.into() }, &mut layers);
        layers
    }

    fn problems_of(text: &str) -> Vec<String> {
        layers_of(text).problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_syntax_error_has_its_place() {
        let problems = problems_of("[worker]\ncount = = 2\n\n[run]\ndefault_id = \"x\n");
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("collector.toml, line 2, column 9: "), "{problems:?}");
        assert!(problems[1].starts_with("collector.toml, line 5, column "), "{problems:?}");
    }

    #[test]
    fn a_key_given_twice_is_a_syntax_error() {
        assert!(problems_of("[worker]\ncount = 1\ncount = 2\n")[0].starts_with("collector.toml, line 3, "));
    }

    #[test]
    fn unknown_keys_have_their_line_and_the_nearest_key() {
        assert_eq!(
            problems_of("[worker]\ncount = 1\ncomit_interval = \"1s\"\n\n[wroker]\ncount = 2\n[extra]\n"),
            [
                "unknown key `worker.comit_interval` (collector.toml, line 3); did you mean `worker.commit_interval`?",
                "unknown key `wroker.count` (collector.toml, line 6); did you mean `worker.count`?",
                "unknown key `extra` (collector.toml, line 7); remove it, or see config/default.toml for the \
                 keys there are",
            ]
        );
    }

    #[test]
    fn a_section_is_not_a_value_nor_a_list_of_tables() {
        assert_eq!(
            problems_of("worker = 3\n[[session]]\ngrace = \"1s\"\n"),
            [
                "`worker` (collector.toml, line 1) must be a section; write [worker]",
                "`session` (collector.toml, line 2) must be a section; write [session]",
            ]
        );
    }

    #[test]
    fn properties_are_the_same_quoted_and_dotted() {
        let text = "[kafka.properties]\n\"security.protocol\" = \"SASL_SSL\"\nsasl.mechanism = \"PLAIN\"\n\
                    linger.ms = 5\nsocket = { keepalive.enable = true }\n";
        let properties: Vec<_> = layers_of(text)
            .properties
            .into_iter()
            .map(|(name, given)| (name, given.value.property().unwrap_or_default()))
            .collect();
        let expected = [
            ("linger.ms", "5"),
            ("sasl.mechanism", "PLAIN"),
            ("security.protocol", "SASL_SSL"),
            ("socket.keepalive.enable", "true"),
        ];
        assert_eq!(properties, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_property_given_quoted_and_dotted_is_given_twice() {
        assert_eq!(
            problems_of("[kafka.properties]\n\"linger.ms\" = 5\nlinger.ms = 6\n"),
            ["`kafka.properties.linger.ms` (collector.toml, line 3) is given twice; give it once, itself or with \
              `_file`"]
        );
    }

    #[test]
    fn a_column_counts_characters() {
        assert_eq!(line_and_column("ä\nöü", 5), (2, 2));
    }
}
