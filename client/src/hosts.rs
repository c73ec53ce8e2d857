//! The hosts of a connection string, and what the client refuses in one. Nothing in it is ignored.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use snowflake_id_core::hosts::{self, PORT, TIME_FOR_AN_ADDRESS};
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, SslMode, SslNegotiation, TargetSessionAttrs};

pub type Step = hosts::Step<Name, Place>;

/// A name that must be looked up.
#[derive(Clone)]
pub struct Name {
    pub name: String,
    pub port: u16,
}

/// Where a server may listen.
#[derive(Clone)]
pub struct Place {
    /// The name that a certificate must contain. If the connection string has none, it is the address.
    pub name: String,
    pub target: Target,
}

#[derive(Clone)]
pub enum Target {
    Address(SocketAddr),
    Socket(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.target {
            Target::Address(address) if self.name == address.ip().to_string() => write!(f, "{address}"),
            Target::Address(address) => write!(f, "{}:{} ({})", self.name, address.port(), address.ip()),
            Target::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Returns the steps to the hosts, in their order, or the reason why the connection string is refused.
pub fn check(config: &Config, has_tls: bool) -> Result<Vec<Step>, String> {
    let mode = config.get_ssl_mode();
    for (is_refused, problem) in [
        (
            mode == SslMode::Require && !has_tls,
            "sslmode=require needs a TLS connector: use Client::start_with_tls()",
        ),
        (
            config.get_ssl_negotiation() == SslNegotiation::Direct && mode != SslMode::Require,
            "sslnegotiation=direct needs sslmode=require",
        ),
        (
            config.get_channel_binding() == ChannelBinding::Require && (mode == SslMode::Disable || !has_tls),
            "channel_binding=require needs TLS: use Client::start_with_tls() and sslmode=require",
        ),
        (
            config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly,
            "target_session_attrs=read-only: only a server that accepts writes is a registry: use read-write",
        ),
    ] {
        if is_refused {
            return Err(problem.into());
        }
    }
    // The system knows which values it accepts.
    if let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, None) {
        set_up(SockRef::from(&socket), config)?;
    }
    list(config)
}

fn list(config: &Config) -> Result<Vec<Step>, String> {
    let hosts = hosts::listed(config.get_hosts(), config.get_hostaddrs(), config.get_ports())?;
    if hosts.is_empty() {
        return Err("the connection string names no host: specify host or hostaddr".into());
    }
    let step = |(host, address, port): hosts::Listed<Host, IpAddr, u16>| {
        let port = port.copied().unwrap_or(PORT);
        let at_address = |name: &str, address: IpAddr| {
            let name = if name.is_empty() { address.to_string() } else { name.into() };
            Step::Connect(Place { name, target: Target::Address(SocketAddr::new(address, port)) })
        };
        match (host, address) {
            (Some(Host::Tcp(name)), Some(&address)) => Ok(at_address(name, address)),
            (_, Some(&address)) => Ok(at_address("", address)),
            (Some(Host::Unix(directory)), None) => {
                let target = Target::Socket(directory.join(format!(".s.PGSQL.{port}")));
                Ok(Step::Connect(Place { name: String::new(), target }))
            }
            (Some(Host::Tcp(name)), None) if !name.is_empty() => Ok(match name.parse() {
                Ok(address) => at_address(name, address),
                Err(_) => Step::LookUp(Name { name: name.clone(), port }),
            }),
            _ => Err("a host is empty: specify a name, an address or the directory of a socket".into()),
        }
    };
    hosts.into_iter().map(step).collect()
}

/// Returns the time limit for one address.
pub fn time_for_an_address(config: &Config) -> Duration {
    config.get_connect_timeout().copied().unwrap_or(TIME_FOR_AN_ADDRESS)
}

/// Sets the options that the connection string has for a socket.
pub fn set_up(socket: SockRef, config: &Config) -> Result<(), String> {
    if config.get_keepalives() {
        let keepalive = with_probes(TcpKeepalive::new().with_time(config.get_keepalives_idle()), config)?;
        socket.set_tcp_keepalive(&keepalive).map_err(|error| {
            format!("keepalives_idle, keepalives_interval or keepalives_retries: {error}")
        })?;
    }
    #[cfg(target_os = "linux")]
    if let Some(&time) = config.get_tcp_user_timeout() {
        socket.set_tcp_user_timeout(Some(time)).map_err(|error| format!("tcp_user_timeout: {error}"))?;
    }
    #[cfg(not(target_os = "linux"))]
    if config.get_tcp_user_timeout().is_some() {
        return Err("tcp_user_timeout is not available on this system".into());
    }
    Ok(())
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
fn with_probes(mut keepalive: TcpKeepalive, config: &Config) -> Result<TcpKeepalive, String> {
    if let Some(interval) = config.get_keepalives_interval() {
        keepalive = keepalive.with_interval(interval);
    }
    // As for libpq, 0 is the default of the system.
    if let Some(retries) = config.get_keepalives_retries().filter(|&retries| retries > 0) {
        keepalive = keepalive.with_retries(retries);
    }
    Ok(keepalive)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd")))]
fn with_probes(keepalive: TcpKeepalive, config: &Config) -> Result<TcpKeepalive, String> {
    match (config.get_keepalives_interval(), config.get_keepalives_retries()) {
        (None, None) => Ok(keepalive),
        _ => Err("keepalives_interval and keepalives_retries are not available on this system".into()),
    }
}
