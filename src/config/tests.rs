//! Whole loads: layers over each other, every rule once, all problems in one run, and no secret in any of it.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::keys::{KEYS, PROPERTIES};
use super::*;
use crate::report::ViewSettings;
use crate::worker::ProcessingGuarantee;

const SECRET: &str = "hunter2";

/// Inputs of a machine called `host`, with one file of a secret.
fn inputs(toml: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Inputs {
    Inputs {
        file: Some(ConfigFile { name: "collector.toml".into(), text: toml.into() }),
        environment: environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect(),
        flags: flags.iter().map(|&(path, value)| (path.to_owned(), value.to_owned())).collect(),
        host_name: Some("host".into()),
        read_secret: |path| match path.to_str() {
            Some("/run/secrets/p") => Ok(format!("{SECRET}\n")),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
    }
}

fn load(toml: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Config {
    Config::load(&inputs(toml, environment, flags)).unwrap_or_else(|problems| panic!("{problems}"))
}

fn problems(toml: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Vec<String> {
    let problems = Config::load(&inputs(toml, environment, flags)).expect_err("the inputs are wrong");
    problems.0.iter().map(ToString::to_string).collect()
}

/// Lines that set something.
fn settings_of(toml: &str) -> Vec<&str> {
    toml.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[test]
fn an_empty_file_and_no_file_are_the_defaults() {
    assert_eq!(load("", &[], &[]), Config::with_instance("host"));
    let without_file = Inputs { file: None, ..inputs("", &[], &[]) };
    assert_eq!(Config::load(&without_file), Ok(Config::with_instance("host")));
}

#[test]
fn the_default_file_is_the_defaults() {
    assert_eq!(load(DEFAULT_TOML, &[], &[]), Config::with_instance("host"));
    let rendered = Config::with_instance("host").to_string();
    let mut rendered = settings_of(&rendered);
    rendered.retain(|line| *line != r#"instance = "host""#);
    assert_eq!(settings_of(DEFAULT_TOML), rendered);
}

#[test]
fn the_default_file_says_of_every_key_what_it_is_and_why() {
    let lines: Vec<_> = DEFAULT_TOML.lines().collect();
    for key in &KEYS {
        let section = lines.iter().position(|line| *line == format!("[{}]", key.section())).unwrap();
        let is_key = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{} = ", key.name()));
        let line = section + lines[section..].iter().position(|line| is_key(line)).unwrap();
        let comment: Vec<_> = lines[..line].iter().rev().take_while(|line| line.starts_with("# ")).collect();
        assert!(!comment.is_empty(), "{} has no comment", key.path);
        let has_default = comment.iter().any(|line| line.starts_with("# Default: "));
        assert!(has_default || key.section() == "topics", "{} does not give its default's reason", key.path);
    }
}

#[test]
fn what_is_rendered_loads_as_the_same_configuration() {
    let config = load("", &[], &[("worker.count", "3"), ("run.windows", "10m"), ("session.grace", "90s")]);
    assert_eq!(load(&config.to_string(), &[], &[]), config);
}

#[test]
fn every_key_can_be_set_in_the_file() {
    let config = load(
        r#"
        kafka = { bootstrap_servers = "a:1,b:2", group_id = "g", instance = "i", properties = { "linger.ms" = 5 } }
        dead_letters.payload = "drop"
        run = { default_id = "r", windows = ["10m"], exact_samples = 1000, max_runs = 7 }
        admin = { listen = "[::1]:0", web_config = "web.yml" }
        log = { format = "json", filter = "debug" }
        [topics]
        events = "e"
        bundles = "b"
        dead_letters = "d"
        changelog = "c"
        create = true
        partitions = 3
        replication_factor = 1
        [worker]
        count = 4
        commit_interval = "1s"
        processing_guarantee = "at_least_once"
        restore_timeout = "3s"
        drain_timeout = "4s"
        [session]
        grace = "0s"
        idle_timeout = "6s"
        max_duration = "7s"
        closed_retention = "8s"
        clock_tolerance = "9s"
        [limits]
        record_bytes = 0x10
        sessions = 2
        state_bytes = 1_048_576
        session_bytes = 65_536
        responses = 3
        error_codes = 5
        stages = 6
        interval_values = 7
        text_bytes = 8
        "#,
        &[],
        &[],
    );
    let seconds = Duration::from_secs;
    let expected = Config {
        kafka: kafka::Settings {
            bootstrap_servers: "a:1,b:2".into(),
            group_id: "g".into(),
            instance: "i".into(),
            oauth_token_file: String::new(),
            properties: [("linger.ms".to_owned(), "5".to_owned())].into(),
        },
        topics: kafka::Topics {
            events: "e".into(),
            bundles: "b".into(),
            dead_letters: "d".into(),
            changelog: "c".into(),
            create: true,
            partitions: 3,
            replication_factor: 1,
        },
        dead_letter_payload: kafka::DeadLetterPayload::Drop,
        worker: worker::Settings {
            count: 4,
            commit_interval: seconds(1),
            processing_guarantee: ProcessingGuarantee::AtLeastOnce,
            restore_timeout: seconds(3),
            drain_timeout: seconds(4),
        },
        session: collector::Settings {
            grace: seconds(0),
            idle_timeout: seconds(6),
            max_duration: seconds(7),
            closed_retention: seconds(8),
            clock_tolerance: seconds(9),
            limits: collector::Limits {
                record_bytes: 16,
                sessions: 2,
                state_bytes: 1 << 20,
                session_bytes: 1 << 16,
                responses: 3,
                error_codes: 5,
                stages: 6,
                interval_values: 7,
                text_bytes: 8,
            },
        },
        run: ViewSettings {
            clock_tolerance: seconds(9),
            default_run_id: "r".into(),
            windows: vec![("10m".into(), Duration::from_secs(600))],
            exact_samples: 1000,
            max_runs: 7,
        },
        admin: admin::Settings { listen: "[::1]:0".parse().unwrap(), web_config: Some("web.yml".into()) },
        log: LogSettings { format: LogFormat::Json, filter: "debug".into() },
        properties_from_files: BTreeSet::new(),
    };
    assert_eq!(config, expected);
}

#[test]
fn environment_wins_over_file_and_flags_over_environment() {
    let file = "worker.count = 2\nkafka.group_id = \"file\"\ntopics.events = \"file\"\n";
    let environment = [("DUPLEX_KAFKA__GROUP_ID", "environment"), ("DUPLEX_TOPICS__EVENTS", "environment")];
    let config = load(file, &environment, &[("topics.events", "flag")]);
    assert_eq!(config.worker.count, 2);
    assert_eq!(config.kafka.group_id, "environment");
    assert_eq!(config.topics.events, "flag");
}

#[test]
fn of_a_repeated_flag_the_last_wins() {
    let flags = [
        ("worker.count", "2"),
        ("worker.count", "3"),
        ("kafka.properties.linger.ms", "1"),
        ("kafka.properties.linger.ms", "2"),
    ];
    let config = load("", &[], &flags);
    assert_eq!((config.worker.count, config.kafka.properties["linger.ms"].as_str()), (3, "2"));
}

#[test]
fn a_list_in_the_environment_is_separated_by_commas() {
    let config = load("", &[("DUPLEX_RUN__WINDOWS", "10m,2h")], &[]);
    assert_eq!(config.run.windows.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["10m", "2h"]);
}

#[test]
fn a_secret_can_come_from_a_file_by_every_layer() {
    let unquoted = "[kafka.properties]\nsasl.password_file = \"/run/secrets/p\"\n";
    let quoted = "[kafka.properties]\n\"sasl.password_file\" = \"/run/secrets/p\"\n";
    for config in [
        load(unquoted, &[], &[]),
        load(quoted, &[], &[]),
        load("", &[("DUPLEX_KAFKA__PROPERTIES__SASL_PASSWORD_FILE", "/run/secrets/p")], &[]),
        load("", &[], &[("kafka.properties.sasl.password_file", "/run/secrets/p")]),
        load(
            "[kafka.properties]\nsasl.password = \"old\"\n",
            &[],
            &[("kafka.properties.sasl.password_file", "/run/secrets/p")],
        ),
    ] {
        assert_eq!(config.kafka.properties["sasl.password"], SECRET);
        assert_eq!(config.properties_from_files, BTreeSet::from(["sasl.password".to_owned()]));
    }
}

#[test]
fn a_property_itself_and_from_a_file_in_one_layer_is_given_twice() {
    let environment = [
        ("DUPLEX_KAFKA__PROPERTIES__SASL_PASSWORD", SECRET),
        ("DUPLEX_KAFKA__PROPERTIES__SASL_PASSWORD_FILE", "/run/secrets/p"),
    ];
    assert_eq!(
        problems("", &environment, &[]),
        ["`kafka.properties.sasl.password` (from DUPLEX_KAFKA__PROPERTIES__SASL_PASSWORD_FILE) is given twice; \
          give it once, itself or with `_file`"]
    );
}

#[test]
fn no_secret_stands_in_debug_display_or_problems() {
    let file = format!(
        "[kafka.properties]\nsasl.password = \"{SECRET}\"\nssl.key.pem = [\"{SECRET}\"]\n\
         \"sasl.username_file\" = \"{SECRET}\"\nclient.secret = {{ \"é\" = \"{SECRET}\" }}\n"
    );
    let wrong = problems(&file, &[("DUPLEX_KAFKA__PROPERTIES__SSL_TRUSTSTORE_PASSWORD_FILE", SECRET)], &[]).join("\n");
    assert_eq!(wrong.matches("(hidden)").count(), 4, "{wrong}");
    let syntax = problems(&format!("[kafka.properties]\nsasl.password = {SECRET}\n"), &[], &[]).join("\n");
    let section = problems(&format!("kafka.properties = \"sasl.password={SECRET}\"\n"), &[], &[]).join("\n");
    let config = load("", &[("DUPLEX_KAFKA__PROPERTIES__SASL_PASSWORD", SECRET)], &[]);
    assert_eq!(config.kafka.properties["sasl.password"], SECRET);
    for shown in [wrong, syntax, section, config.to_string(), format!("{config:?} {config:#?}")] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

#[test]
fn every_value_out_of_range_is_refused_with_what_it_must_be() {
    for (path, value, remedy) in [
        ("kafka.bootstrap_servers", "kafka", "must be a list of host:port"),
        ("kafka.group_id", "", "must be 1 to 249 characters"),
        ("kafka.instance", "pod 0", "must be 1 to 240 of"),
        ("topics.events", "..", "must be 1 to 249 of"),
        ("topics.bundles", "a b", "must be 1 to 249 of"),
        ("topics.dead_letters", "", "must be 1 to 249 of"),
        ("topics.changelog", "ä", "must be 1 to 249 of"),
        ("topics.create", "yes", "must be true or false"),
        ("topics.partitions", "0", "must be 1 to 100000"),
        ("topics.replication_factor", "0", "must be 1 to 32767"),
        ("dead_letters.payload", "hash", r#"must be "keep" or "drop""#),
        ("worker.count", "257", "must be 1 to 256"),
        ("worker.commit_interval", "9ms", "must be 10ms to 1m"),
        ("worker.processing_guarantee", "twice", r#"must be "exactly_once" or "at_least_once""#),
        ("worker.restore_timeout", "0s", "must be 1s to 1h"),
        ("worker.drain_timeout", "25s", "must be 1s to 24s: below 25s, so that a supervisor's 30s suffice"),
        ("session.grace", "61m", "must be 0s to 1h"),
        ("session.idle_timeout", "999ms", "must be 1s to 1day"),
        ("session.max_duration", "31days", "must be 1s to 30days"),
        ("session.closed_retention", "25h", "must be 0s to 1day"),
        ("session.clock_tolerance", "25h", "must be 0s to 1day"),
        ("run.default_id", " a", "must be 1 to 249 characters"),
        ("run.windows", "5m,5m", r#"must be 1 to 5 different durations of 1m to 7days such as ["5m", "1h"]"#),
        ("run.windows", "30s", r#"must be 1 to 5 different durations of 1m to 7days such as ["5m", "1h"]"#),
        ("limits.record_bytes", "268435457", "must be 1 to 268435456"),
        ("limits.sessions", "0", "must be 1 to 100000000"),
        ("limits.state_bytes", "1048575", "must be 1048576 to 1099511627776"),
        ("limits.session_bytes", "65535", "must be 65536 to 1099511627776"),
        ("limits.responses", "0", "must be 1 to 10000000"),
        ("limits.error_codes", "0", "must be 1 to 10000"),
        ("limits.stages", "-1", "must be 1 to 10000"),
        ("limits.interval_values", "0", "must be 1 to 16777216"),
        ("limits.text_bytes", "0", "must be 1 to 65536"),
        ("admin.listen", "localhost:9464", "must be an IP address and a port"),
        ("log.format", "xml", r#"must be "text" or "json""#),
        ("log.filter", "=loud=", "must be a log filter"),
    ] {
        let found = problems("", &[], &[(path, value)]);
        let expected = format!("`{path}` \"{value}\" (from the command line) {remedy}");
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}\n{expected}");
    }
}

#[test]
fn every_key_of_the_wrong_type_is_refused() {
    for key in &KEYS {
        let found = problems(&format!("{} = 1979-05-27\n", key.path), &[], &[]);
        let expected = format!("`{}` a date (collector.toml, line 1) must ", key.path);
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
    }
    let found = problems("kafka.properties.linger.ms = 0.5\n", &[], &[]);
    let expected =
        format!("`{PROPERTIES}.linger.ms` a number with a fraction (collector.toml, line 1) must be a string");
    assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
}

#[test]
fn topics_must_differ() {
    for [one, other] in [
        ["topics.events", "topics.bundles"],
        ["topics.events", "topics.dead_letters"],
        ["topics.events", "topics.changelog"],
        ["topics.bundles", "topics.dead_letters"],
        ["topics.bundles", "topics.changelog"],
        ["topics.dead_letters", "topics.changelog"],
    ] {
        let found = problems("", &[], &[(one, "same.topic"), (other, "same_topic")]);
        let expected =
            format!("`{other}` \"same_topic\" (from the command line) must differ from `{one}` in more than");
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
    }
}

#[test]
fn a_session_may_last_as_long_as_it_may_be_idle() {
    assert_eq!(
        problems("session.idle_timeout = \"7h\"\n", &[], &[]),
        ["`session.max_duration` \"6h\" (the default) must be at least `session.idle_timeout`, 7h"]
    );
}

#[test]
fn one_session_leaves_room_for_others() {
    assert_eq!(
        problems("[limits]\nstate_bytes = 67108864\n", &[], &[]),
        [
            "`limits.session_bytes` 67108864 (the default) must be at most 25165824, three eighths of `limits.state_bytes`, 67108864"
        ]
    );
}

#[test]
fn properties_of_the_service_are_refused_wherever_they_come_from() {
    assert_eq!(
        problems(
            "[kafka.properties]\n\"group.protocol\" = \"consumer\"\nisolation.level = \"read_committed\"\n",
            &[("DUPLEX_KAFKA__PROPERTIES__BOOTSTRAP_SERVERS", "a:1")],
            &[("kafka.properties.transactional.id", "x")]
        ),
        [
            "`kafka.properties.bootstrap.servers` \"a:1\" (from DUPLEX_KAFKA__PROPERTIES__BOOTSTRAP_SERVERS) must be \
             set by `kafka.bootstrap_servers`; remove it here",
            "`kafka.properties.group.protocol` \"consumer\" (collector.toml, line 2) can't be used: only \"classic\" is \
             supported: the new protocol is unsound in the bundled librdkafka",
            "`kafka.properties.isolation.level` \"read_committed\" (collector.toml, line 3) is set by the service; \
             remove it",
            "`kafka.properties.transactional.id` \"x\" (from the command line) is set by kafka.group_id and \
             kafka.instance; remove it",
        ]
    );
}

#[test]
fn a_token_and_its_mechanism_come_together_and_make_no_topics() {
    let oauth = "[kafka.properties]\n\"security.protocol\" = \"SASL_SSL\"\n\"sasl.mechanism\" = \"OAUTHBEARER\"\n";
    let token = ("kafka.oauth_token_file", "/run/secrets/t");
    assert_eq!(load(oauth, &[], &[token]).kafka.oauth_token_file, "/run/secrets/t");
    assert_eq!(
        problems(oauth, &[], &[]),
        ["`kafka.oauth_token_file` \"\" (the default) must name the file of the token that OAUTHBEARER takes"]
    );
    assert_eq!(
        problems("", &[], &[token, ("topics.create", "true")]),
        [
            "`kafka.oauth_token_file` \"/run/secrets/t\" (from the command line) must come with \"security.protocol\" = \
             \"sasl_ssl\" and \"sasl.mechanism\" = \"OAUTHBEARER\" in [kafka.properties]",
            "`topics.create` true (from the command line) must be false with `kafka.oauth_token_file`: the client that \
             makes topics can't log in with a token; have them made",
        ]
    );
    assert_eq!(
        problems(oauth, &[], &[("kafka.oauth_token_file", "token")]),
        ["`kafka.oauth_token_file` \"token\" (from the command line) must be the absolute path of a file, or \"\""]
    );
}

#[test]
fn an_empty_text_is_as_if_the_key_were_not_there_where_the_key_can_do_without() {
    let required = [
        "kafka.bootstrap_servers",
        "kafka.group_id",
        "topics.events",
        "topics.bundles",
        "topics.dead_letters",
        "topics.changelog",
    ];
    let set = load(
        "kafka.properties = { \"sasl.username\" = \"ann\" }\nadmin.web_config = \"web.yml\"\nworker.count = 3",
        &[],
        &[],
    );
    for key in &KEYS {
        for empty in ["", " "] {
            let flags = [(key.path, empty)];
            if required.contains(&key.path) {
                let expected = format!("`{}` \"{empty}\" (from the command line) must be ", key.path);
                assert!(problems("", &[], &flags)[0].starts_with(&expected), "{}", key.path);
            } else {
                assert_eq!(load(&set.to_string(), &[], &flags), set, "{}", key.path);
                let variable = format!("DUPLEX_{}", key.path.replace('.', "__").to_uppercase());
                assert_eq!(load(&set.to_string(), &[(&variable, empty)], &[]), set, "{}", key.path);
                let file = format!("{} = \"{empty}\"", key.path);
                assert_eq!(load(&file, &[], &[]), Config::with_instance("host"), "{}", key.path);
            }
        }
    }
}

#[test]
fn an_empty_property_is_as_if_it_were_not_there_where_librdkafka_does_not_refuse_it() {
    let set = "[kafka.properties]\n\"sasl.username\" = \"ann\"\n\"sasl.password_file\" = \"/run/secrets/p\"";
    for property in ["sasl.username", "sasl.password", "sasl.password_file", "client.rack"] {
        let flags = [(&*format!("kafka.properties.{property}"), "")];
        assert_eq!(load(set, &[], &flags), load(set, &[], &[]), "{property}");
    }
    // Without it nothing would be encrypted, and nobody would know.
    let found = problems("", &[("DUPLEX_KAFKA__PROPERTIES__SECURITY_PROTOCOL", "")], &[]);
    assert!(found.len() == 1 && found[0].contains("cannot be set to empty value"), "{found:?}");
}

#[test]
fn a_process_without_a_name_is_asked_for_one() {
    let mut nameless = inputs("", &[], &[]);
    nameless.host_name = None;
    let problems = Config::load(&nameless).map_err(|problems| problems.to_string());
    assert_eq!(problems, Err("`kafka.instance` is not set; set it, for the host name is unknown".into()));
    nameless.flags = vec![("kafka.instance".into(), "i".into())];
    assert_eq!(Config::load(&nameless), Ok(Config::with_instance("i")));
}

#[test]
fn all_problems_are_reported_in_one_run() {
    let file =
        "[worker]\ncount = 0\ncomit_interval = \"1s\"\n[session]\ngrace = 5\n[topics]\nbundles = \"duplex.events\"\n";
    let environment = [("DUPLEX_WORKER__DRAIN_TIMEOUT", "1m"), ("DUPLEX_LOG_FORMAT", "json")];
    assert_eq!(
        problems(file, &environment, &[("kafka.groupid", "x"), ("kafka.properties.sasl.password_file", "/nowhere")]),
        [
            "unknown key `worker.comit_interval` (collector.toml, line 3); did you mean `worker.commit_interval`?",
            "unknown variable `DUPLEX_LOG_FORMAT`; did you mean `DUPLEX_LOG__FORMAT`?",
            "unknown key `kafka.groupid` (from the command line); did you mean `kafka.group_id`?",
            "`worker.count` 0 (collector.toml, line 2) must be 1 to 256",
            "`worker.drain_timeout` \"1m\" (from DUPLEX_WORKER__DRAIN_TIMEOUT) must be 1s to 24s: below 25s, so that a \
             supervisor's 30s suffice",
            "`session.grace` 5 (collector.toml, line 5) must be a duration such as \"500ms\", \"20s\" or \"6h\"",
            "`kafka.properties.sasl.password_file` \"/nowhere\" (from the command line) can't be read: entity not \
             found; name a file that this user may read",
            "`topics.bundles` \"duplex.events\" (collector.toml, line 7) must differ from `topics.events` in more than \
             \".\" and \"_\", or the service reads what it writes, for ever",
        ]
    );
}

#[test]
fn a_file_with_a_syntax_error_still_leaves_the_other_layers_checked() {
    let found =
        problems("topics.bundles = duplex\n", &[("DUPLEX_WORKER__COUNT", "0")], &[("topics.bundles", "duplex.events")]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("collector.toml, line 1, column 18: "), "{found:?}");
    assert_eq!(found[1], "`worker.count` \"0\" (from DUPLEX_WORKER__COUNT) must be 1 to 256");
}
