//! PgBouncer in front of a server.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::user::as_server_user;
use crate::{Cluster, eventually, kill, needs};

/// PgBouncer in transaction mode, with two connections to the server for each role.
pub struct Pool {
    process: Child,
    port: u16,
}

impl Pool {
    /// Starts a pool for a role on a port.
    pub fn start_at(server: &Cluster, role: &str, port: u16) -> Option<Pool> {
        needs("PgBouncer (Debian: pgbouncer)", Command::new("pgbouncer").arg("--version").output())?;
        let users = server.write_private("users.txt", &format!("\"{role}\" \"\"\n"));
        let configuration = format!(
            "[databases]\npostgres = host={} port=5432\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 2\n\
             logfile = {}\n",
            server.host().display(),
            users.display(),
            server.host().join("pgbouncer.log").display()
        );
        let configuration = server.write_private("pgbouncer.ini", &configuration);
        // PgBouncer refuses to run as root.
        let process = as_server_user(Path::new("pgbouncer"))
            .arg(configuration)
            .current_dir(server.host())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pool = Pool { process, port };
        eventually("PgBouncer", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Some(pool)
    }

    /// The port on which the pool listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SIGTERM stops it at once.
        kill("TERM", self.process.id() as i32);
        let _ = self.process.wait();
    }
}
