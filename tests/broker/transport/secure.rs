//! A broker with a listener of every kind, the certificates and the users it knows.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;

use crate::cluster::{self, Cluster};

/// The user that may do everything, by whatever means it shows who it is.
pub const USER: &str = "collector";
pub const PASSWORD: &str = "a-password-nobody-may-see";
/// One that may do everything too, once it has a password.
pub const LATECOMER: &str = "latecomer";

/// Another such, whose password changes.
pub const LATER: &str = "later";

/// Where every listener is but the harness's own.
const HOST: &str = "127.0.0.3";
const LISTENERS: [Listener; 7] = [Plaintext, Tls, MutualTls, Sasl, Expired, Misnamed, Rotated];

/// A listener of the broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listener {
    /// The harness's own.
    Plaintext,
    Tls,
    /// Asks clients for a certificate.
    MutualTls,
    /// SCRAM-SHA-512, PLAIN or OAUTHBEARER over TLS.
    Sasl,
    /// With a certificate that has expired.
    Expired,
    /// With a certificate of another host.
    Misnamed,
    /// As `MutualTls`, and its files change.
    Rotated,
}

use Listener::{Expired, Misnamed, MutualTls, Plaintext, Rotated, Sasl, Tls};

/// The broker, and the files that a client of it needs.
pub struct Secure {
    pub cluster: Cluster,
    files: TempDir,
}

impl Listener {
    /// Address and port, which are all different: Kafka wants ports of their own even on other addresses.
    fn address(self, port: u16) -> String {
        // The port after the first is the controller's.
        let after = |n| format!("{HOST}:{}", port + 1 + n);
        match self {
            Plaintext => format!("127.0.0.1:{port}"),
            Tls => after(1),
            MutualTls => after(2),
            Sasl => after(3),
            Expired => after(4),
            Misnamed => after(5),
            Rotated => after(6),
        }
    }

    fn name(self) -> String {
        format!("{self:?}").to_uppercase()
    }
}

/// The broker of the tests of this module. The first one to ask starts it.
pub fn broker() -> &'static Secure {
    static BROKER: OnceLock<Secure> = OnceLock::new();
    BROKER.get_or_init(Secure::start)
}

impl Secure {
    fn start() -> Self {
        let files = TempDir::with_prefix_in("transport-", env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let path = |name: &str| files.path().join(name);
        let ca = Authority::new("the test's CA");
        let write = |name: &str, text: &str| fs::write(path(name), text).expect("a file can be written");
        write("ca.pem", &ca.pem);
        let another = Authority::new("another CA");
        write("another-ca.pem", &another.pem);
        let here = SanType::IpAddress(HOST.parse().expect("an address"));
        let elsewhere = SanType::DnsName("broker.elsewhere.test".try_into().expect("a name"));
        for (signer, name, common_name, host, expired) in [
            (&ca, "broker", "broker", Some(&here), false),
            (&ca, "expired", "broker", Some(&here), true),
            (&ca, "misnamed", "broker", Some(&elsewhere), false),
            (&ca, "client", USER, None, false),
            (&another, "next-broker", "broker", Some(&here), false),
            (&another, "next-client", USER, None, false),
        ] {
            let (key, certificate) = signer.certificate(common_name, host, expired);
            write(&format!("{name}.key"), &key);
            write(&format!("{name}.crt"), &certificate);
            write(&format!("{name}.pem"), &(key + &certificate));
        }
        write("password", &format!("{PASSWORD}\n"));
        write("wrong-password", "not-the-password\n");
        let port = cluster::free_ports(u16::try_from(LISTENERS.len()).expect("a few"));
        let extra = path("broker.properties");
        write("broker.properties", &properties(port, &|name| path(name)));
        let secure = Self { cluster: Cluster::with_properties(port, 1, &extra), files };
        secure.set_scram_password(USER, PASSWORD);
        secure
    }

    /// Where a client finds a listener.
    pub fn address(&self, listener: Listener) -> String {
        listener.address(self.cluster.port)
    }

    /// One of the files a client needs.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Gives the listener `Rotated` a certificate of another CA, whose clients it then trusts.
    pub fn rotate(&self) {
        let at =
            |what: &str, name: &str| format!("listener.name.rotated.ssl.{what}.location={}", self.file(name).display());
        let files = [at("keystore", "next-broker.pem"), at("truststore", "another-ca.pem")].join(",");
        let server = ["--bootstrap-server", &self.cluster.bootstrap, "--alter", "--entity-type", "brokers"];
        let what = ["--entity-name", "1", "--add-config", &files];
        cluster::tool("kafka.admin.ConfigCommand", &[&server[..], &what].concat());
    }

    pub fn set_scram_password(&self, user: &str, password: &str) {
        let scram = format!("SCRAM-SHA-512=[iterations=4096,password={password}]");
        let server = ["--bootstrap-server", &self.cluster.bootstrap, "--alter", "--entity-type", "users"];
        let whom = ["--entity-name", user, "--add-config", &scram];
        cluster::tool("kafka.admin.ConfigCommand", &[&server[..], &whom].concat());
    }
}

fn properties(port: u16, path: &dyn Fn(&str) -> PathBuf) -> String {
    let at = |listener: Listener| format!("{}://{}", listener.name(), listener.address(port));
    let advertised = LISTENERS.map(at).join(",");
    let protocols = LISTENERS.map(|listener| {
        let protocol = match listener {
            Plaintext => "PLAINTEXT",
            Sasl => "SASL_SSL",
            _ => "SSL",
        };
        format!("{}:{protocol}", listener.name())
    });
    let keystores = [Tls, MutualTls, Sasl, Expired, Misnamed, Rotated].map(|listener| {
        let file = match listener {
            Expired => "expired.pem",
            Misnamed => "misnamed.pem",
            _ => "broker.pem",
        };
        let prefix = format!("listener.name.{}", listener.name().to_lowercase());
        format!("{prefix}.ssl.keystore.type=PEM\n{prefix}.ssl.keystore.location={}", path(file).display())
    });
    let mutual = [MutualTls, Rotated].map(|listener| {
        let prefix = format!("listener.name.{}.ssl", listener.name().to_lowercase());
        let ca = path("ca.pem").display().to_string();
        format!(
            "{prefix}.client.auth=required\n{prefix}.truststore.type=PEM\n{prefix}.truststore.location={ca}\n\
             {prefix}.principal.mapping.rules=RULE:^CN=(.*)$/$1/"
        )
    });
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule";
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule";
    let oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";
    format!(
        r#"
listeners={advertised},CONTROLLER://127.0.0.2:{controller}
advertised.listeners={advertised}
listener.security.protocol.map={protocols},CONTROLLER:PLAINTEXT
{keystores}
{mutual}
listener.name.sasl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl.plain.sasl.jaas.config={plain} required user_{USER}="{PASSWORD}"{users};
listener.name.sasl.scram-sha-512.sasl.jaas.config={scram} required;
listener.name.sasl.oauthbearer.sasl.jaas.config={oauth} required;
listener.name.sasl.oauthbearer.connections.max.reauth.ms=5000
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{USER};User:{LATECOMER};User:{LATER}
"#,
        controller = port + 1,
        protocols = protocols.join(","),
        keystores = keystores.join("\n"),
        mutual = mutual.join("\n"),
        users = (0..20).map(|n| format!(r#" user_u{n}="{PASSWORD}""#)).collect::<String>(),
    )
}

/// Somebody who signs certificates.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.remove(DnType::CommonName);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A key and a certificate as PEM.
    fn certificate(&self, common_name: &str, host: Option<&SanType>, expired: bool) -> (String, String) {
        let mut params = CertificateParams::default();
        params.distinguished_name.remove(DnType::CommonName);
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.subject_alt_names = host.cloned().into_iter().collect();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        if expired {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (key.serialize_pem(), certificate.pem())
    }
}
