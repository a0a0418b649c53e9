//! The effective configuration as TOML: every key, in the order of config/default.toml, secrets hidden.

use std::fmt;

use super::Config;
use super::keys::{KEYS, PROPERTIES};
use super::value::{HIDDEN, quoted};

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The registry reaches a value through `&mut`, so a copy is shown.
        let mut config = self.clone();
        let mut section = "";
        for key in &KEYS {
            if key.section() != section {
                if section == "kafka" {
                    self.properties(f)?;
                }
                let separator = if section.is_empty() { "" } else { "\n" };
                section = key.section();
                writeln!(f, "{separator}[{section}]")?;
            }
            writeln!(f, "{} = {}", key.name(), key.shown(&mut config))?;
        }
        Ok(())
    }
}

impl Config {
    fn properties(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[{PROPERTIES}]")?;
        for (name, value) in &self.kafka.properties {
            let value =
                if crate::kafka::is_secret(name) || self.properties_from_files.contains(name) { HIDDEN } else { value };
            writeln!(f, "\"{name}\" = {}", quoted(value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rendered_is_toml_with_every_key() {
        let mut config = Config::with_instance("pod \"0\"");
        config.kafka.properties.insert("client.rack".into(), "a\nb".into());
        let table: toml::Table = config.to_string().parse().unwrap();
        assert_eq!(table["kafka"]["instance"].as_str(), Some("pod \"0\""));
        assert_eq!(table["kafka"]["properties"]["client.rack"].as_str(), Some("a\nb"));
        for key in &KEYS {
            assert!(table[key.section()].get(key.name()).is_some(), "{}", key.path);
        }
    }

    #[test]
    fn secrets_are_hidden_by_name_and_by_coming_from_a_file() {
        let mut config = Config::with_instance("host");
        config.kafka.properties.insert("sasl.password".into(), "hunter2".into());
        config.kafka.properties.insert("sasl.username".into(), "from-a-file".into());
        config.kafka.properties.insert("security.protocol".into(), "SASL_SSL".into());
        config.properties_from_files.insert("sasl.username".into());
        let rendered = config.to_string();
        assert!(rendered.contains(
            "[kafka.properties]\n\"sasl.password\" = \"(hidden)\"\n\"sasl.username\" = \"(hidden)\"\n\
             \"security.protocol\" = \"SASL_SSL\"\n\n[topics]\n"
        ));
        for shown in [rendered, format!("{config:?}")] {
            assert!(!shown.contains("hunter2") && !shown.contains("from-a-file"), "{shown}");
        }
    }
}
