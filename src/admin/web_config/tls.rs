//! From `tls_server_config` to what the handshake needs. Names are Go's, what can't be done is refused by name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use super::client_auth::{self, ClientAuth};
use super::content::{Tls, quoted};
use super::files::Files;
use super::report::{Report, Text};

/// What the server speaks; a client that wants to choose is told so.
const ALPN: &[u8] = b"http/1.1";

/// Go's names of the curves.
const CURVES: [(&str, &dyn SupportedKxGroup); 3] = [
    ("X25519", ring::kx_group::X25519),
    ("CurveP256", ring::kx_group::SECP256R1),
    ("CurveP384", ring::kx_group::SECP384R1),
];

/// Builds the handshake's settings; `None` where something is wrong, which is reported.
pub(super) fn server_config(
    tls: &Tls,
    folder: &Path,
    files: &mut Files,
    report: &mut Report<'_>,
) -> Option<Arc<ServerConfig>> {
    let versions = versions(tls, report);
    let provider = Arc::new(CryptoProvider {
        cipher_suites: cipher_suites(tls, report),
        kx_groups: curves(tls, report),
        ..ring::default_provider()
    });
    let mut source = Source { folder, files };
    let certificates = source.certificates("cert", tls.cert.as_ref(), tls.cert_file.as_ref(), tls.line, report);
    let key = source.key(tls, report);
    let client_auth = client_auth(tls, &mut source, &provider, report);
    // Everything wrong is told at once.
    let (certificates, key, client_auth) = (certificates?, key?, client_auth?);
    if !report.is_empty() {
        return None;
    }
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions);
    let builder = builder.map_err(|error| report.key("tls_server_config", tls.line, &format!("can't work: {error}")));
    let builder = match client_auth {
        Some(verifier) => builder.ok()?.with_client_cert_verifier(verifier),
        None => builder.ok()?.with_no_client_auth(),
    };
    match builder.with_single_cert(certificates, key) {
        Ok(mut config) => {
            config.alpn_protocols = vec![ALPN.to_vec()];
            config.ignore_client_order = tls.prefer_server_cipher_suites.unwrap_or(true);
            Some(Arc::new(config))
        }
        Err(rustls::Error::InconsistentKeys(_)) => {
            let remedy = "has a key that is not its certificate's; give it the two that belong together";
            report.key("tls_server_config", tls.line, remedy);
            None
        }
        Err(error) => {
            let remedy = format!("has a certificate or key that can't be used: {error}");
            report.key("tls_server_config", tls.line, &remedy);
            None
        }
    }
}

fn versions(tls: &Tls, report: &mut Report<'_>) -> Vec<&'static SupportedProtocolVersion> {
    let mut version = |text: &Option<Text>, default: u8| match text.as_ref().map(|text| (text, text.value.as_str())) {
        None => default,
        Some((_, "TLS12")) => 12,
        Some((_, "TLS13")) => 13,
        Some((text, "TLS10" | "TLS11")) => {
            report.value(text, r#"is not spoken, for it is broken; give it "TLS12" or "TLS13""#);
            default
        }
        Some((text, _)) => {
            report.value(text, r#"must be "TLS12" or "TLS13""#);
            default
        }
    };
    let (min, max) = (version(&tls.min_version, 12), version(&tls.max_version, 13));
    if let (Some(text), true) = (&tls.min_version, min > max) {
        report.value(text, "is above max_version; give max_version the same or a later one");
    }
    [(12, &TLS12), (13, &TLS13)]
        .into_iter()
        .filter(|(n, _)| (min..=max).contains(n))
        .map(|(_, version)| version)
        .collect()
}

/// Go's name of a suite.
fn suite_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

/// The suites of TLS 1.2 that are named, in that order; those of TLS 1.3 can't be chosen, as in Go.
fn cipher_suites(tls: &Tls, report: &mut Report<'_>) -> Vec<SupportedCipherSuite> {
    if tls.cipher_suites.is_empty() {
        return ring::DEFAULT_CIPHER_SUITES.to_vec();
    }
    let is_13 = |suite: &&SupportedCipherSuite| suite.tls13().is_some();
    let mut suites: Vec<_> = ring::ALL_CIPHER_SUITES.iter().filter(is_13).copied().collect();
    for text in &tls.cipher_suites {
        match ring::ALL_CIPHER_SUITES.iter().find(|suite| suite_name(suite) == text.value) {
            Some(suite) if suites.contains(suite) => {}
            Some(suite) => suites.push(*suite),
            None => {
                let names: Vec<String> = ring::ALL_CIPHER_SUITES.iter().map(suite_name).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                report.value(text, &format!("is not offered; remove it, or name {}", quoted(&names)));
            }
        }
    }
    suites
}

fn curves(tls: &Tls, report: &mut Report<'_>) -> Vec<&'static dyn SupportedKxGroup> {
    if tls.curve_preferences.is_empty() {
        return ring::default_provider().kx_groups;
    }
    let mut curves = Vec::new();
    for text in &tls.curve_preferences {
        match CURVES.iter().find(|(name, _)| *name == text.value) {
            Some((_, curve)) => curves.push(*curve),
            None => {
                let names = quoted(&CURVES.map(|(name, _)| name));
                report.value(text, &format!("is not offered; remove it, or name {names}"));
            }
        }
    }
    curves
}

type Verifier = Option<Arc<dyn rustls::server::danger::ClientCertVerifier>>;

fn client_auth(
    tls: &Tls,
    source: &mut Source<'_>,
    provider: &Arc<CryptoProvider>,
    report: &mut Report<'_>,
) -> Option<Verifier> {
    let policy = match &tls.client_auth_type {
        None => ClientAuth::default(),
        Some(text) => ClientAuth::of(&text.value).or_else(|| {
            report.value(text, &format!("must be {}", quoted(&ClientAuth::NAMES)));
            None
        })?,
    };
    let line = tls.client_auth_type.as_ref().map_or(tls.line, |text| text.line);
    let ca = tls.client_ca_file.as_ref().or(tls.client_ca.as_ref());
    let mut roots = RootCertStore::empty();
    match ca {
        Some(ca) if policy == ClientAuth::NoClientCert => {
            let remedy = "has no use without a client_auth_type; set that to \"RequireAndVerifyClientCert\"";
            report.secret(ca, remedy);
        }
        Some(ca) => {
            let found =
                source.certificates("client_ca", tls.client_ca.as_ref(), tls.client_ca_file.as_ref(), line, report);
            for certificate in found? {
                if let Err(error) = roots.add(certificate) {
                    report.secret(ca, &format!("has a certificate that can't be used: {error}"));
                }
            }
        }
        None if policy.verifies() => {
            let remedy = "verifies clients and has no CA to do so; give it client_ca_file";
            report.key("tls_server_config.client_auth_type", line, remedy);
        }
        None => {}
    }
    let sans = tls.client_allowed_sans.as_ref();
    if sans.is_some() && !policy.is_mandatory() {
        let remedy = "needs a client_auth_type that asks every client for a certificate; set that to \
                      \"RequireAndVerifyClientCert\"";
        report.key("tls_server_config.client_allowed_sans", line, remedy);
    }
    for text in sans.into_iter().flatten().filter(|text| text.value.contains('@') && !text.value.contains(':')) {
        report.value(text, "is an e-mail address, which is not matched; name a DNS name, an IP address or a URI");
    }
    let sans = sans.map(|sans| sans.iter().map(|text| text.value.clone()).collect());
    if !report.is_empty() {
        return None;
    }
    let verifier = client_auth::verifier(policy, roots, sans, provider);
    verifier.map_err(|error| report.key("tls_server_config.client_ca", line, &format!("can't be used: {error}"))).ok()
}

/// Where certificates and keys are read from: the file itself, or others that it names.
struct Source<'s> {
    folder: &'s Path,
    files: &'s mut Files,
}

impl Source<'_> {
    /// The bytes of a file or of the value itself, with the place that problems name; a file goes first, as in the exporters.
    fn read(&mut self, inline: Option<&Text>, file: Option<&Text>, report: &mut Report<'_>) -> Option<(Text, Vec<u8>)> {
        let Some(named) = file else { return inline.map(|text| (text.clone(), text.value.clone().into_bytes())) };
        let path: PathBuf = self.folder.join(&named.value);
        match self.files.read(&path) {
            Ok(bytes) => Some((Text { value: path.display().to_string(), ..named.clone() }, bytes)),
            Err(error) => {
                report.unreadable(named, &path, &error);
                None
            }
        }
    }

    fn certificates(
        &mut self,
        key: &str,
        inline: Option<&Text>,
        file: Option<&Text>,
        line: usize,
        report: &mut Report<'_>,
    ) -> Option<Vec<CertificateDer<'static>>> {
        if inline.is_none() && file.is_none() {
            report.key("tls_server_config", line, &format!("has no certificate; give it {key}_file"));
            return None;
        }
        let (text, bytes) = self.read(inline, file, report)?;
        let certificates: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
        match certificates {
            Ok(certificates) if !certificates.is_empty() => Some(certificates),
            Ok(_) => {
                no_pem(&text, file.is_some(), "a certificate", "CERTIFICATE", report);
                None
            }
            Err(error) => {
                report.secret(&text, &format!("can't be read as PEM: {error}"));
                None
            }
        }
    }

    fn key(&mut self, tls: &Tls, report: &mut Report<'_>) -> Option<PrivateKeyDer<'static>> {
        let (inline, file) = (tls.key.as_ref(), tls.key_file.as_ref());
        if inline.is_none() && file.is_none() {
            report.key("tls_server_config", tls.line, "has no key; give it key_file");
            return None;
        }
        let (text, bytes) = self.read(inline, file, report)?;
        match PrivateKeyDer::from_pem_slice(&bytes) {
            Ok(key) => Some(key),
            Err(pem::Error::NoItemsFound) => {
                no_pem(&text, file.is_some(), "a key without a password", "PRIVATE KEY", report);
                None
            }
            // The error may hold a part of the key.
            Err(_) => {
                report.secret(&text, "can't be read as PEM");
                None
            }
        }
    }
}

fn no_pem(text: &Text, is_file: bool, what: &str, label: &str, report: &mut Report<'_>) {
    let remedy = format!("must be {what} in PEM, which begins with -----BEGIN {label}-----");
    if is_file { report.value(text, &remedy) } else { report.secret(text, &remedy) }
}
