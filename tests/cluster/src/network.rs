//! The network between a server and its registry, and its faults.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::Cluster;
use crate::user::then_as_server_user;

/// A port on which no process listens.
pub fn unused_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A fault that a [`Proxy`] causes on the connections through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Accepts a connection and sends nothing.
    Silence,
    /// Passes the query on, so that it is executed, and then closes the connection.
    CutAfterQuery,
    /// Passes the query on, but not the reply.
    NoAnswer,
    /// Closes the connection after so many bytes of the reply.
    CutAnswer(usize),
    /// Delays each reply.
    Delay(Duration),
    /// Holds the reply back while this is the fault.
    Hold,
    /// Sends random bytes in place of the reply.
    Garbage,
    /// Sends random bytes from the start of the connection.
    GarbageAtOnce,
}

/// A proxy between servers and a registry. Listens on an address of this host, and connects to the Unix socket of the
/// registry.
pub struct Proxy {
    address: Ipv4Addr,
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    /// The Unix socket of the registry.
    registry: Mutex<PathBuf>,
    fault: Mutex<Fault>,
    /// How many connections were made so far, and how many are open.
    made: AtomicUsize,
    open: AtomicUsize,
    is_over: AtomicBool,
}

impl Proxy {
    /// Starts a proxy for a registry.
    pub fn to(registry: &Cluster) -> Proxy {
        Proxy::at(Ipv4Addr::LOCALHOST, 0, registry)
    }

    /// Starts a proxy for the registry whose Unix socket is in this directory.
    pub fn to_host(host: &Path) -> Proxy {
        Proxy::between(Ipv4Addr::LOCALHOST, 0, host)
    }

    /// Starts a proxy that listens on the given address. Port 0 means any port.
    pub fn at(address: Ipv4Addr, port: u16, registry: &Cluster) -> Proxy {
        Proxy::between(address, port, registry.host())
    }

    fn between(address: Ipv4Addr, port: u16, host: &Path) -> Proxy {
        let listener = TcpListener::bind((address, port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            registry: Mutex::new(socket_in(host)),
            fault: Mutex::new(Fault::None),
            made: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let proxy = Proxy { address, port, shared: shared.clone() };
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (shared, client) = (shared.clone(), client.unwrap());
                thread::spawn(move || {
                    shared.made.fetch_add(1, Ordering::Relaxed);
                    shared.open.fetch_add(1, Ordering::Relaxed);
                    // Connections are expected to fail.
                    let _ = shared.serve(client);
                    shared.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        proxy
    }

    /// The connection string for a server that connects through the proxy.
    pub fn connection_string(&self) -> String {
        format!("host={} port={} user=fleet dbname=postgres", self.address, self.port)
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the fault of all new connections.
    pub fn set_fault(&self, fault: Fault) {
        *self.shared.fault.lock().unwrap() = fault;
    }

    /// Leads all new connections to another registry, as an address that moves to another host does.
    pub fn lead_to(&self, registry: &Cluster) {
        *self.shared.registry.lock().unwrap() = socket_in(registry.host());
    }

    /// How many connections were made so far.
    pub fn made(&self) -> usize {
        self.shared.made.load(Ordering::Relaxed)
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }
}

fn socket_in(host: &Path) -> PathBuf {
    host.join(".s.PGSQL.5432")
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // The proxy notices that at the next connection.
        let _ = TcpStream::connect((self.address, self.port));
    }
}

const GARBAGE: &[u8] = b"\xff\xfe\xfd HTTP/1.1 400 Bad Request\r\n\r\n\0\0\0\0Z\xff\xff\xff\xff";

impl Shared {
    fn serve(self: &Arc<Shared>, mut client: TcpStream) -> std::io::Result<()> {
        let fault = *self.fault.lock().unwrap();
        if fault == Fault::Silence {
            return self.say_nothing_to(&mut client);
        }
        if fault == Fault::GarbageAtOnce {
            let _ = client.read(&mut [0; 1024])?;
            return client.write_all(GARBAGE);
        }
        let mut registry = UnixStream::connect(self.registry.lock().unwrap().as_path())?;
        let has_asked = Arc::new(AtomicBool::new(false));
        let answers = {
            let (client, registry) = (client.try_clone()?, registry.try_clone()?);
            let (shared, has_asked) = (self.clone(), has_asked.clone());
            thread::spawn(move || shared.pass_answers(registry, client, fault, &has_asked))
        };
        let mut bytes = [0; 8192];
        loop {
            let count = match client.read(&mut bytes) {
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            // This is the first message of a query of the extended protocol.
            let is_query = bytes[0] == b'P';
            has_asked.fetch_or(is_query, Ordering::SeqCst);
            if registry.write_all(&bytes[..count]).is_err() || (is_query && fault == Fault::CutAfterQuery) {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = registry.shutdown(Shutdown::Write);
        let _ = answers.join();
        Ok(())
    }

    fn say_nothing_to(&self, client: &mut TcpStream) -> std::io::Result<()> {
        while client.read(&mut [0; 1024])? > 0 {}
        Ok(())
    }

    fn hold(&self) {
        while *self.fault.lock().unwrap() == Fault::Hold {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Passes on the messages of the registry, except for replies to queries that the fault suppresses.
    fn pass_answers(
        &self,
        mut registry: UnixStream,
        mut client: TcpStream,
        fault: Fault,
        has_asked: &AtomicBool,
    ) {
        let mut bytes = [0; 8192];
        let mut passed = 0;
        while let Ok(count) = registry.read(&mut bytes) {
            if count == 0 {
                break;
            }
            let mut answer = &bytes[..count];
            let mut is_last = false;
            if has_asked.load(Ordering::SeqCst) {
                match fault {
                    Fault::NoAnswer => continue,
                    Fault::Delay(time) => thread::sleep(time),
                    Fault::Hold => self.hold(),
                    Fault::Garbage => (answer, is_last) = (GARBAGE, true),
                    Fault::CutAnswer(most) => {
                        answer = &answer[..count.min(most - passed)];
                        passed += answer.len();
                        is_last = passed == most;
                    }
                    _ => {}
                }
            }
            if client.write_all(answer).is_err() || is_last {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        // The registry notices by itself.
        while matches!(registry.read(&mut bytes), Ok(count) if count > 0) {}
    }
}

/// A network namespace for a registry, connected to the host by a pair of virtual interfaces.
pub struct Network {
    name: String,
    /// The addresses of the host's interface and of the interface in the namespace.
    host: Ipv4Addr,
    address: Ipv4Addr,
}

impl Network {
    /// Creates a network. If that is not permitted, returns the reason.
    pub fn make() -> Result<Network, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        // Four addresses in 198.18.0.0/15, which is reserved for network tests.
        let base = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + (process * 8 + number) % (1 << 15) * 4;
        let network = Network {
            // The name of an interface has at most 15 characters.
            name: format!("sf{process}n{number}"),
            host: (base + 1).into(),
            address: (base + 2).into(),
        };
        let name = &network.name;
        let (outside, inside) = (format!("{name}a"), format!("{name}b"));
        try_ip(&format!("netns add {name}"))?;
        // From here on, dropping `network` removes whatever was created.
        try_ip(&format!("link add {outside} type veth peer name {inside} netns {name}"))?;
        try_ip(&format!("addr add {}/30 dev {outside}", network.host))?;
        try_ip(&format!("link set {outside} up"))?;
        try_ip(&format!("-n {name} link set lo up"))?;
        try_ip(&format!("-n {name} addr add {}/30 dev {inside}", network.address))?;
        try_ip(&format!("-n {name} link set {inside} up"))?;
        // A fixed neighbor entry: otherwise a failed address resolution would be reported to the sender.
        let shown = try_ip(&format!("-n {name} -o link show {inside}"))?;
        let hardware = shown.split_whitespace().skip_while(|word| *word != "link/ether").nth(1);
        let hardware = hardware.ok_or("the end of the cable has no address")?;
        try_ip(&format!("neigh replace {} lladdr {hardware} nud permanent dev {outside}", network.address))?;
        Ok(network)
    }

    /// The address of the registry in the namespace.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Starts a stopped server so that it listens in this network. Its Unix socket stays in its directory.
    pub fn start_server(&self, server: &Cluster) {
        server.configure(&[("listen_addresses", &self.address.to_string())]);
        server.trust_hosts(&format!("{}/32", self.host));
        let within = |pg_ctl: Command| {
            let mut inside = Command::new("ip");
            inside.args(["netns", "exec", &self.name]);
            then_as_server_user(&mut inside, &pg_ctl);
            inside.current_dir(server.host());
            inside
        };
        server.start_server_by(within);
    }

    /// Drops all packets silently.
    pub fn lose_all(&self) {
        try_ip(&format!("-n {0} addr del {1}/30 dev {0}b", self.name, self.address)).unwrap();
    }

    /// Restores the network.
    pub fn mend(&self) {
        try_ip(&format!("-n {0} addr add {1}/30 dev {0}b", self.name, self.address)).unwrap();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Removing one end of the pair removes the other.
        let _ = try_ip(&format!("link del {}a", self.name));
        let _ = try_ip(&format!("netns del {}", self.name));
    }
}

fn try_ip(arguments: &str) -> Result<String, String> {
    match Command::new("ip").args(arguments.split_whitespace()).output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
        Err(error) => Err(error.to_string()),
    }
}
