//! The commands as people and scripts meet them: what they print, what they write, what they exit with.

mod crowd;
mod demo;
mod files;
mod secure;
mod top;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The binary under test, with none of this machine's settings.
fn duplex() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duplex-collector"));
    command.env_clear();
    command
}

fn run(arguments: &[&str]) -> Output {
    duplex().args(arguments).output().expect("the binary starts")
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_names_every_command_and_every_exit_code() {
    let help = text(&run(&["--help"]).stdout);
    for word in ["run", "demo", "replay", "report", "check", "loadgen", "top", "65", "69", "74", "78", "143"] {
        assert!(help.contains(word), "{word} is not in:\n{help}");
    }
}

#[test]
fn wrong_usage_exits_2() {
    for arguments in [&["explode"][..], &["replay"], &["report", "-o", "x"], &["demo", "--sessions", "0"]] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn check_shows_every_problem_at_once_and_exits_78() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "[worker]\ncuont = 2\ncommit_interval = \"0s\"\n[session]\nidle_timeout = 5\n")
        .expect("writes");
    let output = run(&["check", "--config", file.to_str().expect("UTF-8")]);
    let problems = text(&output.stderr);
    assert_eq!(output.status.code(), Some(78));
    for word in ["worker.cuont", "worker.count", "worker.commit_interval", "session.idle_timeout"] {
        assert!(problems.contains(word), "{word} is not in:\n{problems}");
    }
}

#[test]
fn every_command_that_has_a_configuration_takes_the_file_that_duplex_config_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "[worker]\ncuont = 2\n").expect("writes");
    let capture = golden("wire.jsonl");
    let capture = capture.to_str().expect("UTF-8");
    for arguments in [
        &["run"][..],
        &["check"],
        &["loadgen"],
        &["replay", capture],
        &["report", "--topic", "-o", "-"],
        &["dead-letters", "list"],
        &["dead-letters", "show", "0:0"],
        &["dead-letters", "redrive", "--all"],
    ] {
        let output = duplex().args(arguments).env("DUPLEX_CONFIG", &file).output().expect("the binary starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{arguments:?}: {said}");
        assert!(said.contains("bad.toml") && said.contains("worker.cuont"), "{arguments:?}: {said}");
    }
}

#[test]
fn check_says_what_it_found_and_shows_the_configuration_only_when_asked() {
    let output = run(&["check"]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), "the configuration is fine\n".into()));
    let output = run(&["check", "--show-config"]);
    assert_eq!(text(&output.stderr), "the configuration is fine\n");
    assert!(text(&output.stdout).starts_with("[kafka]\n"), "{}", text(&output.stdout));
}

#[test]
fn check_shows_the_effective_configuration_without_secrets() {
    let output = duplex()
        .args(["check", "--show-config", "--set", "worker.count=3"])
        .env("DUPLEX_KAFKA__PROPERTIES__SASL_PASSWORD", "hunter2")
        .env("DUPLEX_KAFKA__PROPERTIES__SASL_USERNAME", "collector")
        .output()
        .expect("the binary starts");
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(shown.contains("count = 3") && shown.contains("(hidden)"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_property_that_is_not_librdkafkas_exits_78() {
    let output = run(&["check", "--set", "kafka.properties.no.such.property=1"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(text(&output.stderr).contains("no.such.property"), "{}", text(&output.stderr));
}

#[test]
fn a_command_that_connects_tells_a_bad_property_from_a_broker_that_is_away() {
    let output = run(&[
        "loadgen",
        "--set",
        "kafka.properties.ssl.ca.location=/no/such.pem",
        "--set",
        "kafka.properties.security.protocol=ssl",
    ]);
    assert_eq!(output.status.code(), Some(78), "{}", text(&output.stderr));
}

#[test]
fn check_connect_without_a_broker_exits_69() {
    // Nothing listens on the discard port.
    let output = run(&["check", "--connect", "--set", "kafka.bootstrap_servers=127.0.0.1:9"]);
    assert_eq!(output.status.code(), Some(69), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("127.0.0.1:9"), "{}", text(&output.stderr));
}

#[test]
fn an_empty_configuration_variable_names_no_file() {
    let output = duplex().env("DUPLEX_CONFIG", "").arg("check").output().expect("runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
