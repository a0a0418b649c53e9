//! Reads `src/` and fails where a module names what it may not. The rules are the tables below; whoever wants to
//! loosen one changes its table, where a reader sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use source::Named;

#[path = "architecture/source.rs"]
mod source;

/// The pure core: same input, same output. Each module, and the modules it may name; all of them stand above it.
#[rustfmt::skip]
const CORE: &[(&str, &str)] = &[
    ("fault",        ""),
    ("numeric",      ""),
    ("time",         ""),
    ("ids",          ""),
    ("wire",         "numeric time ids"),
    ("distribution", "numeric"),
    ("collector",    "fault numeric time ids wire"),
    ("bundle",       "numeric time ids wire distribution collector"),
    ("report",       "numeric time ids wire distribution collector bundle"),
    ("synth",        "numeric time ids wire"),
    ("task",         "fault numeric time ids wire distribution collector bundle"),
];

/// What surrounds the core, likewise.
#[rustfmt::skip]
const SHELL: &[(&str, &str)] = &[
    ("worker",       "fault time ids wire collector task"),
    ("clock",        "time"),
    ("limiter",      "time clock"),
    ("panics",       "limiter"),
    ("kafka",        "time ids task worker clock limiter panics"),
    ("metrics",      "numeric time ids wire distribution collector bundle report task worker limiter"),
    ("admin",        "time ids report metrics"),
    ("config",       "time ids distribution collector report task worker kafka metrics admin"),
    ("exit",         ""),
    ("telemetry",    "config panics"),
    ("shutdown",     ""),
    ("app",          "time ids collector report task worker clock kafka metrics admin config exit telemetry \
                      shutdown"),
    ("cli",          "numeric time ids wire distribution collector bundle report synth task worker clock kafka metrics \
                      admin config exit telemetry shutdown app"),
    ("main",         "cli"),
];

/// Crates with a home, and the modules that are it.
#[rustfmt::skip]
const HOMES: &[(&str, &str)] = &[
    ("rdkafka",      "kafka"),
    ("rdkafka_sys",  "kafka"),
    ("prometheus",   "metrics"),
    ("tokio",        "admin app shutdown telemetry cli main"),
    ("axum",         "admin app shutdown telemetry cli main"),
    ("hyper",        "admin"),
    ("flate2",       "admin"),
    ("hyper_util",   "admin"),
    ("rustls",       "admin cli"),
    ("tokio_rustls", "admin"),
    ("webpki",       "admin"),
    ("ring",         "admin"),
    ("bcrypt",       "admin"),
    ("saphyr_parser", "admin"),
    ("ureq",         "cli"),
    ("crossterm",    "cli"),
    ("anyhow",       "exit app cli main"),
    ("open",         "cli"),
];

/// The dependencies that the core may name.
const CORE_CRATES: &str = "chacha20 jiter memchr postcard serde serde_json sketches_ddsketch thiserror";

/// What of the standard library the core may not name: IO, the environment, threads.
const NOT_IN_CORE: &str = "std::env std::fs std::net std::os std::process std::thread";

/// What the core may not name, wherever it comes from: clocks, locks, channels, the terminal.
const NO_WORD_OF_CORE: &str = "Instant SystemTime Mutex RwLock Condvar mpsc stdin stdout stderr \
                               print! println! eprint! eprintln!";

/// What no file has.
const NOWHERE: &str = "unsafe todo! unimplemented! dbg!";

/// The only file that may ask for the time; tests of the shell may too, those of the core may not.
const CLOCK: &str = "src/clock.rs";

const MAX_LINES: usize = 500;

/// The name by which `main.rs` reaches the modules.
const LIBRARY: &str = "duplex_collector";

#[test]
fn every_module_names_only_what_it_may() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeMap::new();
    read_folder(root, &root.join("src"), &mut files);
    assert!(files.contains_key("src/lib.rs"), "src/ was not read: {:?}", files.keys());
    let found = check(&files, &dependencies(root));
    assert!(found.is_empty(), "\n{}\n{} violations of tests/architecture.rs", found.join("\n"), found.len());
}

#[test]
fn the_tables_let_a_module_name_only_what_stands_above_it() {
    let names: Vec<&str> = modules().map(|(name, _)| *name).collect();
    for (at, (name, allowed)) in modules().enumerate() {
        for other in allowed.split_whitespace() {
            assert!(names[..at].contains(&other), "{name} may not name {other}: it does not stand above");
        }
    }
    for home in HOMES.iter().flat_map(|(_, homes)| homes.split_whitespace()) {
        assert!(names.contains(&home), "no module {home}");
    }
}

fn read_folder(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_folder(root, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).expect("a path below the root").to_string_lossy().replace('\\', "/");
            files.insert(name, fs::read_to_string(&path).expect("readable UTF-8"));
        }
    }
}

/// The names of all crates that Cargo.toml brings in, as the code writes them.
fn dependencies(root: &Path) -> Vec<String> {
    let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml")).expect("Cargo.toml").parse().expect("TOML");
    let kinds = ["dependencies", "dev-dependencies"].into_iter().filter_map(|kind| manifest.get(kind)?.as_table());
    kinds.flat_map(|kind| kind.keys().map(|name| name.replace('-', "_"))).collect()
}

fn modules() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    CORE.iter().chain(SHELL)
}

fn lists(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

/// The violations in `files` (path and text), each as file, line, rule and remedy.
fn check(files: &BTreeMap<String, String>, crates: &[String]) -> Vec<String> {
    let sources = files.iter().map(|(file, text)| (file.clone(), source::read(file, text))).collect();
    let (orphans, tests) = source::reach(&sources);
    let mut found = BTreeSet::new();
    for (file, source) in &sources {
        let module = file.trim_start_matches("src/").split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let in_core = CORE.iter().any(|(core, _)| *core == module);
        let only_tests = tests.contains(file.as_str());
        let mut checker = Checker { file, module, in_core, only_tests, crates, found: &mut found };
        checker.file(&files[file], orphans.contains(&file.as_str()));
        source.paths.iter().for_each(|path| checker.path(path));
        source.words.iter().for_each(|word| checker.word(word));
    }
    found.into_iter().map(|(file, line, rule)| format!("{file}:{line}: {rule}")).collect()
}

struct Checker<'a> {
    file: &'a str,
    /// The module of the tables that the file belongs to, or `lib`.
    module: &'a str,
    in_core: bool,
    /// Only `#[cfg(test)]` names the file.
    only_tests: bool,
    crates: &'a [String],
    found: &'a mut BTreeSet<(String, usize, String)>,
}

impl Checker<'_> {
    fn report(&mut self, line: usize, rule: &str, remedy: &str) {
        self.found.insert((self.file.to_owned(), line, format!("{rule}: {remedy}")));
    }

    fn file(&mut self, text: &str, orphan: bool) {
        if orphan {
            self.report(1, "no `mod` names this file, so nothing compiles it", "declare it or delete it");
        }
        if !text.starts_with("//!") {
            self.report(1, "opens without `//!`", "say first what the file owns and what it may not know");
        }
        let lines = text.lines().count();
        if lines > MAX_LINES {
            let rule = format!("{lines} lines, more than {MAX_LINES}");
            self.report(MAX_LINES + 1, &rule, "move one of its concerns to a file of its own");
        }
        if self.module != "lib" && !modules().any(|(name, _)| *name == self.module) {
            let rule = format!("the module {} is in no table", self.module);
            self.report(1, &rule, "give it its place in tests/architecture.rs");
        }
    }

    fn path(&mut self, &Named { ref name, line, in_test }: &Named<Vec<String>>) {
        let shown = name.join("::");
        let root = name[0].as_str();
        let in_test = in_test || self.only_tests;
        match name.get(1) {
            Some(module) if root == "crate" || root == LIBRARY => self.edge(&shown, module, line, in_test),
            None if root == "crate" => self.edge(&shown, "*", line, in_test),
            _ if self.module == "lib" && modules().any(|(name, _)| *name == root) => {
                self.edge(&shown, root, line, in_test)
            }
            _ => {}
        }
        if let Some((_, homes)) = HOMES.iter().find(|(home, _)| *home == root)
            && !lists(homes, self.module)
        {
            let rule = format!("`{shown}`: only {} may name {root}", homes.replace(' ', ", "));
            self.report(line, &rule, "do it there, behind a type or a port");
        } else if self.in_core && self.crates.iter().any(|name| name == root) && !lists(CORE_CRATES, root) {
            self.report(line, &format!("`{shown}`: the core may not name {root}"), "return a value, let the shell act");
        }
        if self.in_core && NOT_IN_CORE.split_whitespace().any(|barred| reaches(name, barred)) {
            self.report(line, &format!("`{shown}`: the core has no IO and no threads"), "take the data as an argument");
        }
        if let Some(word) = name.iter().find(|word| lists(NO_WORD_OF_CORE, word)) {
            self.core_word(word, line);
        }
        // A test of the shell may measure a real broker; the core has no clock in its tests either.
        let asks = |pair: &[String]| lists("Instant SystemTime", &pair[0]) && pair[1] == "now";
        if self.file != CLOCK && !in_test && (name.windows(2).any(asks) || name.iter().any(|word| word == "UNIX_EPOCH"))
        {
            let rule = format!("`{shown}`: only {CLOCK} asks for the time");
            self.report(line, &rule, "take a `time::Clock`, a `Timestamp` or a `Duration`");
        }
        if name.len() > 1 && name.last().is_some_and(|last| last == "unwrap") && !in_test {
            self.report(line, "`unwrap` outside tests", "return the error, or `expect` the invariant by its name");
        }
    }

    /// `shown` is a path to `target`, a module of the crate.
    fn edge(&mut self, shown: &str, target: &str, line: usize, in_test: bool) {
        let place = |module: &str| modules().position(|(name, _)| *name == module);
        let allowed = modules().find(|(name, _)| *name == self.module).map_or("", |(_, allowed)| allowed);
        if target == self.module || lists(allowed, target) {
            return;
        }
        match (place(target), place(self.module)) {
            (None, _) => {
                self.report(line, &format!("`{shown}` names no module of the tables"), "name the module itself")
            }
            // A test may build on all that stands above its module.
            (Some(target), Some(own)) if in_test && target < own => {}
            (Some(_), _) => {
                let rule = format!("`{shown}`: {} may not name {target}", self.module);
                let remedy = "move what it needs up, or pass it in; the tables of tests/architecture.rs say who may";
                self.report(line, &rule, remedy);
            }
        }
    }

    fn word(&mut self, &Named { ref name, line, .. }: &Named<String>) {
        if lists(NOWHERE, name) {
            self.report(line, &format!("`{name}`"), "finish the code, or return an error");
        }
        if lists(NO_WORD_OF_CORE, name) {
            self.core_word(name, line);
        }
        if self.file != CLOCK && ["Instant as", "SystemTime as"].contains(&name.as_str()) {
            self.report(line, &format!("`{name}` hides a clock"), "use the type's own name");
        }
    }

    fn core_word(&mut self, word: &str, line: usize) {
        if self.in_core {
            let rule = format!("`{word}`: the core has no clock, no lock, no channel and no terminal");
            self.report(line, &rule, "take the time as an argument, return what happened");
        }
    }
}

/// Whether `name` is `barred`, lies below it, or takes it in by `*`.
fn reaches(name: &[String], barred: &str) -> bool {
    let mut named = name.iter();
    barred.split("::").all(|barred| named.next().is_some_and(|named| named == barred || named == "*"))
}

/// A crate that breaks no rule, with `text` put in as `file`.
fn with(file: &str, text: &str) -> BTreeMap<String, String> {
    let sound = [
        ("src/lib.rs", "//! Root.\npub mod collector;\npub mod ids;\npub mod kafka;\npub mod task;\npub mod worker;\n"),
        ("src/main.rs", "//! Entry.\nfn main() {}\n"),
        ("src/ids.rs", "//! Ids.\npub struct Id;\n"),
        ("src/collector/mod.rs", "//! Collector.\nmod session;\n#[cfg(test)]\nmod tests;\n"),
        ("src/collector/session.rs", "//! Session.\n"),
        ("src/collector/tests.rs", "//! Tests.\n"),
        ("src/task/mod.rs", "//! Task.\n"),
        ("src/kafka/mod.rs", "//! Kafka.\n"),
        ("src/worker/mod.rs", "//! Worker.\n"),
    ];
    let mut files: BTreeMap<_, _> = sound.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
    files.insert(file.to_owned(), text.to_owned());
    files
}

fn crates() -> Vec<String> {
    ["rdkafka", "tracing", "serde", "tokio"].map(str::to_owned).to_vec()
}

#[test]
fn each_rule_is_seen_broken() {
    let cases = [
        // (file, text below its first line, line, what the message says)
        ("src/collector/session.rs", "use rdkafka::Message;", 2, "only kafka may name rdkafka"),
        ("src/collector/session.rs", "fn f() -> rdkafka::Offset {}", 2, "only kafka may name rdkafka"),
        ("src/kafka/mod.rs", "use {serde::Serialize, ::prometheus as p};", 2, "only metrics may name prometheus"),
        ("src/worker/mod.rs", "#[tokio::test]\nasync fn f() {}", 2, "only admin, app, shutdown, telemetry"),
        ("src/worker/mod.rs", "extern crate axum;", 2, "axum"),
        ("src/worker/mod.rs", "fn f() -> anyhow::Result<()> {}", 2, "only exit, app, cli, main may name anyhow"),
        ("src/task/mod.rs", "\nuse tracing::info;", 3, "the core may not name tracing"),
        ("src/task/mod.rs", "use std::{fmt, fs::File};", 2, "the core has no IO"),
        ("src/task/mod.rs", "use std::{\n    fmt,\n    thread,\n};", 4, "the core has no IO and no threads"),
        ("src/task/mod.rs", "use std::*;", 2, "the core has no IO"),
        ("src/task/mod.rs", "fn f() { std::env::var(\"A\"); }", 2, "the core has no IO"),
        ("src/task/mod.rs", "struct A(std::sync::Mutex<u8>);", 2, "no lock"),
        ("src/task/mod.rs", "use std::time::{Duration, Instant};", 2, "no clock"),
        ("src/task/mod.rs", "fn f() { println!(\"\") }", 2, "no terminal"),
        ("src/kafka/mod.rs", "fn f() { std::time::Instant::now(); }", 2, "only src/clock.rs asks for the time"),
        ("src/collector/tests.rs", "fn f() { std::time::Instant::now(); }", 2, "no clock"),
        ("src/main.rs", "fn f() { SystemTime::now(); }", 2, "only src/clock.rs asks for the time"),
        ("src/kafka/mod.rs", "use std::time::Instant as Moment;", 2, "hides a clock"),
        ("src/collector/session.rs", "use crate::kafka::Client;", 2, "collector may not name kafka"),
        ("src/collector/session.rs", "use crate::{ids::Id, task::{self, Batch}};", 2, "collector may not name task"),
        ("src/collector/session.rs", "fn f(task: &super::super::task::Batch) {}", 2, "collector may not name task"),
        ("src/collector/session.rs", "mod a { use super::super::super::task; }", 2, "collector may not name task"),
        ("src/collector/tests.rs", "use crate::task::Batch;", 2, "collector may not name task"),
        ("src/ids.rs", "use super::worker;", 2, "ids may not name worker"),
        ("src/ids.rs", "use crate::*;", 2, "names no module of the tables"),
        ("src/ids.rs", "use crate as root;", 2, "names no module of the tables"),
        ("src/main.rs", "use duplex_collector::task::Batch;", 2, "main may not name task"),
        ("src/lib.rs", "pub use worker::Loop;", 2, "lib may not name worker"),
        ("src/worker/mod.rs", "fn f() { g().unwrap(); }", 2, "`unwrap` outside tests"),
        ("src/worker/mod.rs", "fn f() { g().map(Option::unwrap); }", 2, "`unwrap` outside tests"),
        ("src/worker/mod.rs", "#[cfg(test)]\nmod tests {}\nfn f() { g().unwrap() }", 4, "`unwrap` outside tests"),
        ("src/worker/mod.rs", "#[cfg(not(test))]\nfn f() { g().unwrap() }", 3, "`unwrap` outside tests"),
        ("src/worker/mod.rs", "fn f() { unsafe { g() } }", 2, "`unsafe`"),
        ("src/worker/mod.rs", "fn f() { todo!() }", 2, "`todo!`"),
        ("src/worker/mod.rs", "fn f() { unimplemented!() }", 2, "`unimplemented!`"),
        ("src/worker/mod.rs", "#[cfg(test)]\nmod tests { fn f() { dbg!(1); } }", 3, "`dbg!`"),
        ("src/worker/lost.rs", "", 1, "no `mod` names this file"),
        ("src/misc.rs", "", 1, "the module misc is in no table"),
    ];
    for (file, text, line, rule) in cases {
        let root = if file == "src/lib.rs" { &with("", "")[file]["//! Root.".len()..] } else { "" };
        let found = check(&with(file, &format!("//! Opens.\n{text}{root}")), &crates());
        let hits = found.iter().any(|found| found.starts_with(&format!("{file}:{line}: ")) && found.contains(rule));
        assert!(hits, "{text:?} in {file}: {found:#?}");
    }
}

#[test]
fn a_file_is_seen_that_is_too_long_or_does_not_say_what_it_is() {
    let lines = |n: usize| format!("//! Ids.\n{}", "// line\n".repeat(n - 1));
    let found = |text: &str| check(&with("src/ids.rs", text), &crates());
    assert_eq!(found(&lines(500)), [""; 0]);
    assert!(found(&lines(501))[0].starts_with("src/ids.rs:501: 501 lines, more than 500"));
    assert!(found("// Ids.\n")[0].starts_with("src/ids.rs:1: opens without `//!`"));
}

#[test]
fn what_is_allowed_is_not_reported() {
    let cases = [
        ("src/collector/session.rs", "// use rdkafka::x; /*\nuse crate::ids::Id; /* crate::task /* */ todo!() */"),
        ("src/collector/session.rs", "const A: &str = \"use crate::task; \\\" unsafe\"; const B: char = '\"';"),
        ("src/collector/session.rs", "const A: &str = r#\"\" todo!() \"#; fn f<'a>(a: &'a u8) -> &'a u8 { a }"),
        ("src/collector/session.rs", "use std::{fmt, sync::Arc, time::Duration}; use super::super::ids;"),
        ("src/collector/session.rs", "fn f(now: u8) { x.now(); y.unwrap_or(0); a != b; unsafe_code(); }"),
        ("src/collector/tests.rs", "use super::*; fn f() { g().unwrap(); }"),
        ("src/kafka/mod.rs", "use rdkafka::Message; use crate::worker::Consumer; use tracing::info;"),
        ("src/kafka/mod.rs", "#[cfg(test)]\nmod tests { use crate::collector::Settings; fn f() { g().unwrap(); } }"),
        ("src/kafka/mod.rs", "#[test]\nfn f() { g().unwrap(); Instant::now(); }"),
        ("src/kafka/mod.rs", "#[cfg(test)]\nuse crate::collector::{Settings, End};"),
        ("src/collector/mod.rs", "pub mod session;\npub use session::X;\n#[cfg(test)]\npub(crate) mod tests;"),
    ];
    for (file, text) in cases {
        assert_eq!(check(&with(file, &format!("//! Opens.\n{text}\n")), &crates()), [""; 0], "{text:?} in {file}");
    }
}
