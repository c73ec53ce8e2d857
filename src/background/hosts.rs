//! The hosts listed in a connection string.

use std::ffi::{CStr, CString};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, RandomState};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;
use std::{fmt, io};

use snowflake_id_core::hosts::{self, PORT, TIME_FOR_AN_ADDRESS};

use crate::pg::libpq::Options;

/// The highest time limit that `connect_timeout` can set.
const MOST_TIME_FOR_AN_ADDRESS: Duration = Duration::from_secs(60);

/// A step to a host of the list. `Connect` contains the host, and a copy of it with the address that was
/// found.
pub type Step<'a> = hosts::Step<&'a Host, (&'a Host, Host)>;

pub struct Hosts {
    pub list: Vec<Host>,
    /// The time limit for each address.
    pub time: Duration,
    /// A hash function that determines the order of the hosts, or `None` if the order is not random.
    pub random: Option<RandomState>,
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
        let (has_names, has_addresses) = (!names.is_empty(), !addresses.is_empty());
        // Without a host, libpq uses its default socket.
        let names = if has_names || has_addresses { names } else { vec![""] };
        let text = |text: Option<&&str>| text.copied().unwrap_or_default().to_owned();
        let host = |(name, address, port): hosts::Listed<&str, &str, &str>| {
            let port = if port.is_none_or(|port| port.is_empty()) { PORT.to_string() } else { text(port) };
            Host { name: text(name), address: text(address), port }
        };
        let list = hosts::listed(&names, &addresses, &ports)?.into_iter().map(host).collect();
        let time = options.get("connect_timeout").and_then(|text| text.trim().parse::<i32>().ok());
        let time = time.and_then(|seconds| u64::try_from(seconds).ok()).filter(|&seconds| seconds > 0);
        Ok(Hosts {
            list,
            time: time.map_or(TIME_FOR_AN_ADDRESS, Duration::from_secs).min(MOST_TIME_FOR_AN_ADDRESS),
            random: (options.get("load_balance_hosts") == Some("random")).then(RandomState::new),
            checks_peer: options.get("requirepeer").is_some(),
            has_names,
            has_addresses,
        })
    }

    /// Returns the steps to the hosts. A name without an address is looked up.
    pub fn steps(&self) -> Vec<Step<'_>> {
        let is_known = |host: &Host| {
            host.name.is_empty() || host.name.starts_with(['/', '@']) || !host.address.is_empty()
        };
        let steps = self.list.iter().map(|host| match is_known(host) {
            true => Step::Connect((host, host.clone())),
            false => Step::LookUp(host),
        });
        steps.collect()
    }

    /// Returns the parameters that make libpq connect only to this host.
    pub fn parameters(&self, host: &Host) -> [(&'static CStr, CString); 3] {
        // An empty parameter would not override the list of hosts in the connection string. A list of two
        // empty entries does.
        let is_twice =
            self.has_names && host.name.is_empty() || self.has_addresses && host.address.is_empty();
        let text = |text: &str| {
            let text = if is_twice { format!("{text},{text}") } else { text.to_owned() };
            // Strings that come from libpq contain no NUL.
            CString::new(text).unwrap_or_default()
        };
        [(c"host", text(&host.name)), (c"hostaddr", text(&host.address)), (c"port", text(&host.port))]
    }
}

impl Host {
    /// Returns one entry for each address of the name. May block, because it queries the name service.
    pub fn look_up(&self) -> io::Result<impl Iterator<Item = Host>> {
        let addresses = (&*self.name, 0).to_socket_addrs()?;
        Ok(addresses.map(|address| Host { address: address_of(address), ..self.clone() }))
    }

    /// Returns the key of the host in shared memory.
    pub fn key(&self) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(self)
    }
}

/// Formats an address for libpq. If the address has a scope, as link-local addresses do, the result includes
/// the scope.
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
