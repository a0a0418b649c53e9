//! Which client certificates each policy lets in.

use rustls::ALL_VERSIONS;
use rustls::version::{TLS12, TLS13};

use super::*;

/// `None`: let in. Else what the alert says.
type Expected = Option<&'static str>;

async fn shown(folder: &Folder, config: &str, certificate: Option<&str>, expected: Expected) {
    folder.with_tls(config);
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    for version in ALL_VERSIONS {
        let answer = ask(address, &folder.client(certificate, &[version])).await;
        let case = format!("{config} {certificate:?} {version:?}: {answer:?}");
        match expected {
            None => assert!(is_alive(answer.as_deref().unwrap_or_default()), "{case}"),
            Some(alert) => assert!(answer.is_err_and(|error| error.to_string().contains(alert)), "{case}"),
        }
    }
}

#[tokio::test]
async fn each_policy_lets_in_whom_it_does_in_go() {
    const NONE: Expected = Some("CertificateRequired");
    const EXPIRED: Expected = Some("CertificateExpired");
    const STRANGER: Expected = Some("UnknownCA");
    let folder = Folder::new();
    folder.issue("good", &folder.ca, &["probe.example"], false);
    folder.issue("expired", &folder.ca, &["probe.example"], true);
    folder.issue("stranger", &folder.other, &["probe.example"], false);
    let ca = "\n  client_ca_file: ca.crt";
    // For no certificate, a good one, an expired one, and one of another CA.
    for (policy, ca, expected) in [
        ("NoClientCert", "", [None, None, None, None]),
        ("RequestClientCert", ca, [None, None, None, None]),
        ("RequireAnyClientCert", ca, [NONE, None, None, None]),
        ("RequireClientCert", "", [NONE, None, None, None]),
        ("VerifyClientCertIfGiven", ca, [None, None, EXPIRED, STRANGER]),
        ("RequireAndVerifyClientCert", ca, [NONE, None, EXPIRED, STRANGER]),
    ] {
        let config = format!("  client_auth_type: {policy}{ca}\n");
        for (certificate, expected) in [None, Some("good"), Some("expired"), Some("stranger")].into_iter().zip(expected)
        {
            shown(&folder, &config, certificate, expected).await;
        }
    }
}

#[tokio::test]
async fn a_name_that_is_not_allowed_is_refused() {
    let folder = Folder::new();
    let certificates: [(&str, &[&str], bool); 6] = [
        ("by-name", &["other.example", "probe.example"], true),
        ("by-address", &["10.0.0.7"], true),
        ("by-uri", &["spiffe://example/probe"], true),
        ("by-wildcard", &["*.example"], false),
        ("below", &["a.probe.example"], false),
        ("nameless", &[], false),
    ];
    for policy in ["RequireAndVerifyClientCert", "RequireAnyClientCert"] {
        let config = format!(
            "  client_auth_type: {policy}\n  client_ca_file: ca.crt\n  \
             client_allowed_sans: [probe.example, 10.0.0.7, 'spiffe://example/probe']\n"
        );
        for (certificate, sans, allowed) in certificates {
            folder.issue(certificate, &folder.ca, sans, false);
            let expected = if allowed { None } else { Some("CertificateUnknown") };
            shown(&folder, &config, Some(certificate), expected).await;
        }
        shown(&folder, &config, None, Some("CertificateRequired")).await;
    }
}

#[tokio::test]
async fn inline_certificates_do_as_those_in_files() {
    let folder = Folder::new();
    folder.issue("good", &folder.ca, &[], false);
    folder.issue("stranger", &folder.other, &[], false);
    let block = |file: &str| folder.text(file).lines().map(|line| format!("    {line}\n")).collect::<String>();
    let [cert, key, ca] = ["server.crt", "server.key", "ca.crt"].map(block);
    let text = format!(
        "tls_server_config:\n  cert: |\n{cert}  key: |\n{key}  client_ca: |\n{ca}  client_auth_type: RequireAndVerifyClientCert\n"
    );
    folder.replace("web.yml", &text);
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    for version in [&TLS12, &TLS13] {
        assert!(is_alive(&ask(address, &folder.client(Some("good"), &[version])).await.unwrap()));
        assert!(ask(address, &folder.client(Some("stranger"), &[version])).await.is_err());
    }
}
