//! From layers to a [`Config`]: types and ranges by the registry of keys, then the rules between keys.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use humantime::format_duration;

use super::keys::{self, KEYS, PROPERTIES};
use super::layers::{Given, GivenProperty, Layers};
use super::problem::{Origin, Problem, Problems};
use super::properties::{self, FILE_SUFFIX};
use super::{Config, value};

/// Checks everything that was given, and all of it together.
pub(super) fn settle(layers: Layers, read_secret: fn(&Path) -> io::Result<String>) -> Result<Config, Problems> {
    let mut check = Check {
        config: Config::with_instance(""),
        settings: layers.settings,
        faulty: BTreeSet::new(),
        problems: layers.problems,
    };
    check.types_and_ranges();
    check.properties(&layers.properties, read_secret);
    if !layers.file_is_unread {
        check.instance_is_known();
        check.topics_differ();
        check.token_goes_with_oauthbearer();
        check.sessions_can_grow_idle();
        check.a_session_fits();
    }
    // The run view believes what the sessions' time does.
    check.config.run.clock_tolerance = check.config.session.clock_tolerance;
    if check.problems.is_empty() { Ok(check.config) } else { Err(Problems(check.problems)) }
}

struct Check {
    /// The defaults where a value is faulty.
    config: Config,
    settings: BTreeMap<&'static str, Given>,
    /// Keys with a problem of their own: rules between keys pass them over.
    faulty: BTreeSet<&'static str>,
    problems: Vec<Problem>,
}

impl Check {
    fn types_and_ranges(&mut self) {
        for key in &KEYS {
            let Some(given) = self.settings.get(key.path) else { continue };
            if let Err(remedy) = key.assign(&mut self.config, &given.value) {
                self.faulty.insert(key.path);
                self.problems.push(Problem::Invalid {
                    key: key.path.to_owned(),
                    origin: given.origin.clone(),
                    value: given.value.shown(),
                    remedy,
                });
            }
        }
    }

    fn properties(&mut self, given: &BTreeMap<String, GivenProperty>, read_secret: fn(&Path) -> io::Result<String>) {
        for (name, given) in given {
            let resolved = properties::refusal(name).map_or(Ok(()), Err);
            let resolved = resolved.and_then(|()| properties::resolve(given, read_secret));
            let resolved = resolved.and_then(|value| properties::unusable(name, &value).map_or(Ok(value), Err));
            match resolved {
                Ok(value) => {
                    if given.from_file {
                        self.config.properties_from_files.insert(name.clone());
                    }
                    self.config.kafka.properties.insert(name.clone(), value);
                }
                Err(remedy) => {
                    let suffix = if given.from_file { FILE_SUFFIX } else { "" };
                    self.problems.push(Problem::Invalid {
                        key: format!("{PROPERTIES}.{name}{suffix}"),
                        origin: given.origin.clone(),
                        value: properties::shown(name, given),
                        remedy,
                    });
                }
            }
        }
    }

    fn instance_is_known(&mut self) {
        if !self.settings.contains_key("kafka.instance") {
            self.problems.push(Problem::Missing {
                key: "kafka.instance".to_owned(),
                remedy: "set it, for the host name is unknown".to_owned(),
            });
        }
    }

    /// Brokers refuse a topic whose name differs from another's in `.` and `_` only: their metrics take them for one.
    fn topics_differ(&mut self) {
        let topics = &self.config.topics;
        let named = [
            ("topics.events", &topics.events),
            ("topics.bundles", &topics.bundles),
            ("topics.dead_letters", &topics.dead_letters),
            ("topics.changelog", &topics.changelog),
        ]
        .map(|(path, name)| (path, name.replace('_', ".")));
        for (index, (path, name)) in named.iter().enumerate() {
            let twin = named[..index].iter().find(|(twin, same)| same == name && self.are_sound(&[twin, path]));
            let Some((twin, _)) = twin else { continue };
            let reason = match *twin {
                "topics.events" => "or the service reads what it writes, for ever",
                _ => "or records of two kinds lie in one topic",
            };
            self.report(path, format!(r#"must differ from `{twin}` in more than "." and "_", {reason}"#));
        }
    }

    fn a_session_fits(&mut self) {
        let limits = &self.config.session.limits;
        let most = limits.open_session_bytes() / 2;
        let path = "limits.session_bytes";
        if limits.session_bytes > most && self.are_sound(&[path, "limits.state_bytes"]) {
            let of = limits.state_bytes;
            self.report(path, format!("must be at most {most}, three eighths of `limits.state_bytes`, {of}"));
        }
    }

    fn token_goes_with_oauthbearer(&mut self) {
        let kafka = &self.config.kafka;
        let property = |names: &[&str]| names.iter().find_map(|name| kafka.properties.get(*name)).cloned();
        let mechanism = property(&["sasl.mechanism", "sasl.mechanisms"]).unwrap_or_default();
        let protocol = property(&["security.protocol"]).unwrap_or_default().to_ascii_lowercase();
        let is_oauthbearer = mechanism.eq_ignore_ascii_case("OAUTHBEARER") && protocol.starts_with("sasl_");
        match (kafka.uses_token(), is_oauthbearer) {
            (false, true) if self.are_sound(&["kafka.oauth_token_file"]) => {
                self.report("kafka.oauth_token_file", "must name the file of the token that OAUTHBEARER takes".into());
            }
            (true, false) => self.report(
                "kafka.oauth_token_file",
                "must come with \"security.protocol\" = \"sasl_ssl\" and \"sasl.mechanism\" = \"OAUTHBEARER\" in \
                 [kafka.properties]"
                    .into(),
            ),
            _ => {}
        }
        if self.config.kafka.uses_token() && self.config.topics.create {
            let remedy = "must be false with `kafka.oauth_token_file`: the client that makes topics can't log in with a \
                          token; have them made";
            self.report("topics.create", remedy.into());
        }
    }

    fn sessions_can_grow_idle(&mut self) {
        let session = &self.config.session;
        let idle_timeout = session.idle_timeout;
        if session.max_duration < idle_timeout && self.are_sound(&["session.max_duration", "session.idle_timeout"]) {
            let idle_timeout = format_duration(idle_timeout);
            self.report("session.max_duration", format!("must be at least `session.idle_timeout`, {idle_timeout}"));
        }
    }

    fn are_sound(&self, paths: &[&str]) -> bool {
        paths.iter().all(|path| !self.faulty.contains(path))
    }

    /// Reports a key whose value breaks a rule between keys.
    fn report(&mut self, path: &str, remedy: String) {
        self.problems.push(Problem::Invalid {
            key: path.to_owned(),
            origin: self.settings.get(path).map_or(Origin::Default, |given| given.origin.clone()),
            value: keys::find(path).map_or(value::HIDDEN.to_owned(), |key| key.shown(&mut self.config)),
            remedy,
        });
    }
}
