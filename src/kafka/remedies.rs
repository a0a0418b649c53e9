//! What to do about what a broker refuses, by what librdkafka says of it.

/// What librdkafka's texts contain, and what a person can do. The first that fits counts.
const REMEDIES: [(&[&str], &str); 9] = [
    // It does not tell which of the three.
    (
        &["certificate verify failed"],
        "the broker's certificate is of another CA than that in ssl.ca.location, or has expired, or is of another host \
         name; `openssl s_client -connect HOST:PORT -CAfile CA -verify_hostname HOST` tells which",
    ),
    (
        &["alert bad certificate", "alert certificate", "alert unknown ca", "alert handshake failure"],
        "the broker asks for a client certificate that it trusts: set ssl.certificate.location and ssl.key.location",
    ),
    (
        &["unsupported mechanism", "Unsupported SASL mechanism", "not enabled in the server"],
        "set sasl.mechanism to one that the broker offers",
    ),
    (
        &["OAUTHBEARER authentication failed", "error: {\"status\":"],
        "the broker refuses the token in kafka.oauth_token_file: put one there that is of an issuer and for an audience \
         that the broker knows, and has not expired",
    ),
    (
        &["SASL authentication error", "Authentication failed"],
        "the broker knows no such user with this secret and sasl.mechanism: mend sasl.username and sasl.password",
    ),
    (
        &["connecting to a PLAINTEXT broker listener", "in state SSL_HANDSHAKE)"],
        "what listens there speaks no TLS: name the broker's TLS listener in kafka.bootstrap_servers",
    ),
    (
        &["incorrect security.protocol", "receive 0 after POLLIN"],
        "the broker closes the connection at once, as one does that wants TLS: set security.protocol to \"ssl\" or \
         \"sasl_ssl\"",
    ),
    (&["to transaction: Broker: Topic authorization failed"], "the principal needs Write on this topic"),
    (
        &["Consumer group session timed out"],
        "the group's coordinator was out of reach for session.timeout.ms, so the group takes this member for gone; it joins \
         again by itself, and what was not committed is read again",
    ),
];

/// What librdkafka says, and the remedy where it is known.
pub(super) fn explained(reason: &str) -> String {
    let known = REMEDIES.iter().find(|(texts, _)| texts.iter().any(|text| reason.contains(text)));
    match known {
        Some((_, remedy)) => format!("{}: {remedy}", reason.split(" (after ").next().unwrap_or(reason)),
        None => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_reason_gets_its_remedy_and_an_unknown_one_stays_as_it_is() {
        let refused = "ssl://b:1/bootstrap: SASL authentication error: Invalid (after 305ms in state AUTH_REQ)";
        let text = explained(refused);
        assert!(text.starts_with("ssl://b:1/bootstrap: SASL authentication error: Invalid: the broker"), "{text}");
        assert!(text.ends_with("mend sasl.username and sasl.password"), "{text}");
        let token = "sasl_ssl://b:1/bootstrap: SASL authentication error: {\"status\":\"invalid_token\"}";
        assert!(explained(token).contains("kafka.oauth_token_file"), "{}", explained(token));
        let closed =
            "ssl://b:1/bootstrap: Disconnected: SSL connection closed by peer (after 1ms in state SSL_HANDSHAKE)";
        assert!(explained(closed).contains("speaks no TLS"), "{}", explained(closed));
        let silent = "Consumer group session timed out (in join-state steady) after 45352 ms without a successful response \
                      from the group coordinator (broker 1, last error was Success): revoking assignment and rejoining group";
        assert!(explained(silent).ends_with("is read again"), "{}", explained(silent));
        assert_eq!(explained("Connect failed (after 1ms)"), "Connect failed (after 1ms)");
    }
}
