//! How a connection begins: at once, or with the TLS handshake.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::{self, AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// What a peer is told that speaks plain HTTP where TLS is spoken; Go's servers say the same.
const NOT_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n\
    Client sent an HTTP request to an HTTPS server.\n";

/// What is read from and written to, whatever carries it.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An opened connection.
pub(super) type Stream = Box<dyn Io>;

/// The stream that a request comes on. How long that may take is for the caller to bound.
///
/// # Errors
/// When the peer leaves, or the handshake fails; the peer was told why.
pub(super) async fn open(mut stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<Stream> {
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let mut first = [0];
    stream.peek(&mut first).await?;
    // A method. A handshake begins with the byte 22.
    if first[0].is_ascii_uppercase() {
        stream.write_all(NOT_TLS).await?;
        leave(stream).await?;
        return Err(io::Error::other("plain HTTP where TLS is spoken"));
    }
    match TlsAcceptor::from(tls).accept(stream).into_fallible().await {
        Ok(stream) => Ok(Box::new(stream)),
        Err((error, stream)) => {
            // The peer was sent why.
            leave(stream).await?;
            Err(error)
        }
    }
}

/// Ends a connection once the peer does: closed on while it sends, it would lose what it was sent.
async fn leave(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    io::copy(&mut stream, &mut io::sink()).await?;
    Ok(())
}
