//! Calls of `snowflake_adopt_online()`.

use postgres::{Client, Config, NoTls};

use crate::{Cluster, TIMEOUT};

/// Calls `snowflake_adopt_online()` with these arguments, and executes the statements that it returns, until nothing is left
/// to do.
pub fn adopt_online(client: &mut Client, arguments: &str) -> Result<(), postgres::Error> {
    while let Some(command) = adopt_once(client, arguments)? {
        client.batch_execute(&command)?;
    }
    Ok(())
}

/// Calls `snowflake_adopt_online()` once. Returns the statement that the caller must execute before the next call. `None`
/// means that nothing is left to do.
pub fn adopt_once(client: &mut Client, arguments: &str) -> Result<Option<String>, postgres::Error> {
    let call = format!("CALL snowflake_adopt_online({arguments}, dry_run => false)");
    Ok(client.query_one(&call, &[])?.get(0))
}

/// The number of objects and comments that an adoption has left in a database: columns, constraints, triggers, functions,
/// indexes, and comments of columns and constraints.
pub const LEFT_OVER: &str = "
    SELECT (SELECT count(*) FROM pg_attribute WHERE attname LIKE 'snowflake_new_%' AND NOT attisdropped)
         + (SELECT count(*) FROM pg_constraint WHERE conname LIKE 'snowflake_new_%')
         + (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'zz_snowflake_new_%')
         + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'snowflake_new_%')
         + (SELECT count(*) FROM pg_class WHERE relname LIKE 'snowflake_new_%')
         + (SELECT count(*) FROM pg_description WHERE description LIKE 'snowflake_adopt_online: %')
         + (SELECT count(*) FROM pg_index WHERE NOT indisvalid)";

impl Cluster {
    /// Connects a role to database `postgres`. Passes the messages of all notices and warnings to `hear`.
    pub fn try_connect_heard(
        &self,
        role: &str,
        hear: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Client, postgres::Error> {
        Config::new()
            .host_path(self.host())
            .user(role)
            .dbname("postgres")
            .connect_timeout(TIMEOUT)
            .notice_callback(move |notice| hear(notice.message()))
            .connect(NoTls)
    }
}
