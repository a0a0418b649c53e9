//! The server with a web config, over loopback: a real client's handshakes, logins, crowds, and files that change.

mod client_auth;
mod crowd;
mod handshake;
mod login;
mod reload;

use std::fs;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::guard::Guard;
use super::limits::Limits;
use super::web_config::WebConfig;
use super::{bind, routes, serve};

/// So long that nothing in these tests ends by it.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// A web config's folder: `web.yml`, `ca.crt`, `other-ca.crt`, and certificates with their keys.
struct Folder {
    folder: TempDir,
    ca: Issuer<'static, KeyPair>,
    other: Issuer<'static, KeyPair>,
}

impl Folder {
    /// With a certificate of the server, `server.crt`.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [ca, other] = ["ca", "other-ca"].map(|name| {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(DnType::CommonName, name);
            let key = KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            fs::write(folder.path().join(format!("{name}.crt")), pem).unwrap();
            Issuer::new(params, key)
        });
        let folder = Self { folder, ca, other };
        folder.issue("server", &folder.ca, &["127.0.0.1"], false);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Puts a file in the place of another at once.
    fn replace(&self, name: &str, text: &str) {
        let new = self.path("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    /// Writes `NAME.crt` and `NAME.key`.
    fn issue(&self, name: &str, by: &Issuer<'static, KeyPair>, sans: &[&str], expired: bool) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = sans
            .iter()
            .map(|san| match san.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) if san.contains("://") => SanType::URI((*san).try_into().unwrap()),
                Err(_) => SanType::DnsName((*san).try_into().unwrap()),
            })
            .collect();
        if expired {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        self.replace(&format!("{name}.crt"), &params.signed_by(&key, by).unwrap().pem());
        self.replace(&format!("{name}.key"), &key.serialize_pem());
    }

    /// Writes `web.yml` with the server's certificate and more of its section.
    fn with_tls(&self, more: &str) {
        self.replace(
            "web.yml",
            &format!("tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n{more}"),
        );
    }

    fn load(&self) -> WebConfig {
        WebConfig::load(&self.path("web.yml")).unwrap_or_else(|error| panic!("{error}"))
    }

    async fn serving(&self, limits: Limits) -> (SocketAddr, Arc<WebConfig>) {
        let web_config = Arc::new(self.load());
        (serving(limits, Some(Arc::clone(&web_config))).await, web_config)
    }

    /// A client that trusts `ca.crt` and shows `NAME.crt`.
    fn client(&self, certificate: Option<&str>, versions: &[&'static SupportedProtocolVersion]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.crt")).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
        let config = match certificate {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let chain = vec![CertificateDer::from_pem_file(self.path(&format!("{name}.crt"))).unwrap()];
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        TlsConnector::from(Arc::new(config))
    }
}

async fn serving(limits: Limits, web_config: Option<Arc<WebConfig>>) -> SocketAddr {
    let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = routes::tests::state();
    let guard = Guard::new(web_config, Arc::clone(&state.clock));
    tokio::spawn(serve::serve_within(limits, listener, routes::router(state), guard, pending()));
    address
}

async fn handshake(address: SocketAddr, client: &TlsConnector) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    client.connect(ServerName::IpAddress(address.ip().into()), stream).await
}

/// What comes back for a GET with these further header lines.
async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, headers: &str) -> io::Result<String> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// `/livez` over TLS.
async fn ask(address: SocketAddr, client: &TlsConnector) -> io::Result<String> {
    get(handshake(address, client).await?, "/livez", "").await
}

fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// `basic_auth_users` of these names with their passwords, at the least cost.
fn users(of: &[(&str, &str)]) -> String {
    let lines = of.iter().map(|(user, password)| format!("  {user}: {}\n", bcrypt::hash(password, 4).unwrap()));
    format!("basic_auth_users:\n{}", lines.collect::<String>())
}

fn is_alive(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nalive\n")
}
