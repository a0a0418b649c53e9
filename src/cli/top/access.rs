//! How one gets in where the service has a web config: whom to trust, who one is.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ureq::http::HeaderValue;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// Of a service with TLS or a login (its admin.web_config).
#[derive(Debug, Default, clap::Args)]
// `top` has a group of this name already.
#[group(skip)]
pub struct Args {
    /// CA certificates (PEM) to trust for https:// [default: the system's]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// User to log in as
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// File with the user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Client certificate (PEM), where the service asks for one
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
}

/// What the arguments and their files come to.
#[derive(Clone)]
pub struct Access {
    pub tls: TlsConfig,
    pub authorization: Option<HeaderValue>,
    pub has_certificate: bool,
}

impl Args {
    /// Reads the files.
    ///
    /// # Errors
    /// When one can't be read as what it should be.
    pub fn read(&self) -> anyhow::Result<Access> {
        let roots = match &self.ca_file {
            Some(path) => RootCerts::Specific(Arc::new(certificates("--ca-file", path)?)),
            None => RootCerts::PlatformVerifier,
        };
        let client = match (&self.cert_file, &self.key_file) {
            (Some(cert), Some(key)) => {
                Some(ClientCert::new_with_certs(&certificates("--cert-file", cert)?, private_key(key)?))
            }
            _ => None,
        };
        let authorization = match (&self.user, &self.password_file) {
            (Some(user), Some(path)) => Some(basic(user, path)?),
            _ => None,
        };
        let has_certificate = client.is_some();
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(roots)
            .client_cert(client);
        Ok(Access { tls: tls.build(), authorization, has_certificate })
    }
}

fn basic(user: &str, path: &Path) -> anyhow::Result<HeaderValue> {
    if user.contains(':') {
        bail!("--user {user:?} has a colon, which no login can have");
    }
    let bytes = read("--password-file", path)?;
    let password = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let password = password.strip_suffix(b"\r").unwrap_or(password);
    if password.is_empty() {
        bail!("--password-file {} is empty; it must hold the password", path.display());
    }
    let encoded = BASE64_STANDARD.encode([user.as_bytes(), b":", password].concat());
    let mut value = HeaderValue::from_str(&format!("Basic {encoded}")).context("the login is no header's value")?;
    value.set_sensitive(true);
    Ok(value)
}

fn certificates(flag: &str, path: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let bytes = read(flag, path)?;
    let certificates: Vec<_> = parse_pem(&bytes)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        bail!("{flag} {} has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----", path.display());
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> anyhow::Result<PrivateKey<'static>> {
    // The error may hold a part of the key.
    PrivateKey::from_pem(&read("--key-file", path)?).map_err(|_| {
        anyhow!(
            "--key-file {} has no key in PEM without a password, which begins with -----BEGIN PRIVATE KEY-----",
            path.display()
        )
    })
}

fn read(flag: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).map_err(|error| anyhow!("{flag} {} can't be read: {}", path.display(), error.kind()))
}
