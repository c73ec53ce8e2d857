//! The hosts listed in a connection string.

use std::ffi::{CStr, CString};
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, RandomState};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use crate::pg::libpq::Options;

/// The default port of a host.
const USUAL_PORT: &str = "5432";
/// Time limit for one host, unless `connect_timeout` sets another one.
const TIME_FOR_A_HOST: Duration = Duration::from_secs(5);
/// The highest time limit that `connect_timeout` can set.
const MOST_TIME_FOR_A_HOST: Duration = Duration::from_secs(60);

pub struct Hosts {
    pub list: Vec<Host>,
    /// Time limit for each address.
    pub time: Duration,
    /// Whether libpq checks the user who runs a server on a Unix-domain socket.
    pub checks_peer: bool,
    has_names: bool,
    has_addresses: bool,
}

/// One host of the list. An empty name or address means that the connection string does not specify one.
#[derive(Clone, Hash)]
pub struct Host {
    pub name: String,
    pub address: String,
    pub port: String,
}

impl Hosts {
    /// Returns the hosts in the options of a connection string, or the reason why the options are invalid.
    pub fn of(options: &Options) -> Result<Hosts, String> {
        let all =
            |keyword| -> Vec<&str> { options.get(keyword).map_or(vec![], |text| text.split(',').collect()) };
        let (names, addresses, ports) = (all("host"), all("hostaddr"), all("port"));
        let count = names.len().max(addresses.len()).max(1);
        if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
            let (names, addresses) = (names.len(), addresses.len());
            return Err(format!("could not match {names} host names to {addresses} hostaddr values"));
        }
        if ports.len() > 1 && ports.len() != count {
            return Err(format!("could not match {} port numbers to {count} hosts", ports.len()));
        }
        let mut list: Vec<_> = (0..count)
            .map(|at| {
                let text = |list: &[&str]| list.get(at).copied().unwrap_or_default().to_owned();
                // If a single port is given, it applies to all hosts.
                let port = if ports.len() == 1 { ports[0].to_owned() } else { text(&ports) };
                let port = if port.is_empty() { USUAL_PORT.to_owned() } else { port };
                Host { name: text(&names), address: text(&addresses), port }
            })
            .collect();
        if options.get("load_balance_hosts") == Some("random") {
            let random = RandomState::new();
            list.sort_by_key(|host| random.hash_one(host));
        }
        let time = options.get("connect_timeout").and_then(|text| text.trim().parse::<i32>().ok());
        let time = time.and_then(|seconds| u64::try_from(seconds).ok()).filter(|&seconds| seconds > 0);
        Ok(Hosts {
            list,
            time: time.map_or(TIME_FOR_A_HOST, Duration::from_secs).min(MOST_TIME_FOR_A_HOST),
            checks_peer: options.get("requirepeer").is_some(),
            has_names: !names.is_empty(),
            has_addresses: !addresses.is_empty(),
        })
    }

    /// Returns the parameters that make libpq connect only to this host.
    pub fn parameters(&self, host: &Host) -> [(&'static CStr, CString); 3] {
        // An empty parameter would not override the list of hosts in the connection string, but a list of two
        // empty entries does.
        let is_twice =
            self.has_names && host.name.is_empty() || self.has_addresses && host.address.is_empty();
        let text = |text: &str| {
            let text = if is_twice { format!("{text},{text}") } else { text.to_owned() };
            // Texts that come from libpq contain no NUL.
            CString::new(text).unwrap_or_default()
        };
        [(c"host", text(&host.name)), (c"hostaddr", text(&host.address)), (c"port", text(&host.port))]
    }
}

impl Host {
    /// Returns the name of the host if a name lookup is necessary.
    pub fn unknown_name(&self) -> Option<&str> {
        let is_known = self.name.is_empty() || self.name.starts_with(['/', '@']) || !self.address.is_empty();
        (!is_known).then_some(self.name.as_str())
    }

    /// Returns one entry for each address of the host. The function queries the name service, and may
    /// therefore block.
    pub fn look_up(&self) -> Result<Vec<Host>, String> {
        let Some(name) = self.unknown_name() else { return Ok(vec![self.clone()]) };
        let addresses = (name, 0)
            .to_socket_addrs()
            .map_err(|problem| format!("could not translate host name \"{name}\" to address: {problem}"))?;
        Ok(addresses.map(|address| Host { address: address_of(address), ..self.clone() }).collect())
    }

    /// Returns the key of the host in shared memory.
    pub fn key(&self) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(self)
    }
}

/// Formats an address for libpq. An address with a scope, such as a link-local one, includes the scope.
fn address_of(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(address) if address.scope_id() != 0 => {
            format!("{}%{}", address.ip(), address.scope_id())
        }
        _ => address.ip().to_string(),
    }
}

/// Formats the host for messages.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = if self.name.is_empty() { &self.address } else { &self.name };
        write!(f, "{name}:{}", self.port)?;
        if !self.name.is_empty() && !self.address.is_empty() && self.name != self.address {
            write!(f, " ({})", self.address)?;
        }
        Ok(())
    }
}
