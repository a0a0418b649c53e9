//! The environment's layer: `DUPLEX_WORKER__COUNT` is `worker.count`.
//!
//! A property's dots are single underscores: `DUPLEX_KAFKA__PROPERTIES__SASL_PASSWORD` is `sasl.password`.

use std::ffi::OsString;

use super::inputs::CONFIG_VARIABLE;
use super::keys::{KEYS, PROPERTIES};
use super::layers::{Layers, nearest_of};
use super::problem::{Origin, Problem};
use super::properties::FILE_SUFFIX;
use super::value::Value;

const PREFIX: &str = "DUPLEX_";

/// librdkafka's properties whose variable the rule would misread: an underscore of their own, or an end like
/// [`FILE_SUFFIX`].
const IRREGULAR: [&str; 4] = [
    "log_level",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.assertion.private.key.file",
];

/// Lays the environment's values over what is there.
pub(super) fn read(environment: &[(OsString, OsString)], layers: &mut Layers) {
    let mut variables: Vec<_> = environment
        .iter()
        .map(|(name, value)| (name.to_string_lossy(), value))
        .filter(|(name, _)| name.starts_with(PREFIX) && name != CONFIG_VARIABLE)
        .collect();
    variables.sort();
    for (name, value) in variables {
        let origin = Origin::Environment(name.to_string());
        let value = value.to_str().map_or(Value::Other("(not UTF-8)"), |text| Value::Plain(text.to_owned()));
        if let Some(property) = property_of(&name) {
            layers.set_property(&property, value, origin);
        } else if let Some(key) = KEYS.iter().find(|key| variable_of(key.path) == name) {
            layers.set(key, value, origin);
        } else if !is_service_link(&name, &value) {
            let nearest = nearest_of(&name, KEYS.iter().map(|key| variable_of(key.path)));
            layers.problems.push(Problem::UnknownVariable { variable: name.to_string(), nearest });
        }
    }
}

/// The variable of a key.
fn variable_of(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "__").to_uppercase())
}

/// The property that a variable sets.
fn property_of(variable: &str) -> Option<String> {
    let name = variable.strip_prefix(&variable_of(PROPERTIES))?.strip_prefix("__")?;
    if name.is_empty() || name.contains(|c: char| c.is_ascii_lowercase()) {
        return None;
    }
    let name = name.to_lowercase();
    if let Some(irregular) = IRREGULAR.iter().find(|property| property.replace('.', "_") == name) {
        return Some((*irregular).to_owned());
    }
    Some(match name.strip_suffix(FILE_SUFFIX) {
        Some(stem) => format!("{}{FILE_SUFFIX}", stem.replace('_', ".")),
        None => name.replace('_', "."),
    })
}

/// Whether Kubernetes made the variable for a service called `duplex-...`: `DUPLEX_COLLECTOR_SERVICE_HOST`,
/// `DUPLEX_COLLECTOR_PORT=tcp://...`. They come into every pod of the namespace and are nobody's slip.
fn is_service_link(name: &str, value: &Value) -> bool {
    if name.contains("__") {
        return false;
    }
    let is_url = matches!(value, Value::Plain(text) if text.contains("://"));
    let is_of_port = ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| {
        let (name, end) = name.split_once(protocol).unwrap_or((name, "none"));
        let number = name.rsplit_once("_PORT_").map_or("", |(_, number)| number);
        matches!(end, "" | "_PROTO" | "_PORT" | "_ADDR")
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
    });
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && is_url)
        || is_of_port
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers_of(variables: &[(&str, &str)]) -> Layers {
        let mut layers = Layers::default();
        let environment: Vec<_> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        read(&environment, &mut layers);
        layers
    }

    #[test]
    fn sections_are_separated_by_two_underscores() {
        let layers = layers_of(&[("DUPLEX_WORKER__COMMIT_INTERVAL", "1s"), ("PATH", "/bin"), ("DUPLEX_CONFIG", "x")]);
        assert!(layers.problems.is_empty());
        let given = &layers.settings["worker.commit_interval"];
        assert_eq!(given.value.text(), Ok("1s"));
        assert_eq!(given.origin, Origin::Environment("DUPLEX_WORKER__COMMIT_INTERVAL".into()));
    }

    #[test]
    fn underscores_of_a_property_are_dots() {
        let property = |name: &str| property_of(&format!("DUPLEX_KAFKA__PROPERTIES__{name}")).unwrap_or_default();
        assert_eq!(property("SASL_PASSWORD"), "sasl.password");
        assert_eq!(property("SASL_PASSWORD_FILE"), "sasl.password_file");
        assert_eq!(property("LOG_LEVEL"), "log_level");
        assert_eq!(property("SASL_OAUTHBEARER_ASSERTION_FILE"), "sasl.oauthbearer.assertion.file");
        assert_eq!(property(""), "");
    }

    #[test]
    fn an_unknown_variable_is_reported_with_the_nearest() {
        let problems = layers_of(&[("DUPLEX_WORKER_COUNT", "2"), ("DUPLEX_COLOUR", "red")]).problems;
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "unknown variable `DUPLEX_COLOUR`; remove it, or see config/default.toml for the keys there are",
                "unknown variable `DUPLEX_WORKER_COUNT`; did you mean `DUPLEX_WORKER__COUNT`?",
            ]
        );
    }

    #[test]
    fn links_of_a_service_with_this_name_are_passed_over() {
        let links = [
            ("DUPLEX_COLLECTOR_SERVICE_HOST", "10.0.0.1"),
            ("DUPLEX_COLLECTOR_SERVICE_PORT", "9464"),
            ("DUPLEX_COLLECTOR_SERVICE_PORT_METRICS", "9464"),
            ("DUPLEX_COLLECTOR_PORT", "tcp://10.0.0.1:9464"),
            ("DUPLEX_COLLECTOR_PORT_9464_TCP", "tcp://10.0.0.1:9464"),
            ("DUPLEX_COLLECTOR_PORT_9464_TCP_PROTO", "tcp"),
            ("DUPLEX_COLLECTOR_PORT_9464_TCP_PORT", "9464"),
            ("DUPLEX_COLLECTOR_PORT_9464_TCP_ADDR", "10.0.0.1"),
        ];
        assert!(layers_of(&links).problems.is_empty());
        assert_eq!(layers_of(&[("DUPLEX_ADMIN_PORT", "9464")]).problems.len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_not_utf8_is_no_value() {
        use std::os::unix::ffi::OsStringExt;
        let mut layers = Layers::default();
        read(&[("DUPLEX_RUN__DEFAULT_ID".into(), OsString::from_vec(vec![0xff]))], &mut layers);
        assert!(layers.settings["run.default_id"].value.text().is_err());
    }
}
