//! Registries as a fleet uses them: servers connect as role `fleet`, which may call the functions that they need.

use postgres::Client;

use crate::{Builder, Cluster, Run};

/// A registry to be created.
pub struct Registry {
    /// The functions that servers may call.
    functions: &'static str,
    /// Arguments of `snowflake_registry.configure()`.
    configuration: String,
    /// Whether it grants worker IDs at once.
    has_started: bool,
}

impl Registry {
    /// A registry that grants worker IDs. `configuration` holds arguments of `snowflake_registry.configure()`.
    pub fn of_leases(configuration: &str) -> Registry {
        let functions = "snowflake_registry.acquire, snowflake_registry.renew";
        Registry { functions, configuration: configuration.into(), has_started: true }
    }

    /// A registry that grants numbers.
    pub fn of_segments(configuration: &str) -> Registry {
        let functions = "snowflake_registry.take";
        Registry { functions, configuration: configuration.into(), has_started: false }
    }

    /// A registry that grants worker IDs and numbers.
    pub fn of_both(configuration: &str) -> Registry {
        let functions = "snowflake_registry.acquire, snowflake_registry.renew, snowflake_registry.take";
        Registry { functions, configuration: configuration.into(), has_started: true }
    }

    /// A registry that grants worker IDs and numbers to servers and to programs.
    pub fn of_programs(configuration: &str) -> Registry {
        let functions = "snowflake_registry.acquire, snowflake_registry.renew, snowflake_registry.release, \
                         snowflake_registry.take";
        Registry { functions, configuration: configuration.into(), has_started: true }
    }

    /// Leaves the call of `start_fleet()` to the caller.
    pub fn not_started(self) -> Registry {
        Registry { has_started: false, ..self }
    }

    /// Creates the registry on a new server.
    pub fn start(&self, server: Builder) -> Cluster {
        let server = server.extensions(&["snowflake_id_registry"]).start();
        let mut client = server.connect();
        client.run("CREATE ROLE fleet LOGIN");
        self.configure(&mut client);
        server
    }

    /// Creates the registry on a running server.
    pub fn make_on(&self, server: &Cluster) {
        let mut client = server.connect();
        client.run("CREATE ROLE fleet LOGIN");
        self.make(&mut client);
    }

    /// Creates the registry in the database of a connection, as its user. The role must exist.
    pub fn make(&self, client: &mut Client) {
        client.run("CREATE EXTENSION snowflake_id_registry");
        self.configure(client);
    }

    fn configure(&self, client: &mut Client) {
        // The configuration may reduce the pool.
        let start = "SELECT snowflake_registry.start_fleet(0, 2147483647, first_start => true);";
        let start = if self.has_started { start } else { "" };
        client.run(&format!(
            "{start}
             SELECT snowflake_registry.configure({});
             GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
             GRANT EXECUTE ON FUNCTION {} TO fleet;",
            self.configuration, self.functions
        ));
    }
}
