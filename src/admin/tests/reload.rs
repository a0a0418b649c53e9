//! Files that change while the server runs. Time is virtual: the looks at them come at once.

use rustls::ALL_VERSIONS;
use tokio::time::sleep;

use super::*;

/// More than two looks.
const LOOKS: Duration = Duration::from_secs(3);

/// The server's certificate, as a client sees it.
async fn certificate(address: SocketAddr, folder: &Folder) -> CertificateDer<'static> {
    let stream = handshake(address, &folder.client(None, ALL_VERSIONS)).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

async fn status(address: SocketAddr, folder: &Folder, user: &str) -> String {
    let stream = handshake(address, &folder.client(None, ALL_VERSIONS)).await.unwrap();
    get(stream, "/livez", &basic(user, user)).await.unwrap()[9..12].to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_renewed_certificate_is_shown_to_new_connections() {
    let folder = Folder::new();
    folder.with_tls("");
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    let first = certificate(address, &folder).await;
    assert_eq!(first, CertificateDer::from_pem_file(folder.path("server.crt")).unwrap());
    folder.issue("server", &folder.ca, &["127.0.0.1"], false);
    sleep(LOOKS).await;
    let second = certificate(address, &folder).await;
    assert_eq!(second, CertificateDer::from_pem_file(folder.path("server.crt")).unwrap());
    assert_ne!(first, second);
}

#[tokio::test(start_paused = true)]
async fn users_and_cas_that_change_are_in_force() {
    let folder = Folder::new();
    folder.with_tls(&users(&[("ann", "ann"), ("bob", "bob")]));
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    assert_eq!([status(address, &folder, "ann").await, status(address, &folder, "bob").await], ["200", "200"]);
    folder.with_tls(&users(&[("ann", "another"), ("eve", "eve")]));
    sleep(LOOKS).await;
    for (user, expected) in [("ann", "401"), ("bob", "401"), ("eve", "200")] {
        assert_eq!(status(address, &folder, user).await, expected, "{user}");
    }
    folder.issue("client", &folder.ca, &[], false);
    folder.replace("clients-ca.crt", &folder.text("other-ca.crt"));
    folder.with_tls("  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: clients-ca.crt\n");
    sleep(LOOKS).await;
    let client = folder.client(Some("client"), ALL_VERSIONS);
    assert!(ask(address, &client).await.is_err());
    folder.replace("clients-ca.crt", &folder.text("ca.crt"));
    sleep(LOOKS).await;
    assert!(is_alive(&ask(address, &client).await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn what_became_bad_leaves_in_force_what_was() {
    let folder = Folder::new();
    let good = users(&[("ann", "ann")]);
    folder.with_tls(&good);
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    let certificate_before = certificate(address, &folder).await;
    let key = folder.text("server.key");
    let spoil: [&dyn Fn(); 6] = [
        &|| folder.replace("web.yml", ""),
        &|| folder.replace("web.yml", "tls_server_config: ["),
        &|| folder.with_tls("basic_auth_users:\n  ann: secret\n"),
        &|| fs::remove_file(folder.path("web.yml")).unwrap(),
        &|| folder.replace("server.key", ""),
        &|| folder.replace("server.key", &KeyPair::generate().unwrap().serialize_pem()),
    ];
    for (n, spoil) in spoil.into_iter().enumerate() {
        spoil();
        sleep(LOOKS).await;
        assert_eq!(certificate(address, &folder).await, certificate_before, "{n}");
        assert_eq!(status(address, &folder, "ann").await, "200", "{n}");
        assert_eq!(status(address, &folder, "eve").await, "401", "{n}");
        folder.with_tls(&good);
        folder.replace("server.key", &key);
        sleep(LOOKS).await;
    }
    folder.with_tls(&users(&[("eve", "eve")]));
    sleep(LOOKS).await;
    assert_eq!(status(address, &folder, "eve").await, "200", "it is mended");
}
