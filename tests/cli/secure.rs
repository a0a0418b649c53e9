//! A service with a web config, and `top` as its client: each way of not getting in is said with its remedy.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;

use crate::{duplex, run, text};

pub const USER: &str = "prometheus";
pub const PASSWORD: &str = "a-password-nobody-may-see";

/// A folder with `ca.crt`, `server.crt` of 127.0.0.1 and `client.crt`, their keys, and `password`.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        folder.write("ca.crt", &params.self_signed(&key).expect("a certificate").pem());
        let ca = Issuer::new(params, key);
        for name in ["server", "client"] {
            let mut params = CertificateParams::default();
            params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
            let key = KeyPair::generate().expect("a key");
            folder.write(&format!("{name}.crt"), &params.signed_by(&key, &ca).expect("a certificate").pem());
            folder.write(&format!("{name}.key"), &key.serialize_pem());
        }
        folder.write("password", &format!("{PASSWORD}\n"));
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).expect("writes");
        self.path(name)
    }

    /// A web config with TLS, and more of its section or after it.
    pub fn with_tls(&self, more: &str) -> PathBuf {
        let tls = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";
        self.write("web.yml", &format!("{tls}{more}"))
    }
}

/// `basic_auth_users` with [`USER`], at this cost.
pub fn users(cost: u32) -> String {
    format!("basic_auth_users:\n  {USER}: {}\n", bcrypt::hash(PASSWORD, cost).expect("a hash"))
}

/// A service that waits for a broker; ended when it is dropped.
pub struct Service {
    child: Child,
    pub address: SocketAddr,
    log: thread::JoinHandle<String>,
}

impl Service {
    pub fn start(web_config: Option<PathBuf>) -> Self {
        let mut command = duplex();
        // Nothing listens on the discard port.
        let settings =
            ["kafka.bootstrap_servers=127.0.0.1:9", "admin.listen=127.0.0.1:0", "log.format=json", "kafka.instance=i"];
        command.arg("run").args(settings.iter().flat_map(|setting| ["--set", setting]));
        if let Some(path) = web_config {
            command.env("DUPLEX_ADMIN__WEB_CONFIG", path);
        }
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let mut read = String::new();
        let address = lines.by_ref().find_map(|line| {
            read += &line;
            let line: serde_json::Value = serde_json::from_str(&line).ok()?;
            line.get("address")?.as_str()?.parse().ok()
        });
        let Some(address) = address else { panic!("no address in {read:?}") };
        let log = thread::spawn(move || read + &lines.collect::<String>());
        Self { child, address, log }
    }

    /// Ends it; its whole log.
    pub fn end(mut self) -> String {
        self.kill();
        let log = std::mem::replace(&mut self.log, thread::spawn(String::new));
        log.join().expect("read")
    }

    fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

fn top(url: &str, arguments: &[&str]) -> Output {
    run(&[&["top", "--once", "--url", url][..], arguments].concat())
}

#[test]
fn top_gets_in_with_what_the_service_asks_for_and_else_says_what_it_lacks() {
    let folder = Folder::new();
    let file = |name: &str| folder.path(name).to_str().expect("UTF-8").to_owned();
    let (ca, cert, key, password) = (file("ca.crt"), file("client.crt"), file("client.key"), file("password"));
    let wrong = folder.write("wrong", "guess").to_str().expect("UTF-8").to_owned();
    let ca = ["--ca-file", &ca];
    let login = ["--user", USER, "--password-file", &password];
    let service = Service::start(Some(folder.with_tls(&users(4))));
    let (https, http) = (format!("https://{}", service.address), format!("http://{}", service.address));

    let output = top(&https, &[&ca[..], &login].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(&format!("\nduplex-collector 0.1.0  {https}  ")), "{}", text(&output.stdout));
    for (url, arguments, why) in [
        (&https, &login[..], "its certificate is of a CA that is not known here; give --ca-file that CA's certificate"),
        (&http, &login, "it speaks TLS; give --url with https://"),
        (&https, &ca, "it wants a login; give --user and --password-file"),
        (
            &https,
            &[&ca[..], &["--user", USER, "--password-file", &wrong]].concat(),
            "it refuses this login; --user and --password-file must be of basic_auth_users of its web config",
        ),
    ] {
        let output = top(url, arguments);
        assert_eq!(output.status.code(), Some(1), "{why}");
        assert_eq!(text(&output.stderr), format!("error: no way in at {url}/: {why}\n"));
    }
    let localhost = format!("https://localhost:{}", service.address.port());
    let why = "its certificate is for other names; give --url with one of them: 127.0.0.1";
    assert_eq!(text(&top(&localhost, &ca).stderr), format!("error: no way in at {localhost}/: {why}\n"));
    let log = service.end();
    assert!(!log.contains(PASSWORD) && !log.contains("$2b$"), "{log}");

    let mutual = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n";
    let service = Service::start(Some(folder.with_tls(mutual)));
    let https = format!("https://{}", service.address);
    let output = top(&https, &ca);
    let why = "it wants a client certificate; give --cert-file and --key-file";
    assert_eq!(text(&output.stderr), format!("error: no way in at {https}/: {why}\n"));
    let output = top(&https, &[&ca[..], &["--cert-file", &cert, "--key-file", &key]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));

    let service = Service::start(None);
    let https = format!("https://{}", service.address);
    let output = top(&https, &ca);
    let why = "it does not speak TLS; give --url with http://";
    assert_eq!(text(&output.stderr), format!("error: no way in at {https}/: {why}\n"));
}

#[test]
fn files_that_are_not_what_top_needs_are_named() {
    let folder = Folder::new();
    let file = |name: &str| folder.path(name).to_str().expect("UTF-8").to_owned();
    let (key, crt, empty) = (file("client.key"), file("client.crt"), folder.write("empty", "\n").display().to_string());
    for (arguments, code, why) in [
        (&["--ca-file", "/no/such"][..], 65, "--ca-file /no/such can't be read: entity not found"),
        (&["--ca-file", &key], 65, "has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----"),
        (&["--cert-file", &crt, "--key-file", &crt], 65, "has no key in PEM without a password"),
        (&["--user", "ann", "--password-file", &empty], 65, "is empty; it must hold the password"),
        (&["--user", "a:b", "--password-file", &key], 65, "has a colon"),
        (&["--user", "ann"], 2, "--password-file"),
        (&["--cert-file", &crt], 2, "--key-file"),
    ] {
        let output = top("https://127.0.0.1:9", arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(top("https://ann:secret@127.0.0.1:9", &[]).status.code(), Some(2));
}

#[test]
fn a_bad_web_config_is_a_configuration_error_for_check_and_run() {
    let folder = Folder::new();
    let bad = folder.write("bad.yml", "tls_server_config:\n  cert_file: server.crt\n  key_fil: server.key\n");
    for command in ["check", "run"] {
        let output = run(&[command, "--set", &format!("admin.web_config={}", bad.display())]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{command}: {said}");
        assert!(said.contains("unknown key `tls_server_config.key_fil`"), "{command}: {said}");
    }
    let good = folder.with_tls("");
    let output = run(&["check", "--show-config", "--set", &format!("admin.web_config={}", good.display())]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(&format!("web_config = \"{}\"", good.display())));
}
