//! Crowds of one address against peers of another. Linux has all of 127.0.0.0/8.

use tokio::net::TcpSocket;

use super::*;

async fn from(host: u8, address: SocketAddr, sends: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, host], 0).into()).unwrap();
    let mut peer = socket.connect(address).await.unwrap();
    peer.write_all(sends).await.unwrap();
    peer
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_crowd_of_one_address_leaves_the_slow_of_others_alone() {
    let limits = Limits { connections: 4, head: LONG, connection: LONG, ..Limits::DEFAULT };
    let address = serving(limits, None).await;
    let mut slow = from(3, address, b"GET /livez HTTP/1.1\r\n").await;
    let mut crowd = Vec::new();
    for _ in 0..40 {
        crowd.push(from(2, address, b"GET /livez HTTP/1.1\r\n").await);
    }
    // Served after all of the crowd: those before it have had to leave.
    assert!(is_alive(&get(from(4, address, b"").await, "/livez", "").await.unwrap()));
    slow.write_all(b"Host: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(is_alive(&answer), "{answer}");
}
