//! Any configuration file: every problem is told, or it is one that shows itself and loads again from that.

#![no_main]

use duplex_collector::config::{Config, ConfigFile, Inputs};
use libfuzzer_sys::fuzz_target;

fn load(text: &str) -> Option<Config> {
    let file = Some(ConfigFile { name: "fuzz.toml".into(), text: text.to_owned() });
    let read_secret = |_: &std::path::Path| Ok("secret".to_owned());
    let (environment, flags) = (Vec::new(), Vec::new());
    match Config::load(&Inputs { file, environment, flags, host_name: Some("host".into()), read_secret }) {
        Ok(config) => Some(config),
        Err(problems) => {
            assert!(!problems.to_string().is_empty());
            None
        }
    }
}

fuzz_target!(|text: &str| {
    if let Some(config) = load(text) {
        let shown = config.to_string();
        // A secret is hidden, and so is not there when it is loaded again.
        if !shown.contains("(hidden)") {
            let again = load(&shown).expect("what is shown can be loaded");
            assert_eq!(again.to_string(), shown);
        }
    }
});
