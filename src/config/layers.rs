//! The layers, one over the other: for each key the value that counts and where it came from.

use std::collections::BTreeMap;

use super::environment;
use super::file;
use super::inputs::Inputs;
use super::keys::{self, KEYS, Key, PROPERTIES};
use super::problem::{Origin, Problem};
use super::properties::{self, FILE_SUFFIX};
use super::value::Value;

/// A value and its origin.
pub(super) struct Given {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// A librdkafka property as it was given.
pub(super) struct GivenProperty {
    pub(super) value: Value,
    pub(super) origin: Origin,
    /// Whether the value is the path of a file that holds the value.
    pub(super) from_file: bool,
}

/// What the inputs say, before types are checked.
#[derive(Default)]
pub(super) struct Layers {
    pub(super) settings: BTreeMap<&'static str, Given>,
    /// By name, without [`FILE_SUFFIX`].
    pub(super) properties: BTreeMap<String, GivenProperty>,
    pub(super) problems: Vec<Problem>,
    /// Whether the file has a syntax error, so that nobody knows what it meant to set.
    pub(super) file_is_unread: bool,
}

impl Layers {
    pub(super) fn of(inputs: &Inputs) -> Self {
        let mut layers = Self::default();
        if let (Some(host), Some(key)) = (&inputs.host_name, keys::find("kafka.instance")) {
            layers.set(key, Value::Text(host.clone()), Origin::HostName);
        }
        if let Some(file) = &inputs.file {
            file::read(file, &mut layers);
        }
        environment::read(&inputs.environment, &mut layers);
        for (path, value) in &inputs.flags {
            layers.flag(path, value);
        }
        layers
    }

    /// Lays a value over what lower layers gave; an empty text is as if it were not there, where the key can do without.
    pub(super) fn set(&mut self, key: &'static Key, value: Value, origin: Origin) {
        if !(value.is_empty() && key.is_optional()) {
            self.settings.insert(key.path, Given { value, origin });
        }
    }

    /// Lays a property over what lower layers gave, itself or as a file; an empty text is as if it were not there, where
    /// librdkafka does not refuse it.
    pub(super) fn set_property(&mut self, name: &str, value: Value, origin: Origin) {
        let (name, from_file) = match name.strip_suffix(FILE_SUFFIX) {
            Some(stem) => (stem, true),
            None => (name, false),
        };
        if value.is_empty() && properties::refusal(name).is_none() && properties::unusable(name, "").is_none() {
            return;
        }
        // Flags are ordered: the last wins. Of a file or an environment nobody could say which was meant.
        let twice = self.properties.get(name).is_some_and(|lower| same_layer(&lower.origin, &origin));
        if twice && origin != Origin::Flag {
            let key = format!("{PROPERTIES}.{name}");
            self.problems.push(Problem::Twice { key, origin: origin.clone() });
        }
        self.properties.insert(name.to_owned(), GivenProperty { value, origin, from_file });
    }

    /// Reports a key that nobody reads.
    pub(super) fn unknown(&mut self, path: &str, origin: Origin) {
        let nearest = nearest(path).map(str::to_owned);
        self.problems.push(Problem::UnknownKey { key: path.to_owned(), origin, nearest });
    }

    fn flag(&mut self, path: &str, value: &str) {
        let value = Value::Plain(value.to_owned());
        let property = path.strip_prefix(PROPERTIES).and_then(|rest| rest.strip_prefix('.'));
        match (property, keys::find(path)) {
            (Some(name), _) => self.set_property(name, value, Origin::Flag),
            (None, Some(key)) => self.set(key, value, Origin::Flag),
            (None, None) => self.unknown(path, Origin::Flag),
        }
    }
}

/// The known key that a wrong one most likely meant.
fn nearest(path: &str) -> Option<&'static str> {
    let paths = || KEYS.iter().map(|key| key.path).chain([PROPERTIES]);
    // A right name in a wrong section is nearer than any misspelling.
    let name = path.rsplit('.').next().unwrap_or(path);
    let mut moved = KEYS.iter().filter(|key| key.name() == name);
    if let (Some(key), None) = (moved.next(), moved.next()) {
        return Some(key.path);
    }
    nearest_of(path, paths())
}

/// The candidate at the least edit distance, if that is near enough to be a slip.
pub(super) fn nearest_of<T: AsRef<str>>(text: &str, candidates: impl Iterator<Item = T>) -> Option<T> {
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(text, candidate.as_ref()), candidate))
        .filter(|(distance, _)| (1..=(text.len() / 4).max(2)).contains(distance))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn same_layer(one: &Origin, other: &Origin) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_near_the_one_that_was_meant() {
        assert_eq!(nearest("worker.comit_interval"), Some("worker.commit_interval"));
        assert_eq!(nearest("wroker.count"), Some("worker.count"));
        assert_eq!(nearest("topics.dead_letter"), Some("topics.dead_letters"));
        assert_eq!(nearest("kafka.property"), Some("kafka.properties"));
    }

    #[test]
    fn a_key_in_the_wrong_section_is_near_its_right_one() {
        assert_eq!(nearest("worker.grace"), Some("session.grace"));
        assert_eq!(nearest("listen"), Some("admin.listen"));
    }

    #[test]
    fn a_key_like_no_other_has_none_near_it() {
        assert_eq!(nearest("worker.colour_of_the_sky"), None);
        assert_eq!(nearest("x"), None);
    }
}
