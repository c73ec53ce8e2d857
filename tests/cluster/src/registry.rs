//! Registries as a fleet has them: servers connect as role `fleet`, and may call what they need.

use postgres::Client;

use crate::{Builder, Cluster, Run};

/// A registry that is to be made.
pub struct Registry {
    /// The functions that servers may call.
    functions: &'static str,
    /// Arguments of `snowflake_registry.configure()`.
    configuration: String,
    /// Whether it gives out worker IDs at once.
    has_started: bool,
}

impl Registry {
    /// One that gives out worker IDs. `configuration` are arguments of `snowflake_registry.configure()`.
    pub fn of_leases(configuration: &str) -> Registry {
        let functions = "snowflake_registry.acquire, snowflake_registry.renew";
        Registry { functions, configuration: configuration.into(), has_started: true }
    }

    /// One that gives out numbers.
    pub fn of_segments(configuration: &str) -> Registry {
        let functions = "snowflake_registry.take";
        Registry { functions, configuration: configuration.into(), has_started: false }
    }

    /// One that gives out both.
    pub fn of_both(configuration: &str) -> Registry {
        let functions = "snowflake_registry.acquire, snowflake_registry.renew, snowflake_registry.take";
        Registry { functions, configuration: configuration.into(), has_started: true }
    }

    /// Somebody else is to call `start_fleet()`.
    pub fn not_started(self) -> Registry {
        Registry { has_started: false, ..self }
    }

    /// Makes it on a new server.
    pub fn start(&self, server: Builder) -> Cluster {
        let server = server.extensions(&[]).start();
        self.make_on(&server);
        server
    }

    /// Makes it on a server that is running.
    pub fn make_on(&self, server: &Cluster) {
        let mut client = server.connect();
        client.run("CREATE ROLE fleet LOGIN");
        self.make(&mut client);
    }

    /// Makes it in the database of a connection, as its user. The role is there.
    pub fn make(&self, client: &mut Client) {
        let start = if self.has_started { "SELECT snowflake_registry.start_fleet();" } else { "" };
        client.run(&format!(
            "CREATE EXTENSION snowflake_id_registry;
             {start}
             SELECT snowflake_registry.configure({});
             GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
             GRANT EXECUTE ON FUNCTION {} TO fleet;",
            self.configuration, self.functions
        ));
    }
}
