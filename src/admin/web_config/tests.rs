//! Whole files: what each key takes, what is refused and how, and the looks at files that change.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::TempDir;

use super::*;

const TLS: &str = "tls_server_config:\n  cert_file: tls/a.crt\n  key_file: tls/a.key\n";
const USERS: &str = "basic_auth_users:\n  ann: $2y$04$abcdefghijklmnopqrstuuqflPDzB6gcMhKa1rZqKiun2YGL5sa2u\n";

/// A folder with `tls/a.crt`, `tls/a.key` and `tls/b.key`, which is another's.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tls")).unwrap();
    for name in ["a", "b"] {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        put(folder.path(), &format!("tls/{name}.crt"), &cert.pem());
        put(folder.path(), &format!("tls/{name}.key"), &signing_key.serialize_pem());
    }
    folder
}

/// A file in the place of another, which has other bytes than it whatever the clock says.
fn put(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join("new"), text).unwrap();
    fs::rename(folder.join("new"), folder.join(name)).unwrap();
}

fn load(folder: &TempDir, text: &str) -> Result<WebConfig, WebConfigError> {
    put(folder.path(), "web.yml", text);
    WebConfig::load(&folder.path().join("web.yml"))
}

/// The problems, without the folder.
fn problems(folder: &TempDir, text: &str) -> Vec<String> {
    let error = load(folder, text).expect_err(text);
    error.0.iter().map(|problem| problem.replace(&format!("{}/", folder.path().display()), "")).collect()
}

#[test]
fn every_key_of_the_format_is_read() {
    let folder = folder();
    let text = format!(
        "{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: tls/a.crt\n  \
         client_allowed_sans:\n    - localhost\n  min_version: TLS12\n  max_version: TLS13\n  cipher_suites:\n    \
         - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n  prefer_server_cipher_suites: true\n  curve_preferences:\n    \
         - CurveP256\nhttp_server_config:\n  http2: true\n  headers:\n    Content-Security-Policy: default-src 'self'\n    \
         X-Frame-Options: sameorigin\n    X-Content-Type-Options: nosniff\n    X-XSS-Protection: 1\n    \
         Strict-Transport-Security: max-age=1\n{USERS}rate_limit:\n  interval: 1s\n  burst: 20\n"
    );
    let web_config = load(&folder, &text).unwrap();
    assert!(web_config.has_tls() && web_config.has_login());
    assert_eq!(web_config.security().headers.len(), 5);
}

#[test]
fn tls_alone_users_alone_and_neither_do() {
    let folder = folder();
    for (text, tls, login) in [
        (TLS, true, false),
        (USERS, false, true),
        ("http_server_config:\n  http2: true\nbasic_auth_users:\n", false, false),
        ("tls_server_config:\n  cert_file: \"\"\n  key_file:\nbasic_auth_users: {}\n", false, false),
        ("rate_limit:\n  interval: 0\n", false, false),
    ] {
        let web_config = load(&folder, text).unwrap();
        assert_eq!((web_config.has_tls(), web_config.has_login()), (tls, login), "{text}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_the_remedy() {
    let folder = folder();
    let more = |more: &str| format!("{TLS}  {more}\n");
    for (text, problem) in [
        ("".into(), "web.yml is empty; give it tls_server_config or basic_auth_users, or unset admin.web_config"),
        (
            "tls_server_config: 3\n".into(),
            "`tls_server_config` (web.yml, line 1) must be a section: `name: value` lines, indented below it",
        ),
        (
            "tls_server_confg:\n".into(),
            "unknown key `tls_server_confg` (web.yml, line 1); did you mean `tls_server_config`?",
        ),
        (
            "users:\n".into(),
            "unknown key `users` (web.yml, line 1); remove it, or see README.md for the keys there are",
        ),
        (
            more("certfile: x"),
            "unknown key `tls_server_config.certfile` (web.yml, line 4); did you mean `tls_server_config.cert_file`?",
        ),
        (more("key_file: tls/b.key"), "`tls_server_config.key_file` (web.yml, line 4) is given twice; give it once"),
        (
            more("min_version: TLS11"),
            "`tls_server_config.min_version` \"TLS11\" (web.yml, line 4) is not spoken, for it is broken; give it \"TLS12\" or \"TLS13\"",
        ),
        (
            more("min_version: 1.3"),
            "`tls_server_config.min_version` \"1.3\" (web.yml, line 4) must be \"TLS12\" or \"TLS13\"",
        ),
        (
            more("curve_preferences: [CurveP521]"),
            "`tls_server_config.curve_preferences` \"CurveP521\" (web.yml, line 4) is not offered; remove it, or name \"X25519\", \"CurveP256\" or \"CurveP384\"",
        ),
        (
            more("curve_preferences: CurveP256"),
            "`tls_server_config.curve_preferences` (web.yml, line 4) must be a list: one value a line, each with `- ` before it",
        ),
        (
            more("client_ca_file: tls/a.crt"),
            "`tls_server_config.client_ca_file` (web.yml, line 4) has no use without a client_auth_type; set that to \"RequireAndVerifyClientCert\"",
        ),
        (
            more("client_auth_type: VerifyClientCertIfGiven"),
            "`tls_server_config.client_auth_type` (web.yml, line 4) verifies clients and has no CA to do so; give it client_ca_file",
        ),
        (
            more("client_auth_type: None"),
            "`tls_server_config.client_auth_type` \"None\" (web.yml, line 4) must be \"NoClientCert\", \"RequestClientCert\", \"RequireAnyClientCert\", \"VerifyClientCertIfGiven\" or \"RequireAndVerifyClientCert\"",
        ),
        (
            more("client_allowed_sans: [a]"),
            "`tls_server_config.client_allowed_sans` (web.yml, line 1) needs a client_auth_type that asks every client for a certificate; set that to \"RequireAndVerifyClientCert\"",
        ),
        (
            more("prefer_server_cipher_suites: 7"),
            "`tls_server_config.prefer_server_cipher_suites` \"7\" (web.yml, line 4) must be true or false",
        ),
        (
            TLS.replace("a.key", "b.key"),
            "`tls_server_config` (web.yml, line 1) has a key that is not its certificate's; give it the two that belong together",
        ),
        (
            TLS.replace("a.key", "c.key"),
            "`tls_server_config.key_file` \"tls/c.key\" (web.yml, line 3) can't be read: entity not found; name a file that this user may read",
        ),
        (
            TLS.replace("a.key", "a.crt"),
            "`tls_server_config.key_file` \"tls/a.crt\" (web.yml, line 3) must be a key without a password in PEM, which begins with -----BEGIN PRIVATE KEY-----",
        ),
        (
            TLS.replace("a.crt", "a.key"),
            "`tls_server_config.cert_file` \"tls/a.key\" (web.yml, line 2) must be a certificate in PEM, which begins with -----BEGIN CERTIFICATE-----",
        ),
        (
            "tls_server_config:\n  key_file: tls/a.key\n".into(),
            "`tls_server_config` (web.yml, line 1) has no certificate; give it cert_file",
        ),
        (
            "tls_server_config:\n  cert_file: tls/a.crt\n".into(),
            "`tls_server_config` (web.yml, line 1) has no key; give it key_file",
        ),
        (
            "tls_server_config:\n  min_version: TLS13\n".into(),
            "`tls_server_config` (web.yml, line 1) has no certificate; give it cert_file and key_file, or remove it",
        ),
        (
            "http_server_config:\n  headers:\n    Server: x\n".into(),
            "unknown key `http_server_config.headers.Server` (web.yml, line 3); remove it, or see README.md for the keys there are",
        ),
        (
            "http_server_config:\n  headers:\n    X-Frame-Options: no\n".into(),
            "`http_server_config.headers.X-Frame-Options` \"no\" (web.yml, line 3) must be \"deny\" or \"sameorigin\"",
        ),
        (
            "http_server_config:\n  headers:\n    X-XSS-Protection: \"a\\nb\"\n".into(),
            "`http_server_config.headers.X-XSS-Protection` \"a\\nb\" (web.yml, line 3) must be a header's value: one line of printable ASCII",
        ),
        (
            "basic_auth_users:\n  ann:\n".into(),
            "`basic_auth_users.ann` (web.yml, line 2) must be a bcrypt hash, as `htpasswd -nBC 10 NAME` makes it",
        ),
        (
            "rate_limit:\n  interval: 1s\n".into(),
            "`rate_limit` (web.yml, line 1) has no burst, which refuses every request; give it `burst: 1` or more",
        ),
    ] {
        assert_eq!(problems(&folder, &text), [problem], "{text}");
    }
}

#[test]
fn all_problems_are_told_at_once_and_no_secret_is() {
    let folder = folder();
    let key = fs::read_to_string(folder.path().join("tls/a.key")).unwrap();
    let block: String = key.lines().skip(1).map(|line| format!("    {line}\n")).collect();
    let text = format!(
        "tls_server_config:\n  cert: secret-cert\n  key: |\n{block}  min_version: TLS10\nbasic_auth_users:\n  ann: hunter2\n"
    );
    let problems = problems(&folder, &text);
    assert_eq!(problems.len(), 4, "{problems:#?}");
    let all = problems.concat();
    assert!(!all.contains("hunter2") && !all.contains(block.lines().next().unwrap().trim()), "{all}");
}

#[test]
fn a_file_that_became_bad_is_told_of_once() {
    let folder = folder();
    let web_config = load(&folder, &format!("{TLS}{USERS}")).unwrap();
    // What is told of these looks: each is logged.
    let look = |times| (0..times).filter_map(|_| web_config.look()).collect::<Vec<_>>();
    assert_eq!(look(3), [], "nothing changed");

    // Certificate and key are replaced one after the other, with a look between the two.
    put(folder.path(), "tls/a.crt", &fs::read_to_string(folder.path().join("tls/b.crt")).unwrap());
    assert_eq!(look(1), []);
    put(folder.path(), "tls/a.key", &fs::read_to_string(folder.path().join("tls/b.key")).unwrap());
    assert_eq!(look(3), [Ok(())]);

    for (name, text, why) in [
        ("web.yml", "tls_server_config: [\n", "it is not valid YAML"),
        ("web.yml", "basic_auth_users:\n  ann: hunter2\n", "must be a bcrypt hash"),
    ] {
        put(folder.path(), name, text);
        let [Err(told)] = &look(5)[..] else { panic!("told once") };
        assert!(told.contains(why) && !told.contains("hunter2"), "{told}");
        assert!(web_config.has_tls() && web_config.has_login());
    }

    put(folder.path(), "web.yml", USERS);
    assert_eq!(look(3), [Ok(())]);
    assert!(!web_config.has_tls() && web_config.has_login());
}

#[test]
fn who_was_let_in_stays_so_over_a_renewed_certificate() {
    let folder = folder();
    let web_config = load(&folder, &format!("{TLS}{USERS}")).unwrap();
    let users = web_config.security().users.clone().unwrap();
    put(folder.path(), "web.yml", USERS);
    assert_eq!((0..3).filter_map(|_| web_config.look()).count(), 1);
    assert!(Arc::ptr_eq(&users, web_config.security().users.as_ref().unwrap()));
}
