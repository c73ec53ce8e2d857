//! The programs of docs/apps, run as they are. A comment after a line that prints
//! gives the output: `an ID` stands for the ID of a row in table `orders`.
//!
//! These tests are not part of a plain `cargo test`: scripts/clients.sh installs their requirements below
//! target/clients and runs them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use harness::book::{read, root};
use harness::*;

/// Makes a test of each program, with the commands that are run before it.
macro_rules! programs {
    ($($name:ident: $program:literal, $setup:expr;)*) => {$(
        #[test]
        #[ignore = "needs packages: make clients"]
        fn $name() {
            check($program, $setup);
        }
    )*};
}

mod python {
    use super::*;

    programs! {
        django: "python/django_orders.py", MAKES_TABLE;
        sqlalchemy: "python/sqlalchemy_orders.py", MAKES_TABLE;
        psycopg: "python/psycopg_orders.py", TABLE;
        asyncpg: "python/asyncpg_orders.py", TABLE;
        type_of_sqlalchemy: "python/sqlalchemy_type.py", MAKES_TABLE;
        type_of_django: "python/django_type.py", MAKES_TABLE;
    }

    /// Drivers that read a value of type `snowflake` as a string until the type is registered.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn type_of_drivers() {
        let cluster = Cluster::builder().worker(1).start();
        for program in ["python/psycopg_type.py", "python/asyncpg_type.py"] {
            assert!(prints(program, cluster.host().to_str().unwrap(), "postgres").is_empty());
        }
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn data_frames() {
        let cluster = Cluster::builder().worker(1).start();
        assert!(prints("python/data_frames.py", cluster.host().to_str().unwrap(), "postgres").is_empty());
    }

    /// jq rounds in calculations, in each version: "Doubles outside JavaScript" in docs/apps/json.md.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn jq() {
        let page = read("docs/apps/json.md");
        let line = page.lines().find(|line| line.ends_with("jq --compact-output 'map(. + 0)'")).unwrap();
        let output = String::from_utf8(successful(Command::new("sh").args(["-c", line])).stdout).unwrap();
        let (first, second) = output.trim_end().trim_matches(['[', ']']).split_once(',').unwrap();
        assert_eq!(first, second, "{output}");
        assert!(first.starts_with("15418156036060"), "{output}");
    }

    /// The type and the models of the page, with all drivers that it names.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn type_of_sqlalchemy_with_all_drivers() {
        is_shown("python/snowflake_type.py");
        assert_eq!(
            output_of("python/sqlalchemy_drivers.py"),
            "psycopg works\npsycopg2 works\npg8000 works\nasyncpg works\n"
        );
    }

    /// After the adoption of its table, the users of django.contrib.auth are found only with the settings of the page.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn django_auth() {
        for file in
            ["settings.py", "shop/apps.py", "shop/auth_migrations/__init__.py", "shop/generic_columns.py"]
        {
            is_shown(&format!("python/django_auth/{file}"));
        }
        assert_eq!(
            output_of("python/django_auth/check.py"),
            "before: a number of the sequence, found 1\n\
             before: before is logged in\n\
             before: 1 in the group\n\
             before: Note of before\n\
             before: BigNote of before\n\
             adopted: an ID, found 0\n\
             adopted: Save with update_fields did not affect any rows.\n\
             adopted: Note: integer out of range\n\
             adopted: BigNote of None\n\
             changed: an ID, found 1\n\
             changed: changed is logged in\n\
             changed: 1 in the group\n\
             changed: Note: integer out of range\n\
             changed: BigNote of changed\n\
             shop_note object_id integer\n\
             shop_bignote object_id bigint\n\
             new: an ID, found 1\n\
             new: new is logged in\n\
             new: 1 in the group\n\
             new: Note: integer out of range\n\
             new: BigNote of new\n"
        );
    }

    /// "Other tools".
    #[test]
    #[ignore = "needs packages: make clients"]
    fn tools() {
        assert_eq!(
            output_of("python/tools.py"),
            "Alembic, bigint: 0 differences, 0 warnings\n\
             Alembic, snowflake as bigint: 0 differences, 2 warnings\n\
             Alembic, snowflake: 0 differences, 0 warnings\n\
             Alembic, registered snowflake as bigint: 2 differences, 0 warnings\n\
             peewee, bigint: int, 2 IDs, 3 found, int\n\
             peewee, snowflake: int, 2 IDs, 3 found, int\n\
             peewee, foreign key: True\n\
             Tortoise with asyncpg, TortoiseSerial: a number of a sequence, ['DatabaseDefault', 'DatabaseDefault']\n\
             Tortoise with asyncpg, TortoiseNumber: an ID, ['DatabaseDefault', 'DatabaseDefault']\n\
             Tortoise with asyncpg, TortoiseTyped: an ID, ['DatabaseDefault', 'DatabaseDefault']\n\
             Tortoise with asyncpg, own key: OperationalError\n\
             Tortoise with asyncpg, foreign key: OperationalError\n\
             Tortoise with psycopg, TortoiseSerial: a number of a sequence, ['DatabaseDefault', 'DatabaseDefault']\n\
             Tortoise with psycopg, TortoiseNumber: an ID, ['DatabaseDefault', 'DatabaseDefault']\n\
             Tortoise with psycopg, TortoiseTyped: an ID, ['DatabaseDefault', 'DatabaseDefault']\n\
             Tortoise with psycopg, own key: works\n\
             Tortoise with psycopg, foreign key: works\n\
             pandas, bigint: [1541815603606036481]\n\
             ConnectorX, bigint: [1541815603606036481]\n\
             ADBC, bigint: [1541815603606036481]\n\
             pandas, snowflake: ['1541815603606036481']\n\
             ConnectorX, snowflake: not implemented: snowflake\n\
             ADBC, snowflake: [b'\\x15e\\xa1\\x1fb\\x17\\xa0\\x01']\n\
             pandas, id::bigint: [1541815603606036481]\n\
             ConnectorX, id::bigint: [1541815603606036481]\n\
             ADBC, id::bigint: [1541815603606036481]\n"
        );
    }

    /// The output of a program in a database with the extension.
    fn output_of(program: &str) -> String {
        let cluster = Cluster::builder().worker(1).start();
        cluster.connect().run("CREATE DATABASE shop");
        cluster.connect_to("shop").run("CREATE EXTENSION snowflake_id");
        output(program, cluster.host().to_str().unwrap(), "shop")
    }
}

mod javascript {
    use super::*;

    /// A table that references table `orders`.
    const PARTS: &str = "CREATE TABLE parts (id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
                             order_id bigint NOT NULL REFERENCES orders)";

    programs! {
        node_postgres: "javascript/node_postgres_orders.mjs", TABLE;
        typeorm: "javascript/typeorm_orders.mjs", MAKES_TABLE;
        sequelize: "javascript/sequelize_orders.mjs", MAKES_TABLE;
        mikroorm: "javascript/mikroorm_orders.mjs", MAKES_TABLE;
        kysely: "javascript/kysely_orders.mjs", MAKES_TABLE;
        knex: "javascript/knex_orders.mjs", MAKES_TABLE;
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn rounding_and_arrays() {
        let cluster = Cluster::builder().worker(1).start();
        for program in ["javascript/rounding.mjs", "javascript/node_postgres_arrays.mjs"] {
            assert!(prints(program, cluster.host().to_str().unwrap(), "postgres").is_empty());
        }
    }

    /// TypeORM keeps a column of type `snowflake` if the type is registered.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn typeorm_with_type() {
        let cluster = Cluster::builder().worker(1).start();
        let mut client = cluster.connect();
        client.run(
            "CREATE TABLE orders (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), item text NOT NULL);
             INSERT INTO orders (id, item) VALUES (1541815603606036481, 'tea')",
        );
        prints("javascript/typeorm_type.mjs", cluster.host().to_str().unwrap(), "postgres");
        let rows =
            "SELECT count(*) FROM orders WHERE item = 'tea' AND id = 1541815603606036481 OR item = 'milk'";
        assert_eq!(single::<i64>(&mut client, rows), 2);
    }

    /// The table of the page: what the schema tools create, and what they do with existing columns of type `snowflake`.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn types() {
        let cluster = Cluster::builder().worker(1).start();
        assert_eq!(
            output("javascript/types.mjs", cluster.host().to_str().unwrap(), "postgres"),
            "postgres.js, arrays: true [ '1541815603606036481' ]\n\
             postgres.js, arrays: false {1541815603606036481}\n\
             Sequelize: int8 int8 [ 'snowflake', 'snowflake', 'int8' ] string 2\n\
             Sequelize: snowflake snowflake [ 'snowflake', 'snowflake', 'snowflake' ] string 2\n\
             TypeORM: int8 int8 [ 'ALTER TABLE \"orders\" DROP COLUMN \"id\"' ] true true\n\
             TypeORM: snowflake snowflake [] true true\n\
             MikroORM: int8 int8 nextval('orders_id_seq'::regclass) false int8 string 1\n\
             MikroORM: int8 int8 snowflake_nextval() true int8 string 1\n\
             MikroORM: snowflake snowflake snowflake_nextval() true snowflake string 1\n\
             Kysely: snowflake\n\
             Knex: snowflake\n"
        );
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn postgres_js() {
        check("javascript/postgres_js_orders.mjs", TABLE);
        check("javascript/postgres_js_orders.mjs", &of_type(TABLE));
    }

    /// The migration is generated from the schema.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn drizzle() {
        is_shown("javascript/drizzle/schema.js");
        let migrations = installed("javascript/drizzle/migrations");
        if migrations.exists() {
            fs::remove_dir_all(&migrations).unwrap();
        }
        as_on_page("javascript/drizzle", "npx drizzle-kit generate", &[]);
        check("javascript/drizzle/orders.js", MAKES_TABLE);
    }

    /// `drizzle-kit push` creates the tables once, and then finds no difference. With a model of `bigint`, it changes the
    /// type back. `drizzle-kit pull` writes models that have to be changed.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn drizzle_kit() {
        const DIRECTORY: &str = "javascript/drizzle";
        let config = is_shown("javascript/drizzle/drizzle.config.js");
        let cluster = Cluster::builder().worker(1).start();
        let environment =
            [("PGHOST", cluster.host().to_str().unwrap()), ("PGUSER", "test"), ("PGDATABASE", "postgres")];
        let push = || as_on_page(DIRECTORY, "npx drizzle-kit push", &environment);
        // With another line in the configuration.
        let drizzle_kit = |command: &str, line: &str| {
            let other = config.replace("schema: 'snowflake_schema.js'", line);
            assert_ne!(other, config);
            fs::write(installed(DIRECTORY).join("other.config.js"), other).unwrap();
            let mut drizzle_kit = Command::new("npx");
            drizzle_kit.args(["drizzle-kit", command, "--config=other.config.js"]);
            successful(drizzle_kit.current_dir(installed(DIRECTORY)).envs(environment));
        };
        let pull = || {
            let pulled = installed(DIRECTORY).join("pulled");
            fs::remove_dir_all(&pulled).ok();
            drizzle_kit("pull", "out: 'pulled'");
            fs::read_to_string(pulled.join("schema.ts")).unwrap()
        };
        let mut client = cluster.connect();
        let type_of_id = "SELECT atttypid::regtype::text FROM pg_attribute
                          WHERE attrelid = 'orders'::regclass AND attname = 'id'";

        let output = push();
        assert!(output.contains("Changes applied"), "{output}");
        assert_eq!(single::<String>(&mut client, type_of_id), "snowflake");
        let output = push();
        assert!(output.contains("No changes detected"), "{output}");
        let pulled = pull();
        assert!(pulled.contains("id: unknown(\"id\").primaryKey()"), "{pulled}");

        client.run("DROP TABLE parts");
        drizzle_kit("push", "schema: 'schema.js'");
        assert_eq!(single::<String>(&mut client, type_of_id), "bigint");
        let pulled = pull();
        assert!(pulled.contains("id: bigint({ mode: \"number\" })"), "{pulled}");
    }

    /// Relational queries are exact with type `snowflake`.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn drizzle_with_type() {
        is_shown("javascript/drizzle/snowflake_schema.js");
        check("javascript/drizzle/snowflake.js", &of_type(&format!("{TABLE}; {PARTS}")));
    }

    /// Prisma's migrations need a program that Prisma downloads. The test runs the migration of the page by itself, and
    /// generates the client without that program.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn prisma() {
        is_shown("javascript/prisma/schema.prisma");
        as_on_page(
            "javascript/prisma",
            "npx prisma generate",
            &[("PRISMA_SCHEMA_ENGINE_BINARY", "/bin/true")],
        );
        let migration = is_shown("javascript/prisma/migration.sql");
        check("javascript/prisma/orders.mjs", &migration);
        check("javascript/prisma/orders.mjs", &of_type(&migration));
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn relations_of_prisma() {
        let directory = installed("javascript/prisma");
        let mut generate = Command::new("npx");
        generate.args(["prisma", "generate", "--schema=relations.prisma"]).current_dir(directory);
        successful(generate.env("PRISMA_SCHEMA_ENGINE_BINARY", "/bin/true"));
        let tables = format!("{TABLE}; {PARTS}");
        for tables in [&tables, &of_type(&tables)] {
            let cluster = Cluster::builder().worker(1).start();
            cluster.connect().run(tables);
            let host = cluster.host().to_str().unwrap();
            assert_eq!(output("javascript/prisma/relations.mjs", host, "postgres"), "true\ntrue\n");
        }
    }
}

mod rust {
    use super::*;

    programs! {
        sqlx: "rust/sqlx/src/main.rs", TABLE;
        tokio_postgres: "rust/tokio_postgres/src/main.rs", TABLE;
        seaorm: "rust/seaorm/src/main.rs", MAKES_TABLE;
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn diesel() {
        check("rust/diesel/src/main.rs", TABLE);
        check("rust/diesel/src/main.rs", &of_type(TABLE));
    }
}

/// The programs of "other" with columns of type `snowflake`.
mod other_types {
    use super::*;

    #[test]
    #[ignore = "needs packages: make clients"]
    fn pgx_with_type() {
        check("other/type.go", &of_type(TABLE));
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn database_sql() {
        let cluster = Cluster::builder().worker(1).start();
        let table = TABLE.replace("orders", "of_bigint");
        cluster.connect().run(&format!("{table}; {}", of_type(&table.replace("of_bigint", "of_type"))));
        assert_eq!(
            output("other/database_sql.go", cluster.host().to_str().unwrap(), "postgres"),
            "pgx of_bigint true\npgx of_type true\npostgres of_bigint true\npostgres of_type true\n"
        );
    }

    /// With the initializer, schema.rb contains tables with type `snowflake` and nothing of the extension, an empty
    /// database loads it, and fixtures are loaded whatever the default is.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn initializer_of_rails() {
        is_shown("other/initializer.rb");
        let cluster = Cluster::builder().worker(1).start();
        cluster.connect().run("CREATE DATABASE copy");
        assert_eq!(
            output("other/rails.rb", cluster.host().to_str().unwrap(), "postgres"),
            r#"["public"]
  enable_extension "snowflake_id"
  create_table "orders", id: :snowflake, default: -> { "snowflake_nextval()" }, force: :cascade do |t|
    t.text "item"
  create_table "parts", id: :bigint, default: -> { "snowflake_segment_nextval('parts'::text)" }, force: :cascade do |t|
    t.snowflake "order_id", null: false
    t.snowflake "other_ids", array: true
  add_foreign_key "parts", "orders", name: "parts_order_id_fkey"
true
2
tea
snowflake
milk
true
true
Integer
false
"#
        );
    }
}

mod other {
    use super::*;

    programs! {
        pgx: "other/orders.go", TABLE;
        active_record: "other/orders.rb", MAKES_TABLE;
        sequel: "other/sequel.rb", MAKES_TABLE;
        doctrine: "other/orders.php", MAKES_TABLE;
    }
}

mod java {
    use super::*;

    fn server() -> (Cluster, String) {
        let address = address();
        (Cluster::builder().worker(1).set("listen_addresses", &address).start(), address)
    }

    /// With columns of both types.
    fn check_java(program: &str) {
        for table in [TABLE, &of_type(TABLE)] {
            let (cluster, address) = server();
            check_on(&cluster, &address, program, table);
        }
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn jdbc() {
        check_java("java/Orders.java");
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn spring() {
        check_java("java/TemplateOrders.java");
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn hibernate() {
        check_java("java/HibernateOrders.java");
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn eclipse_link() {
        is_shown("java/META-INF/persistence.xml");
        check_java("java/EclipseLinkOrders.java");
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn blocks() {
        is_shown("java/SnowflakeBlocks.java");
        check_java("java/BlockOrders.java");
    }

    /// The page shows what the program has found, and the silent error of a default strategy.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn tables() {
        let (cluster, address) = server();
        let output = |program| output(program, &address, "postgres");
        let page = read(&page_of("java/JdbcTypes.java"));
        let types = output("java/JdbcTypes.java");
        assert!(
            page.contains(&format!("\n| --- | --- | --- |\n{types}\n")),
            "the page does not show\n{types}"
        );

        cluster.connect().run(TABLE);
        assert_eq!(
            output("java/GeneratedKeys.java"),
            "EclipseLink, IDENTITY: ERROR: lastval is not yet defined in this session\n\
             EclipseLink, IDENTITY, after a row with a serial key: 1\n\
             EclipseLink, blocks of 50: right\n\
             The first generated key, id is not the first column: 7\n\
             Spring, GeneratedKeyHolder, bigint: Long\n\
             Spring, SimpleJdbcInsert, bigint: Long\n\
             Spring, GeneratedKeyHolder, snowflake: DataRetrievalFailureException\n\
             Spring, SimpleJdbcInsert, snowflake: DataRetrievalFailureException\n"
        );
    }

    /// The server crashes meanwhile.
    #[test]
    #[ignore = "needs packages: make clients"]
    fn blocks_under_load() {
        let (cluster, address) = server();
        let mut program = command("java/BlocksUnderLoad.java");
        program
            .args(["4", "2000000"])
            .env("PGHOST", &address)
            .env("PGUSER", "test")
            .env("PGDATABASE", "postgres");
        let mut program = program.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("started"));
        cluster.restart("immediate");
        let results: Vec<String> = lines.collect();
        let found = ["8000000 IDs, 0 repeated, 0 descending", "failures", "old IDs are dropped", "closed"];
        assert_eq!(results, found);
        assert!(program.wait().unwrap().success());
    }
}

/// Tools that mistake a default with the word `nextval` for that of a sequence: "Tools that look for `nextval`" in
/// docs/tables/columns.md.
mod defaults {
    use super::*;

    const TABLES: &str = "CREATE TABLE by_nextval (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);
        CREATE TABLE by_next (id bigint PRIMARY KEY DEFAULT snowflake_next(), item text);
        CREATE TABLE by_segment_nextval (id bigint PRIMARY KEY DEFAULT snowflake_segment_nextval('orders'), item text);
        CREATE TABLE by_segment_next (id bigint PRIMARY KEY DEFAULT snowflake_segment_next('orders'), item text)";

    fn printed(cluster: &Cluster, host: &str, program: &str) -> String {
        cluster.connect().run(TABLES);
        output(program, host, "postgres")
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn active_record_and_sequel() {
        let cluster = Cluster::builder().worker(1).start();
        assert_eq!(
            printed(&cluster, cluster.host().to_str().unwrap(), "other/defaults.rb"),
            "Active Record's fixtures, by_nextval: PG::UndefinedTable: ERROR:  relation \"public\" does not exist\n\
             Sequel, by_nextval: PG::InvalidName: ERROR:  invalid name syntax\n\
             Active Record's fixtures, by_next: 2\n\
             Sequel, by_next: nil\n"
        );
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn jdbc() {
        let address = address();
        let cluster = Cluster::builder().worker(1).set("listen_addresses", &address).start();
        assert_eq!(
            printed(&cluster, &address, "java/Defaults.java"),
            "by_nextval: bigserial, YES\nby_next: int8, NO\n"
        );
    }

    #[test]
    #[ignore = "needs packages: make clients"]
    fn sqlalchemy() {
        let cluster = Cluster::builder().worker(1).start();
        assert_eq!(
            printed(&cluster, cluster.host().to_str().unwrap(), "python/sqlalchemy_defaults.py"),
            "by_segment_nextval: BIGSERIAL\nby_segment_next: BIGINT\n"
        );
    }
}

/// "Tools" in docs/apps/tools.md.
mod tools {
    use super::*;

    /// Without the statement of the page, the foreign server sends the whole table, and an UPDATE locks it.
    #[test]
    #[ignore = "needs an extension of PostgreSQL: make clients"]
    fn postgres_fdw() {
        let cluster = Cluster::builder().worker(1).start();
        let mut client = cluster.connect();
        client.run(&of_type(TABLE));
        client.run(&format!(
            "CREATE EXTENSION postgres_fdw;
             CREATE SERVER shop FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{}', dbname 'postgres');
             CREATE USER MAPPING FOR CURRENT_USER SERVER shop OPTIONS (user 'test');
             CREATE FOREIGN TABLE far (id snowflake, item text) SERVER shop OPTIONS (table_name 'orders');
             CREATE FOREIGN TABLE by_bigint (id bigint, item text) SERVER shop OPTIONS (table_name 'orders')",
            cluster.host().display()
        ));
        let mut sent = |query: &str| {
            let plan = rows_of(&mut client, &format!("EXPLAIN (VERBOSE, COSTS OFF) {query}"));
            let mut lines = plan.iter().map(|row| row.get::<_, String>(0));
            lines.rfind(|line| line.contains("Remote SQL")).unwrap().trim().to_owned()
        };
        let [search, update] = ["SELECT * FROM far WHERE id = 5", "UPDATE far SET item = 'tea' WHERE id = 5"];
        assert_eq!(sent(search), "Remote SQL: SELECT id, item FROM public.orders");
        assert!(sent(update).ends_with("FROM public.orders FOR UPDATE"));
        let found = "Remote SQL: SELECT id, item FROM public.orders WHERE ((id = 5))";
        assert_eq!(sent(&search.replace("far", "by_bigint")), found);

        let page = read("docs/apps/tools.md");
        let (_, statement) = page.split_once("`ALTER SERVER shop").expect("the statement");
        cluster.connect().run(&format!("ALTER SERVER shop{}", statement.split_once('`').unwrap().0));
        assert_eq!(sent(search), found);
        assert!(sent(update).ends_with("WHERE ((id = 5))"));
    }
}

/// An address for a client that needs TCP.
fn address() -> String {
    format!("127.78.{}.{}", std::process::id() % 250, std::process::id() / 250 % 250)
}

/// For programs that create table `orders` themselves.
const MAKES_TABLE: &str = "";
/// For the other programs.
const TABLE: &str = "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)";

/// These commands with columns of type `snowflake`.
fn of_type(commands: &str) -> String {
    commands.replace("bigint", "snowflake").replace("BIGINT", "snowflake")
}

/// Runs a program in a database with the extension, and compares its output with its comments. The IDs that it prints are
/// those of rows, all rows have IDs of this server, and the column has the default.
fn check(program: &str, setup: &str) {
    let cluster = Cluster::builder().worker(1).start();
    check_on(&cluster, cluster.host().to_str().unwrap(), program, setup);
}

/// Like [`check`], on a server that the program finds at this host.
fn check_on(cluster: &Cluster, host: &str, program: &str, setup: &str) {
    cluster.connect().run("CREATE DATABASE shop");
    let mut client = cluster.connect_to("shop");
    client.run("CREATE EXTENSION snowflake_id");
    client.run(setup);
    let start: String = single(&mut client, "SELECT now()::text");
    let ids = prints(program, host, "shop");
    assert!(!ids.is_empty());
    assert_increasing(&ids);
    for id in ids {
        let row = format!("SELECT count(*) FROM orders WHERE id = {id}");
        assert_eq!(single::<i64>(&mut client, &row), 1, "{id}");
    }
    // Also those that the program takes before it inserts rows.
    let others = format!(
        "SELECT count(*) FROM orders
         WHERE snowflake_worker(id) <> 1 OR snowflake_timestamp(id) < '{start}'::timestamptz - interval '1 ms'"
    );
    assert_eq!(single::<i64>(&mut client, &others), 0);
    let default = "SELECT column_default FROM information_schema.columns
                   WHERE table_name = 'orders' AND column_name = 'id' AND udt_name IN ('int8', 'snowflake')";
    assert_eq!(single::<String>(&mut client, default), "snowflake_nextval()");
}

/// Runs a program in a database, and compares its output with its comments. Returns the IDs that it prints, without
/// repetitions in a row.
fn prints(program: &str, host: &str, database: &str) -> Vec<i64> {
    let source = is_shown(program);
    let output = output(program, host, database);
    let printed: Vec<&str> = output.lines().collect();
    let expected: Vec<&str> = source.lines().filter_map(comment).collect();
    assert_eq!(printed.len(), expected.len(), "{output}");
    let mut ids = Vec::new();
    for (printed, expected) in printed.into_iter().zip(expected) {
        let Some((before, after)) = expected.split_once("an ID") else {
            assert_eq!(printed, expected);
            continue;
        };
        let id = printed.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        ids.push(id.and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{printed} is not {expected}")));
    }
    ids.dedup();
    ids
}

/// Runs a program in a database.
fn output(program: &str, host: &str, database: &str) -> String {
    let mut command = command(program);
    command.env("PGHOST", host).env("PGUSER", "test").env("PGDATABASE", database);
    String::from_utf8(successful(&mut command).stdout).unwrap()
}

const PRINTS: [&str; 7] =
    ["print(", "println!(", "console.log(", "System.out.println(", "fmt.Println(", "puts ", "echo "];

/// The expected output in the comment of a line that prints.
fn comment(line: &str) -> Option<&str> {
    let is_print = PRINTS.iter().any(|print| line.trim_start().starts_with(print));
    let (_, comment) = line.rsplit_once("// ").or_else(|| line.rsplit_once("# "))?;
    is_print.then_some(comment)
}

/// The text of a file, by its path in tests/clients. Fails if the page of its language does not show it as it is.
fn is_shown(file: &str) -> String {
    let text = source(file);
    let page = page_of(file);
    assert!(read(&page).contains(&format!("\n{text}```\n")), "{page} does not show {file} as it is");
    text
}

/// Runs the command of the page that begins like this, in a directory of tests/clients. Returns its output.
fn as_on_page(directory: &str, beginning: &str, environment: &[(&str, &str)]) -> String {
    let page = read(&page_of(directory));
    let line = page.lines().find(|line| line.starts_with(beginning)).expect("a command");
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(installed(directory)).envs(environment.iter().copied());
    String::from_utf8(successful(&mut shell).stdout).unwrap()
}

/// The page with the programs of a directory.
fn page_of(file: &str) -> String {
    let (language, _) = file.split_once('/').unwrap();
    let page = if language == "other" { "other-languages" } else { language };
    format!("docs/apps/{page}.md")
}

fn source(file: &str) -> String {
    read(&format!("tests/clients/{file}"))
}

/// The path at which scripts/clients.sh installs a file.
fn installed(file: &str) -> PathBuf {
    root().join("target/clients").join(file)
}

/// Runs a program in its directory.
fn command(program: &str) -> Command {
    let path = installed(program);
    let mut command = match program.split_once('/').unwrap() {
        ("javascript", _) => Command::new("node"),
        ("python", _) => Command::new(installed("venv/bin/python")),
        ("rust", file) => {
            return Command::new(installed("rust/target/debug").join(file.split_once('/').unwrap().0));
        }
        ("java", file) => {
            let mut java = Command::new("java");
            java.current_dir(installed("java")).args(["@classpath", file.strip_suffix(".java").unwrap()]);
            return java;
        }
        // With the packages of Debian, which are no modules.
        (_, file) if file.ends_with(".go") => {
            let mut go = Command::new("go");
            go.arg("run").env("GO111MODULE", "off").env("GOPATH", "/usr/share/gocode");
            go.env("GOCACHE", installed("go"));
            go
        }
        (_, file) if file.ends_with(".rb") => Command::new("ruby"),
        (_, "orders.php") => Command::new("php"),
        _ => panic!("what runs {program}?"),
    };
    command.current_dir(path.parent().unwrap()).arg(path);
    command
}
