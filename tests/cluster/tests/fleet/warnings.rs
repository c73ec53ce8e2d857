//! Warnings of the registry's server that are not about a commit. No lease ends because of them.

use std::fs;
use std::sync::{Arc, Mutex};

use harness::*;

use crate::client::program::{Options, options, start};

/// The registry warns with each answer that its transaction IDs run out.
#[test]
fn a_registry_that_must_be_vacuumed() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().start();
    let worker = leased_worker(&server);
    use_up_transaction_ids(&fleet.registry);
    assert_renewed(&server);
    assert_eq!(leased_worker(&server), worker);
    let newcomer = fleet.server().start();
    let program = start(options(&fleet));
    let mut all = take_from(&[server, newcomer]);
    all.extend((0..1_000).map(|_| program.next_id().unwrap()));
    assert_distinct(&all);
    assert!(fleet.registry.log().contains("must be vacuumed within"));
    assert_eq!(warnings(&fleet.connection_string(), "SELECT pg_current_xact_id()"), ["GetNewTransactionId"]);
}

/// The functions of PostgreSQL from which a statement raises warnings.
fn warnings(connection: &str, statement: &str) -> Vec<String> {
    let noted = Arc::new(Mutex::new(vec![]));
    let notes = noted.clone();
    let mut config: postgres::Config = connection.parse().unwrap();
    config.notice_callback(move |notice| notes.lock().unwrap().extend(notice.routine().map(str::to_owned)));
    config.connect(postgres::NoTls).unwrap().run(statement);
    noted.lock().unwrap().clone()
}

/// The registry warns at each login: of a setting of the role that has become invalid, and since version 19 of a password
/// that will expire soon.
#[test]
fn logins_with_warnings() {
    let fleet = Fleet::start(LASTING_LEASES);
    fs::write(
        fleet.registry.data_dir().join("pg_hba.conf"),
        "local all fleet scram-sha-256\nlocal all all trust\n",
    )
    .unwrap();
    fleet.registry.reload();
    fleet.registry.connect().run(
        "CREATE ROLE gone; GRANT gone TO fleet; ALTER ROLE fleet SET role = gone; DROP ROLE gone;
         DO $$ BEGIN EXECUTE format('ALTER ROLE fleet PASSWORD ''secret'' VALID UNTIL %L', now() + '3 days'); END $$",
    );
    let passwords = fleet.registry.write_private("passwords", "*:*:*:fleet:secret\n");
    let string = fleet.connection_string();
    let server = fleet.server_by(format!("{string} passfile={}", passwords.display())).start();
    leased_worker(&server);
    assert_renewed(&server);
    let program = start(Options::new(&format!("{string} password=secret")));
    program.next_id().unwrap();
    let log = fleet.registry.log();
    assert!(log.contains("WARNING:  role \"gone\" does not exist"), "{log}");
    if major(&pg_config()) >= 19 {
        assert!(log.contains("WARNING:  role password will expire soon"), "{log}");
    }
}
