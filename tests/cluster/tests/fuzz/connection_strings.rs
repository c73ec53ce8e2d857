//! Random connection strings of the registry. The server refuses those that it cannot parse, tries to connect with the
//! others, and obtains a lease as soon as the string is valid again.

use harness::fuzz::Rounds;
use harness::*;

/// Keywords with values. No value names a host outside this machine.
const OPTIONS: [(&str, &[&str]); 12] = [
    (
        "host",
        &["/nowhere", "127.0.0.1", "::1", "", ",", "127.0.0.1,/nowhere", "@abstract", "/nowhere,,/nowhere"],
    ),
    ("hostaddr", &["127.0.0.1", "::1", "", "999.0.0.1", "127.0.0.1,::1", ",,"]),
    ("port", &["1", "0", "-1", "65536", "1,2", "1,2,3", "", "9999999999", "x"]),
    ("dbname", &["postgres", "", "é", "host=/nowhere", "postgresql:///x"]),
    ("user", &["fleet", "", "🙂"]),
    ("connect_timeout", &["1", "0", "-1", "2147483648", "x", " 2 "]),
    ("load_balance_hosts", &["random", "disable", "x"]),
    ("options", &["-c work_mem=1MB", "-c", "--x"]),
    ("application_name", &["", "%s%n", "\u{1b}[31m"]),
    ("sslmode", &["disable", "require", "x"]),
    ("target_session_attrs", &["any", "read-write", "x"]),
    ("unknown", &["1"]),
];

fn string(random: &mut Random) -> String {
    let mut all = vec![];
    for _ in 0..random.below(6) {
        let (keyword, values) = random.one_of(&OPTIONS);
        let value = random.one_of(values);
        all.push(match random.below(4) {
            0 => format!("{keyword}={value}"),
            1 => format!("{keyword} = '{value}"),
            _ => format!("{keyword}='{value}'"),
        });
    }
    // Without a host, libpq would connect to a server of this machine.
    format!("host=/nowhere {}", all.join(" "))
}

#[test]
fn random_connection_strings() {
    let fleet = Fleet::start("lease => '1min', renew_every => '200ms'");
    let server = fleet.server().start();
    leased_worker(&server);
    let mut client = server.connect();
    let mut rounds = Rounds::new();
    while rounds.go_on() {
        let string = string(&mut rounds.random);
        server.change("snowflake_id.registry", &string);
        rounds.query(&mut client, "SELECT * FROM snowflake_status", &[]);
    }
    server.change("snowflake_id.registry", &fleet.connection_string());
    assert_renewed(&server);
    rounds.finish(&[&server, &fleet.registry]);
}
