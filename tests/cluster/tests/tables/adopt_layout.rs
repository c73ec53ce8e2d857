//! The default of an adopted column takes IDs in the layout of the session that inserts a row, so a layout that other
//! sessions do not have is refused.

use harness::*;
use postgres::NoTls;

const ADOPT: &str = "SELECT snowflake_adopt('tweets', 'id', dry_run => false)";
const ADOPT_ONLINE: &str = "CALL snowflake_adopt_online('tweets', 'id', dry_run => false)";

/// A server with a table whose keys are below new IDs of layout `twitter`, and above those of `standard`.
fn server() -> Cluster {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    client.run(
        "CREATE TABLE tweets (id bigint PRIMARY KEY, body text);
         INSERT INTO tweets VALUES (snowflake_max_id(now() - interval '1 min', 'twitter'), 'old')",
    );
    cluster
}

/// The next row of another session has the highest key.
fn assert_above(cluster: &Cluster) {
    let query = "INSERT INTO tweets (body) VALUES ('new') RETURNING id > (SELECT max(id) FROM tweets)";
    assert!(single::<bool>(&mut cluster.connect(), query));
}

/// Both functions refuse a layout of the session, in a dry run too. HINT contains the command for all sessions.
#[test]
fn a_layout_of_the_session_is_refused() {
    let cluster = server();
    let mut client = cluster.connect();
    client.run("SET snowflake_id.layout = 'twitter'");
    for call in [ADOPT, ADOPT_ONLINE] {
        for dry_run in ["false", "true"] {
            let (code, message) = failure(&mut client, &call.replace("false", dry_run));
            assert_eq!(code, "55000", "{message}");
            assert!(message.starts_with("snowflake_id.layout is set only in this session\n"), "{message}");
        }
    }
    // A setting of the connection is one of the session too.
    let place = cluster.connection_string("test");
    let mut other =
        Client::connect(&format!("{place} options='-c snowflake_id.layout=twitter'"), NoTls).unwrap();
    assert_eq!(failure(&mut other, ADOPT).0, "55000");

    let (_, message) = failure(&mut client, ADOPT);
    let (_, command) = message.rsplit_once(": ").unwrap();
    assert!(command.starts_with("ALTER DATABASE "), "{command}");
    client.run(command);
    let mut client = cluster.connect();
    client.run(ADOPT);
    assert_above(&cluster);
    assert!(!cluster.log().contains("snowflake_id.layout is set for role"));
}

/// The layout of the configuration file has no remark. If only this role has the layout, there is a warning.
#[test]
fn a_layout_of_a_role_is_reported() {
    let cluster = server();
    cluster.connect().run("ALTER ROLE CURRENT_USER SET snowflake_id.layout = 'twitter'");
    let mut client = cluster.connect();
    client.run(&ADOPT.replace("false", "true"));
    let warning = "snowflake_id.layout is set for role";
    eventually("the warning", || cluster.log().contains(warning));

    client.run("ALTER ROLE CURRENT_USER RESET snowflake_id.layout");
    let mut client = cluster.connect();
    cluster.change_for(&mut client, "snowflake_id.layout", "twitter");
    client.run(ADOPT);
    assert_above(&cluster);
    assert_eq!(cluster.log().matches(warning).count(), 1);
}
