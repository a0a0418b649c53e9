//! Takes the address to listen on, or says what to do when it can't be had.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;
use tokio::net::TcpListener;

/// How many ports after the wanted one [`bind_or_next`] tries.
const NEXT_PORTS: u16 = 20;

/// Why the server can't listen. All are for whoever set the address.
#[derive(Debug, Error)]
pub enum Error {
    #[error("cannot listen on {listen}: another program does; stop it or set admin.listen to a free port")]
    InUse { listen: SocketAddr },
    #[error("cannot listen on {listen}: no permission; set admin.listen to a port of 1024 or more")]
    NotPermitted { listen: SocketAddr },
    #[error(
        "cannot listen on {listen}: this machine has no such address; set admin.listen to one it has, or to 0.0.0.0"
    )]
    NoSuchAddress { listen: SocketAddr },
    #[error("cannot listen on {listen}: {source}; set admin.listen to another address")]
    Other { listen: SocketAddr, source: io::Error },
}

/// Listens on this address; port 0 takes any that is free.
///
/// # Errors
/// When the address can't be had; the text says what to change.
pub async fn bind(listen: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(listen).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => Error::InUse { listen },
        io::ErrorKind::PermissionDenied => Error::NotPermitted { listen },
        io::ErrorKind::AddrNotAvailable => Error::NoSuchAddress { listen },
        _ => Error::Other { listen, source },
    })
}

/// Listens on this address, or where its port is taken on one of the next 20, or on any that is free.
///
/// # Errors
/// When it is not the port that can't be had.
pub async fn bind_or_next(listen: SocketAddr) -> Result<TcpListener, Error> {
    for port in listen.port()..=listen.port().saturating_add(NEXT_PORTS) {
        match bind(SocketAddr::new(listen.ip(), port)).await {
            Err(Error::InUse { .. }) => {}
            settled => return settled,
        }
    }
    bind(SocketAddr::new(listen.ip(), 0)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any_port() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[tokio::test]
    async fn a_taken_port_is_named_with_the_remedy() {
        let taken = bind(any_port()).await.unwrap();
        let listen = taken.local_addr().unwrap();
        let error = bind(listen).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot listen on {listen}: another program does; stop it or set admin.listen to a free port")
        );
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_named() {
        // TEST-NET-1, which no machine has.
        let listen = SocketAddr::from(([192, 0, 2, 1], 9464));
        let error = bind_or_next(listen).await.unwrap_err();
        assert!(matches!(error, Error::NoSuchAddress { listen: named } if named == listen), "{error}");
    }

    #[tokio::test]
    async fn another_port_is_found_where_the_wanted_one_is_taken() {
        let taken = bind(any_port()).await.unwrap();
        let listen = taken.local_addr().unwrap();
        let next = bind_or_next(listen).await.unwrap().local_addr().unwrap();
        assert_eq!(next.ip(), listen.ip());
        assert_ne!(next.port(), listen.port());
    }

    #[tokio::test]
    async fn the_last_port_of_all_is_no_obstacle() {
        let last = SocketAddr::from(([127, 0, 0, 1], u16::MAX));
        let _holder = bind_or_next(last).await.unwrap();
        assert!(bind_or_next(last).await.is_ok());
    }
}
