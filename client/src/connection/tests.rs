//! Ways to hosts of which the first is of no use, with a stand-in for a server and for the name service.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicUsize;

use super::*;

#[path = "../../tests/wire/mod.rs"]
mod wire;

/// A host on an address of this machine.
struct Server {
    port: u16,
    /// How many connections were made.
    made: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Silent,
    Standby,
    Primary,
}

impl Server {
    fn at(address: &str, port: u16, kind: Kind) -> Server {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = made.clone();
        let port = wire::listen(address, port, move |mut stream| {
            counter.fetch_add(1, Ordering::SeqCst);
            // Whether transactions are read-only.
            let answer = if kind == Kind::Standby { "on" } else { "off" };
            match kind {
                Kind::Silent => drop(stream.read_to_end(&mut vec![])),
                _ => drop(wire::serve(stream, |_, _| Some(answer.into()))),
            }
        });
        Server { port, made }
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }
}

/// The stand-in for the name service: `twice` has two addresses, `slow` is found late, and `stuck` never.
fn resolver(name: Name) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>> {
    let at = |last| SocketAddr::from(([127, 0, 0, last], name.port));
    let (both, first) = (vec![at(1), at(2)], vec![at(1)]);
    Box::pin(async move {
        match name.name.as_str() {
            "twice" => return Ok(both),
            "slow" => tokio::time::sleep(Duration::from_secs(5)).await,
            "stuck" => std::future::pending().await,
            _ => return Err(io::Error::other("Name or service not known")),
        }
        Ok(first)
    })
}

fn way(hosts: &str) -> Arc<Way<NoTls>> {
    let string = format!("{hosts} user=program connect_timeout=4");
    Arc::new(Way::new(string.parse().unwrap(), NoTls, resolver).unwrap())
}

async fn problem(hosts: &str) -> String {
    way(hosts).connect().await.err().expect("a problem")
}

/// The first of two addresses of a name does not answer. The second one has a time of its own.
#[tokio::test]
async fn the_first_address_of_a_name_is_dead() {
    let dead = Server::at("127.0.0.1", 0, Kind::Silent);
    let _right = Server::at("127.0.0.2", dead.port, Kind::Primary);
    way(&format!("host=twice port={}", dead.port)).connect().await.unwrap();
    assert_eq!(dead.made(), 1);
}

/// The first of two addresses of a name is a standby. The string asks for any session, or for one that can write.
#[tokio::test]
async fn the_first_address_of_a_name_is_a_standby() {
    let standby = Server::at("127.0.0.1", 0, Kind::Standby);
    let _primary = Server::at("127.0.0.2", standby.port, Kind::Primary);
    for attributes in ["any", "read-write"] {
        let hosts = format!("host=twice port={} target_session_attrs={attributes}", standby.port);
        way(&hosts).connect().await.unwrap();
    }
    assert_eq!(standby.made(), 2);
    let only = format!("host=127.0.0.1 port={} target_session_attrs=read-write", standby.port);
    assert!(problem(&only).await.contains("does not accept writes"));
}

/// Addresses without names, of which the first refuses the connection or does not answer.
#[tokio::test]
async fn addresses_alone() {
    let right = Server::at("127.0.0.1", 0, Kind::Primary);
    way(&format!("hostaddr=127.0.0.1 port={}", right.port)).connect().await.unwrap();
    way(&format!("hostaddr=127.0.0.3,127.0.0.1 port={}", right.port)).connect().await.unwrap();
    let dead = Server::at("127.0.0.2", right.port, Kind::Silent);
    way(&format!("hostaddr=127.0.0.2,127.0.0.1 port={}", right.port)).connect().await.unwrap();
    assert_eq!(dead.made(), 1);
    // The address decides, also for a name that is unknown and for a directory.
    for name in ["unknown", "/nowhere"] {
        way(&format!("host={name} hostaddr=127.0.0.1 port={}", right.port)).connect().await.unwrap();
    }
    assert_eq!(right.made(), 5);
}

/// A name is found after more than the time of an address. It comes last from then on.
#[tokio::test]
async fn a_name_is_found_late() {
    let slow = Server::at("127.0.0.1", 0, Kind::Primary);
    let string = format!("host=slow port={}", slow.port);
    way(&string).connect().await.unwrap();
    let other = Server::at("127.0.0.2", 0, Kind::Primary);
    let way = way(&format!("host=slow,127.0.0.2 port={},{}", slow.port, other.port));
    way.clone().connect().await.unwrap();
    assert_eq!((slow.made(), other.made()), (2, 0));
    way.connect().await.unwrap();
    assert_eq!((slow.made(), other.made()), (2, 1));
}

/// The name service does not answer, or does not know a name. The next host is tried.
#[tokio::test(start_paused = true)]
async fn names_without_an_address() {
    let all = problem("host=stuck,unknown").await;
    assert!(all.starts_with("stuck: no reply from the name service within 10s; unknown: Name or"), "{all}");
}

/// With `load_balance_hosts=random`, each host and each address comes first at times.
#[tokio::test]
async fn hosts_in_random_order() {
    let first = Server::at("127.0.0.1", 0, Kind::Primary);
    let second = Server::at("127.0.0.2", first.port, Kind::Primary);
    for hosts in ["twice", "127.0.0.1,127.0.0.2"] {
        let before = (first.made(), second.made());
        let way = way(&format!("host={hosts} port={} load_balance_hosts=random", first.port));
        // Each of 40 connections to the same host has a probability of one half.
        for _ in 0..40 {
            way.clone().connect().await.unwrap();
        }
        assert!(first.made() > before.0 && second.made() > before.1, "{hosts}");
    }
}

/// The socket has the options of the string.
#[tokio::test]
async fn options_of_the_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let set_up = |parameters: &str| {
        let config = format!("host=a {parameters}").parse().unwrap();
        hosts::set_up(SockRef::from(&socket), &config).unwrap();
        SockRef::from(&socket)
    };
    assert!(!set_up("keepalives=0").keepalive().unwrap());
    assert!(set_up("keepalives_retries=0").keepalive().unwrap());
    let set = set_up("keepalives_idle=60 keepalives_interval=5 keepalives_retries=3");
    let seconds = Duration::from_secs;
    assert_eq!(
        (set.tcp_keepalive_time().unwrap(), set.tcp_keepalive_interval().unwrap()),
        (seconds(60), seconds(5))
    );
    assert_eq!(set.tcp_keepalive_retries().unwrap(), 3);
    #[cfg(target_os = "linux")]
    assert_eq!(set_up("tcp_user_timeout=7").tcp_user_timeout().unwrap(), Some(seconds(7)));
}
