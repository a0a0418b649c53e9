//! What a configuration is loaded from. The only file of this module that asks the system anything.

use std::ffi::OsString;
use std::path::Path;
use std::{env, fs, io};

use super::problem::{Problem, Problems};

/// Names the configuration file; the command line reads it, so it is not an unknown variable.
pub const CONFIG_VARIABLE: &str = "DUPLEX_CONFIG";

/// The layers of a configuration, lowest first, and what the defaults need of the machine.
#[derive(Clone)]
pub struct Inputs {
    pub file: Option<ConfigFile>,
    /// All variables; those that do not begin with `DUPLEX_` are passed over.
    pub environment: Vec<(OsString, OsString)>,
    /// Keys as in the file (`worker.count`) with their values; of a repeated key the last wins.
    pub flags: Vec<(String, String)>,
    /// The default of `kafka.instance`.
    pub host_name: Option<String>,
    /// Reads the file that a `*_file` property names.
    pub read_secret: fn(&Path) -> io::Result<String>,
}

/// A configuration file that was read.
#[derive(Clone)]
pub struct ConfigFile {
    /// What problems call it.
    pub name: String,
    pub text: String,
}

impl Inputs {
    /// The inputs of this process: the file at `path`, its environment, its host name and these flags.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn of_process(path: Option<&Path>, flags: Vec<(String, String)>) -> Result<Self, Problems> {
        let file = match path {
            Some(path) => {
                let name = path.display().to_string();
                let text = fs::read_to_string(path).map_err(|error| {
                    Problems(vec![Problem::Unreadable { file: name.clone(), reason: error.kind().to_string() }])
                })?;
                Some(ConfigFile { name, text })
            }
            None => None,
        };
        Ok(Self {
            file,
            environment: env::vars_os().collect(),
            flags,
            host_name: host_name([env::var("HOSTNAME").ok(), fs::read_to_string("/etc/hostname").ok()]),
            read_secret: |path| fs::read_to_string(path),
        })
    }
}

/// The first of the candidates that says anything.
fn host_name(candidates: [Option<String>; 2]) -> Option<String> {
    candidates.into_iter().flatten().map(|name| name.trim().to_owned()).find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_host_name_that_is_not_empty_counts() {
        assert_eq!(host_name([Some("pod-0".into()), Some("node\n".into())]), Some("pod-0".into()));
        assert_eq!(host_name([Some(" ".into()), Some("node\n".into())]), Some("node".into()));
        assert_eq!(host_name([None, None]), None);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let problems = Inputs::of_process(Some(Path::new("/nonexistent/collector.toml")), vec![]).err();
        let text = problems.map(|problems| problems.to_string()).unwrap_or_default();
        assert!(text.starts_with("/nonexistent/collector.toml can't be read: "), "{text}");
    }

    #[test]
    fn a_process_without_a_file_has_its_environment_and_flags() {
        let flags = vec![("worker.count".to_owned(), "2".to_owned())];
        let inputs = Inputs::of_process(None, flags.clone()).ok().unwrap();
        assert!(inputs.file.is_none());
        assert_eq!(inputs.flags, flags);
        assert_eq!(inputs.environment.len(), env::vars_os().count());
    }
}
