//! The network between the processes and a broker, to be cut.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How soon a change is noticed.
const LOOK: Duration = Duration::from_millis(10);

/// Passes bytes on, between the address that a broker names itself by and the one where it listens.
pub struct Proxy {
    network: Arc<Network>,
    accepting: Option<JoinHandle<()>>,
    pub bootstrap: String,
}

/// What all connections share.
#[derive(Default)]
struct Network {
    /// Connections are refused.
    down: AtomicBool,
    /// Connections stay, and nothing comes through.
    silent: AtomicBool,
    over: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy before the single broker of a cluster with this port.
    pub fn before(broker: u16) -> Self {
        let port = broker + 2;
        let listen = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 4), port));
        let listener = TcpListener::bind(listen).expect("the port is free");
        listener.set_nonblocking(true).expect("a listener");
        let network = Arc::new(Network::default());
        let shared = Arc::clone(&network);
        let accepting = thread::spawn(move || shared.accept(&listener, (Ipv4Addr::new(127, 0, 0, 3), port).into()));
        Self { network, accepting: Some(accepting), bootstrap: listen.to_string() }
    }

    /// Ends every connection, wherever in a message it is; how many there were.
    pub fn cut(&self) -> usize {
        self.network.cut()
    }

    /// For so long nothing is there to connect to.
    pub fn down_for(&self, time: Duration) {
        self.network.down.store(true, Ordering::Relaxed);
        self.network.cut();
        thread::sleep(time);
        self.network.down.store(false, Ordering::Relaxed);
    }

    /// For so long nothing comes through and no connection ends; then what was sent meanwhile does.
    pub fn silent_for(&self, time: Duration) {
        self.network.silent.store(true, Ordering::Relaxed);
        thread::sleep(time);
        self.network.silent.store(false, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.over.store(true, Ordering::Relaxed);
        self.network.silent.store(false, Ordering::Relaxed);
        self.network.cut();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Network {
    fn accept(self: &Arc<Self>, listener: &TcpListener, broker: SocketAddr) {
        while !self.over.load(Ordering::Relaxed) {
            match listener.accept() {
                // Dropped, it is closed at once.
                Ok(_) if self.down.load(Ordering::Relaxed) => {}
                // Whoever connects finds out by itself where that fails.
                Ok((client, _)) => drop(self.connect(client, broker)),
                Err(_) => thread::sleep(LOOK),
            }
        }
    }

    fn connect(self: &Arc<Self>, client: TcpStream, broker: SocketAddr) -> io::Result<()> {
        let broker = TcpStream::connect(broker)?;
        client.set_nonblocking(false)?;
        for stream in [&client, &broker] {
            stream.set_nodelay(true)?;
        }
        let copies = [(client.try_clone()?, broker.try_clone()?), (broker.try_clone()?, client.try_clone()?)];
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).extend([client, broker]);
        for (from, to) in copies {
            let network = Arc::clone(self);
            thread::spawn(move || network.pass_on(from, to));
        }
        Ok(())
    }

    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            while self.silent.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
            }
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        // The other direction ends with this one. An error says that it has.
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    fn cut(&self) -> usize {
        let streams = std::mem::take(&mut *self.streams.lock().unwrap_or_else(PoisonError::into_inner));
        let was_open = |stream: &&TcpStream| stream.shutdown(Shutdown::Both).is_ok();
        streams.iter().filter(was_open).count() / 2
    }
}
