//! Which certificate a client has to show: Go's five policies, and the names that are let in.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore, SignatureScheme,
};
use thiserror::Error;
use webpki::EndEntityCert;

/// `client_auth_type` by Go's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum ClientAuth {
    #[default]
    NoClientCert,
    /// Asked for, and not looked at.
    RequestClientCert,
    /// One must be shown; by whom it is signed does not matter.
    RequireAnyClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

impl ClientAuth {
    pub const NAMES: [&str; 5] = [
        "NoClientCert",
        "RequestClientCert",
        "RequireAnyClientCert",
        "VerifyClientCertIfGiven",
        "RequireAndVerifyClientCert",
    ];

    pub fn of(name: &str) -> Option<Self> {
        match name {
            "NoClientCert" => Some(Self::NoClientCert),
            "RequestClientCert" => Some(Self::RequestClientCert),
            // The second is the exporters' own older name.
            "RequireAnyClientCert" | "RequireClientCert" => Some(Self::RequireAnyClientCert),
            "VerifyClientCertIfGiven" => Some(Self::VerifyClientCertIfGiven),
            "RequireAndVerifyClientCert" => Some(Self::RequireAndVerifyClientCert),
            _ => None,
        }
    }

    /// Whether a client without a certificate is refused.
    pub fn is_mandatory(self) -> bool {
        matches!(self, Self::RequireAnyClientCert | Self::RequireAndVerifyClientCert)
    }

    /// Whether a certificate has to be signed by one of the CAs.
    pub fn verifies(self) -> bool {
        matches!(self, Self::VerifyClientCertIfGiven | Self::RequireAndVerifyClientCert)
    }
}

/// The policy as rustls asks for it. `None` asks for no certificate.
///
/// # Errors
/// When the CAs are of no use.
pub(super) fn verifier(
    policy: ClientAuth,
    roots: RootCertStore,
    allowed_sans: Option<Vec<String>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    if policy == ClientAuth::NoClientCert {
        return Ok(None);
    }
    let chain = if policy.verifies() {
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let builder = if policy.is_mandatory() { builder } else { builder.allow_unauthenticated() };
        Some(builder.build().map_err(|error| error.to_string())?)
    } else {
        None
    };
    Ok(Some(Arc::new(Verifier { policy, chain, allowed_sans, provider: Arc::clone(provider) })))
}

/// A client whose certificate has none of the names that are let in.
#[derive(Debug, Error)]
#[error("the client's certificate has none of client_allowed_sans")]
struct NotAllowed;

#[derive(Debug)]
struct Verifier {
    policy: ClientAuth,
    /// Verifies by whom the certificate is signed, where that matters.
    chain: Option<Arc<dyn ClientCertVerifier>>,
    allowed_sans: Option<Vec<String>>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        self.policy.is_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.as_ref().map_or(&[], |chain| chain.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Some(chain) = &self.chain {
            chain.verify_client_cert(end_entity, intermediates, now)?;
        }
        match &self.allowed_sans {
            Some(allowed) if !has_one_of(end_entity, allowed)? => {
                let refusal = CertificateError::Other(OtherError(Arc::new(NotAllowed)));
                Err(Error::InvalidCertificate(refusal))
            }
            _ => Ok(ClientCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether the certificate has one of these DNS names, addresses or URIs, letter by letter.
fn has_one_of(end_entity: &CertificateDer<'_>, allowed: &[String]) -> Result<bool, Error> {
    let cert =
        EndEntityCert::try_from(end_entity).map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    Ok(allowed.iter().any(|allowed| {
        let has_address = allowed
            .parse::<IpAddr>()
            .is_ok_and(|address| cert.verify_is_valid_for_subject_name(&ServerName::IpAddress(address.into())).is_ok());
        has_address
            || cert.valid_dns_names().any(|name| name == allowed)
            || cert.valid_uri_names().any(|name| name == allowed)
    }))
}
