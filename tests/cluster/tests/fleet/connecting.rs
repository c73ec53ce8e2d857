//! How a server finds its registry: by lists of hosts, names, certificates and pools, as libpq does.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use harness::network::{Fault, Network, Proxy, unused_port};
use harness::pool::Pool;
use harness::*;

const NETWORK: &str = "a network of its own (run as root, with iproute2)";

/// A host name with two addresses, of which the first does not answer.
#[test]
fn a_host_with_two_addresses() {
    let fleet = Fleet::start(LASTING_LEASES);
    let dead = Proxy::to(&fleet.registry);
    dead.set_fault(Fault::Silence);
    let _right = Proxy::at(Ipv4Addr::new(127, 0, 0, 2), dead.port(), &fleet.registry);
    let string =
        format!("host=registry.example port={} user=fleet dbname=postgres connect_timeout=2", dead.port());
    let server = fleet.server_by(string).stopped();
    let hosts = "127.0.0.1 registry.example\n127.0.0.2 registry.example\n";
    let started = start_with_file(&server, "/etc/hosts", hosts);
    let Some(()) = needs("a file system of its own (run as root)", started) else { return };
    server.connect().run("CREATE EXTENSION snowflake_id");
    leased_worker(&server);
    assert!(dead.made() > 0, "the other address came first");
}

/// A host rejects the login if one of its addresses does. If another host does not answer, it may be the registry.
#[test]
fn some_hosts_reject_the_login() {
    let fleet = Fleet::start(LASTING_LEASES);
    let (right, unused) = (Proxy::to(&fleet.registry), unused_port());
    // No server listens on the second address of the name.
    let name = format!("registry.example:{}", right.port());
    let names = "127.0.0.1 registry.example\n127.0.0.2 registry.example\n";
    let string = |hosts: &[&str]| {
        let (hosts, ports): (Vec<_>, Vec<_>) = hosts.iter().map(|host| host.split_once(':').unwrap()).unzip();
        format!("host={} port={} user=nobody dbname=postgres", hosts.join(","), ports.join(","))
    };
    let server = fleet.server_by(string(&[&name])).stopped();
    let started = start_with_file(&server, "/etc/hosts", names);
    let Some(()) = needs("a file system of its own (run as root)", started) else { return };
    server.connect().run("CREATE EXTENSION snowflake_id");
    wait_for_registry_state(&server, "login refused");
    let (refusing, dead) = (format!("127.0.0.1:{}", right.port()), format!("127.0.0.1:{unused}"));
    for (hosts, state) in [
        ([&name, &dead], "unreachable"),
        ([&name, &refusing], "login refused"),
        ([&dead, &name], "unreachable"),
    ] {
        server.change("snowflake_id.registry", &string(&hosts.map(|host| &**host)));
        wait_for_registry_state(&server, state);
    }
}

/// The first of two addresses is a black hole.
#[test]
fn the_first_address_is_a_black_hole() {
    let Some(network) = needs(NETWORK, Network::make()) else { return };
    let registry = Cluster::builder().stopped();
    network.start_server(&registry);
    let fleet = Fleet::on(registry, LASTING_LEASES);
    let dead = Network::make().unwrap();
    dead.lose_all();
    let addresses = format!("hostaddr={},{}", dead.address(), network.address());
    let registry = format!("host=registry,registry {addresses} user=fleet dbname=postgres connect_timeout=2");
    let server = fleet.server_by(registry).start();
    leased_worker(&server);
}

/// Parameters that libpq finds elsewhere: a service, a password, certificates, an address. After each error, a right
/// connection string is used at once. Errors are reported in libpq's words, and contain no password.
#[test]
fn whatever_libpq_can() {
    if !has_tls() {
        return;
    }
    let registry = Cluster::builder().stopped();
    let address = format!("127.77.{}.{}", std::process::id() % 250, std::process::id() / 250 % 250);
    registry.configure(&[("listen_addresses", &address), ("ssl", "on")]);
    // A connection to another address of this host comes from 127.0.0.1.
    let hba = "local all all trust\nhostssl all fleet 127.0.0.1/32 scram-sha-256\n";
    fs::write(registry.data_dir().join("pg_hba.conf"), hba).unwrap();
    let authority = certificates(&registry, "registry.example");
    registry.start_server();
    let fleet = Fleet::on(registry, LASTING_LEASES);
    fleet.registry.connect().run("ALTER ROLE fleet PASSWORD 'Gänse füßchen'");
    let whole =
        format!("host=registry.example hostaddr={address} user=fleet dbname=postgres sslmode=verify-full");
    let url = format!("postgresql://fleet@registry.example/postgres?hostaddr={address}&sslmode=verify-full");
    let server = fleet.server_by("service=nowhere").stopped();
    server.write_private("passwords", "registry.example:*:*:fleet:Gänse füßchen\n");
    let service = format!(
        "[registry]\nhost=registry.example,registry.example\nhostaddr=127.0.0.1,{address}\nport={},5432\n\
         user=fleet\ndbname=postgres\nsslmode=verify-full\n",
        unused_port()
    );
    let environment = [
        ("PGSERVICEFILE", server.write_private("services", &service)),
        ("PGPASSFILE", server.host().join("passwords")),
        ("PGSSLROOTCERT", authority),
    ];
    server.start_server_by(|mut pg_ctl| {
        pg_ctl.envs(environment);
        pg_ctl
    });
    let wrong_passwords = server.write_private("wrong_passwords", "*:*:*:fleet:wrong\n");
    let mut client = server.connect();
    client.run("CREATE EXTENSION snowflake_id");
    let mut all = vec![];
    for (wrong, state, said, right) in [
        ("service=nowhere", "unreachable", "service", &*whole),
        (
            &*whole.replace("registry.example", "other.example"),
            "unreachable",
            "does not match host name \"other.example\"",
            "service=registry",
        ),
        (&*format!("{whole} passfile=/nonexistent"), "login refused", "no password supplied", &url),
        (
            &*format!("{whole} passfile={}", wrong_passwords.display()),
            "login refused",
            "password retrieved from file",
            &whole,
        ),
        (&*format!("{whole} sslrootcert=/nonexistent/root.crt"), "unreachable", "root certificate", &whole),
    ] {
        server.change("snowflake_id.registry", wrong);
        let error = wait_for_error(&server, said);
        assert_eq!(shown(&mut client, "registry_state").as_deref(), Some(state));
        assert!(!error.contains("füßchen") && !server.log().contains("füßchen"), "{error}");
        if all.is_empty() {
            assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55000");
        }
        server.change("snowflake_id.registry", right);
        wait_for_registry_state(&server, "granted");
        all.extend(some_ids(&server));
    }
    assert_increasing(&all);
}

/// Servers share two connections to the registry through a pool that assigns them for one transaction each.
#[test]
fn a_pool_of_connections() {
    let fleet = Fleet::start(LASTING_LEASES);
    let Some(pool) = Pool::start_at(&fleet.registry, "fleet", unused_port()) else { return };
    let string = format!("host=127.0.0.1 port={} user=fleet dbname=postgres", pool.port());
    let server = fleet.server_by(string).set("shared_buffers", "1MB");
    let servers: Vec<Cluster> = (0..3).map(|_| server.clone().start()).collect();
    let workers: Vec<i64> = servers.iter().map(|server| leased_worker(server).into()).collect();
    assert_distinct(&workers);
    assert_distinct(&take_from(&servers));
    for server in &servers {
        assert_renewed(server);
    }
    let mut registry = fleet.registry.connect();
    assert!(fleet_connections(&mut registry) <= 2);
    // The pool is restarted: all servers continue.
    let port = pool.port();
    drop(pool);
    wait_for_registry_state(&servers[0], "unreachable");
    let _pool = Pool::start_at(&fleet.registry, "fleet", port).unwrap();
    for (server, worker) in servers.iter().zip(workers) {
        assert_renewed(server);
        assert_eq!(i64::from(leased_worker(server)), worker);
    }
}

/// Starts a server with one file of the host replaced for that server alone.
pub fn start_with_file(server: &Cluster, file: &str, text: &str) -> Result<(), String> {
    fs::write(server.host().join("file"), text).unwrap();
    // The server has a mount namespace of its own, which ends with it.
    let within = |pg_ctl: Command| {
        let mut start = Command::new("unshare");
        start.args(["--mount", "sh", "-c", "mount --bind file \"$0\" && exec \"$@\"", file]);
        then_as_server_user(&mut start, &pg_ctl);
        start.current_dir(server.host());
        start
    };
    server.try_to_start_by(within)
}

/// Gives a server a key and a certificate for a host name. Returns the certificate of the authority that signed it.
pub fn certificates(server: &Cluster, host: &str) -> PathBuf {
    let dir = server.host();
    let openssl = |arguments: &str| {
        successful(Command::new("openssl").args(arguments.split_whitespace()).current_dir(dir));
    };
    let new = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("{new} -x509 -days 2 -subj /CN=authority -keyout authority.key -out authority.crt"));
    openssl(&format!("{new} -subj /CN={host} -keyout server.key -out server.csr"));
    openssl(
        "x509 -req -in server.csr -CA authority.crt -CAkey authority.key -CAcreateserial -days 2 -out server.crt",
    );
    for file in ["server.key", "server.crt"] {
        let text = fs::read_to_string(dir.join(file)).unwrap();
        let written = server.write_private(file, &text);
        fs::rename(written, server.data_dir().join(file)).unwrap();
    }
    dir.join("authority.crt")
}
