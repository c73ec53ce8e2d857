//! A database with a malicious owner: none of her code runs when a superuser creates, uses and drops the extension
//! there, or when the keeper works there.
//!
//! Traps are made for every operator, function, type and relation that the installation script mentions. They have the
//! same names, and are in the schema of the extension and in a schema that precedes it on the search_path. A trap that
//! is called reports itself in the server's log.

use std::collections::BTreeSet;
use std::fs;

use harness::*;

/// Types for the operands of operators, in addition to those that match exactly.
const TYPES: [&str; 18] = [
    "\"char\"",
    "aclitem",
    "bool",
    "bytea",
    "float8",
    "int2",
    "int4",
    "int8",
    "interval",
    "name",
    "numeric",
    "oid",
    "regclass",
    "regprocedure",
    "regrole",
    "regtype",
    "text",
    "timestamptz",
];

/// The types for the arguments of functions, which have more arguments than operators.
const ARGUMENT_TYPES: [&str; 10] =
    ["bool", "int4", "int8", "name", "numeric", "oid", "regclass", "regprocedure", "text", "timestamptz"];

/// Calls, reads and writes of everything in the extension, as a superuser.
const USES: &[&str] = &[
    "INSERT INTO public.snowflake_workers (node_name, worker_id) VALUES ('a', 1), ('b', 2)",
    "UPDATE public.snowflake_workers SET worker_id = 3 WHERE node_name OPERATOR(pg_catalog.=) 'b'",
    "INSERT INTO public.snowflake_mask_keys (name, key)
         VALUES ('key', '\\x000102030405060708090a0b0c0d0e0f'::pg_catalog.bytea)",
    "UPDATE public.snowflake_mask_keys SET name = 'orders'",
    "TABLE public.snowflake_status; TABLE public.snowflake_layout_status; TABLE public.snowflake_presets; TABLE public.snowflake_clock_seq_status",
    "SELECT public.snowflake_nextval(), public.snowflake_next(), public.snowflake_batch(10::pg_catalog.int8), public.snowflake_block(10::pg_catalog.int8),
            public.snowflake_currval()",
    "CREATE TABLE public.invoices (id public.snowflake PRIMARY KEY DEFAULT public.snowflake_nextval(), place pg_catalog.int4);
     INSERT INTO public.invoices (place) VALUES (1); INSERT INTO public.invoices (id) VALUES (1::pg_catalog.int2), (2);
     SELECT id::pg_catalog.numeric, id::pg_catalog.float8, pg_catalog.to_json(id),
            snowflake_internal.snowflake_send(id), snowflake_internal.snowflake_in(snowflake_internal.snowflake_out(id))
     FROM public.invoices WHERE id OPERATOR(pg_catalog.=) 1;
     SELECT id::pg_catalog.int4 FROM public.invoices WHERE id OPERATOR(pg_catalog.<) 5;
     DROP TABLE public.invoices",
    "SELECT snowflake_internal.snowflake_server_status(), snowflake_internal.snowflake_layouts_in_use(), snowflake_internal.snowflake_clock_sequence_values(), snowflake_internal.snowflake_preset_names()",
    "CREATE TABLE public.events (id pg_catalog.int8 DEFAULT public.snowflake_nextval());
     CREATE TRIGGER own_id BEFORE INSERT ON public.events FOR EACH ROW EXECUTE FUNCTION public.snowflake_require_own_id('id');
     INSERT INTO public.events DEFAULT VALUES; DROP TABLE public.events;
     SELECT public.snowflake_watermark(), public.snowflake_watermark('standard'::pg_catalog.text), snowflake_internal.snowflake_watermarks();
     TABLE public.snowflake_watermark_status",
    "SELECT public.snowflake_decode(1::pg_catalog.int8), public.snowflake_decode(1::pg_catalog.int8, 'twitter'::pg_catalog.text),
            public.snowflake_timestamp(1::pg_catalog.int8), public.snowflake_timestamp(1::pg_catalog.int8, 'twitter'::pg_catalog.text),
            public.snowflake_datacenter(1::pg_catalog.int8), public.snowflake_datacenter(1::pg_catalog.int8, 'twitter'::pg_catalog.text),
            public.snowflake_worker(1::pg_catalog.int8), public.snowflake_worker(1::pg_catalog.int8, 'twitter'::pg_catalog.text),
            public.snowflake_clock_seq(1::pg_catalog.int8), public.snowflake_clock_seq(1::pg_catalog.int8, 'rollback3'::pg_catalog.text),
            public.snowflake_sequence(1::pg_catalog.int8), public.snowflake_sequence(1::pg_catalog.int8, 'twitter'::pg_catalog.text),
            public.snowflake_guess_layout(1541815603606036480::pg_catalog.int8),
            public.snowflake_describe_layout('twitter'::pg_catalog.text)",
    "SELECT public.snowflake_encode(pg_catalog.now(), 1::pg_catalog.int4, 0::pg_catalog.int8, 0::pg_catalog.int4, 0::pg_catalog.int4),
            public.snowflake_encode(pg_catalog.now(), 1::pg_catalog.int4, 0::pg_catalog.int8, 'twitter'::pg_catalog.text,
                                    0::pg_catalog.int4, 0::pg_catalog.int4)",
    "SELECT public.snowflake_to_text(1::pg_catalog.int8, 'hex'::pg_catalog.text),
            public.snowflake_from_text('1'::pg_catalog.text, 'hex'::pg_catalog.text),
            public.snowflake_mask(1::pg_catalog.int8, '\\x000102030405060708090a0b0c0d0e0f'::pg_catalog.bytea),
            public.snowflake_unmask(1::pg_catalog.int8, '\\x000102030405060708090a0b0c0d0e0f'::pg_catalog.bytea),
            public.snowflake_mask_named(1::pg_catalog.int8, 'orders'::pg_catalog.text),
            public.snowflake_unmask_named(1::pg_catalog.int8, 'orders'::pg_catalog.text),
            public.snowflake_mask_named(1::pg_catalog.int8, 'orders'::pg_catalog.text, 10::pg_catalog.int4),
            public.snowflake_unmask_named(1::pg_catalog.int8, 'orders'::pg_catalog.text, 'js53'::pg_catalog.text),
            snowflake_internal.snowflake_mask_key_of('orders'::pg_catalog.text)",
    "SELECT public.snowflake_from_public(public.snowflake_to_public(1::pg_catalog.int8, 'cus'::pg_catalog.text), 'cus'::pg_catalog.text),
            public.snowflake_from_public_named(public.snowflake_to_public_named(1::pg_catalog.int8, 'cus'::pg_catalog.text, 'orders'::pg_catalog.text),
                'cus'::pg_catalog.text,
                'orders'::pg_catalog.text),
            public.snowflake_from_uuid(public.snowflake_to_uuid(1::pg_catalog.int8)),
            public.snowflake_from_uuid_named(
                public.snowflake_to_uuid_named(1::pg_catalog.int8, 'orders'::pg_catalog.text, 'cus'::pg_catalog.text),
                'orders'::pg_catalog.text, 'cus'::pg_catalog.text),
            public.snowflake_reader_sql('twitter'::pg_catalog.text),
            public.snowflake_generator_sql('twitter'::pg_catalog.text, 1::pg_catalog.int4, 0::pg_catalog.int4)",
    "SELECT public.snowflake_prepare_mask_key('orders'::pg_catalog.text,
         '\\x00112233445566778899aabbccddeeff'::pg_catalog.bytea);
     SELECT public.snowflake_switch_mask_key('orders'::pg_catalog.text);
     SELECT public.snowflake_drop_previous_mask_key('orders'::pg_catalog.text);
     SELECT snowflake_internal.snowflake_mask_key_step('switch'::pg_catalog.text, 'orders'::pg_catalog.text, ''::pg_catalog.bytea,
         snowflake_internal.snowflake_mask_key_state('orders'::pg_catalog.text, ''::pg_catalog.bytea)) WHERE false",
    "SELECT public.snowflake_min_id(pg_catalog.now()), public.snowflake_min_id(pg_catalog.now(), 'twitter'::pg_catalog.text),
            public.snowflake_max_id(pg_catalog.now()), public.snowflake_max_id(pg_catalog.now(), 'twitter'::pg_catalog.text),
            public.snowflake_since(1::pg_catalog.int8, pg_catalog.now()),
            public.snowflake_since(1::pg_catalog.int8, pg_catalog.now(), 'twitter'::pg_catalog.text),
            public.snowflake_before(1::pg_catalog.int8, pg_catalog.now()),
            public.snowflake_before(1::pg_catalog.int8, pg_catalog.now(), 'twitter'::pg_catalog.text),
            public.snowflake_between(1::pg_catalog.int8, pg_catalog.now(), pg_catalog.now()),
            public.snowflake_between(1::pg_catalog.int8, pg_catalog.now(), pg_catalog.now(), 'twitter'::pg_catalog.text)",
    "CREATE SCHEMA shop",
    "CREATE TABLE shop.visits (id pg_catalog.int8) PARTITION BY RANGE (id);
     CREATE TABLE shop.other_visits PARTITION OF shop.visits DEFAULT",
    "SELECT * FROM public.snowflake_create_partitions(
         'shop.visits'::pg_catalog.regclass, '2026-01-01Z'::pg_catalog.timestamptz, '2026-03-01Z'::pg_catalog.timestamptz,
         '1 month'::pg_catalog.interval, 'standard'::pg_catalog.text)",
    // Once more, when the partitions exist.
    "SELECT * FROM public.snowflake_create_partitions(
         'shop.visits'::pg_catalog.regclass, '2026-01-01Z'::pg_catalog.timestamptz, '2026-03-01Z'::pg_catalog.timestamptz,
         '1 month'::pg_catalog.interval, NULL::pg_catalog.text);
     SELECT * FROM public.snowflake_plan_partitions(
         'shop.visits'::pg_catalog.regclass, '2026-01-01Z'::pg_catalog.timestamptz, '2026-03-01Z'::pg_catalog.timestamptz,
         '1 month'::pg_catalog.interval, NULL::pg_catalog.text)",
    "CREATE SEQUENCE shop.numbers;
     CREATE TABLE shop.customers (
         id pg_catalog.int4 PRIMARY KEY DEFAULT pg_catalog.nextval('shop.numbers'::pg_catalog.regclass)
     );
     ALTER SEQUENCE shop.numbers OWNED BY shop.customers.id;
     CREATE TABLE shop.orders (id pg_catalog.int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                               customer pg_catalog.int4 REFERENCES shop.customers);
     INSERT INTO shop.customers DEFAULT VALUES;
     INSERT INTO shop.orders (customer) VALUES (1);
     CREATE VIEW shop.latest AS SELECT pg_catalog.max(customer) FROM shop.orders",
    "CREATE PUBLICATION shop FOR TABLE shop.customers",
    // The view blocks this.
    "DO $$
     BEGIN
         PERFORM public.snowflake_adopt('shop.customers'::pg_catalog.regclass, 'id'::pg_catalog.name, true);
         RAISE EXCEPTION 'not refused';
     EXCEPTION WHEN feature_not_supported THEN
         DROP VIEW shop.latest;
     END
     $$",
    "SELECT public.snowflake_adopt('shop.customers'::pg_catalog.regclass, 'id'::pg_catalog.name, true)",
    "SELECT public.snowflake_adopt('shop.customers'::pg_catalog.regclass, 'id'::pg_catalog.name, false)",
    "SELECT public.snowflake_adopt('shop.customers'::pg_catalog.regclass, 'id'::pg_catalog.name, false)",
    "SELECT public.snowflake_adopt('shop.orders'::pg_catalog.regclass, 'id'::pg_catalog.name, false)",
    "CREATE TABLE shop.invoices (id pg_catalog.int4 PRIMARY KEY, total pg_catalog.int4);
     INSERT INTO shop.invoices VALUES (1, 1);
     CREATE TABLE shop.items (invoice pg_catalog.int4 REFERENCES shop.invoices)",
    // A call that commits has to be the only statement.
    "CALL public.snowflake_adopt_online('shop.invoices'::pg_catalog.regclass, 'id'::pg_catalog.name, true, NULL::pg_catalog.regrole,
         false, 64::pg_catalog.int4, '0'::pg_catalog.interval, '100 ms'::pg_catalog.interval, false, NULL::pg_catalog.text)",
    "CALL public.snowflake_adopt_online('shop.invoices'::pg_catalog.regclass, 'id'::pg_catalog.name, false, NULL::pg_catalog.regrole,
         false, 64::pg_catalog.int4, '0'::pg_catalog.interval, '100 ms'::pg_catalog.interval, false, NULL::pg_catalog.text)",
    "CALL public.snowflake_adopt_online('shop.invoices'::pg_catalog.regclass, 'id'::pg_catalog.name, false, NULL::pg_catalog.regrole,
         true, 64::pg_catalog.int4, '0'::pg_catalog.interval, '100 ms'::pg_catalog.interval, false, NULL::pg_catalog.text)",
    "CALL public.snowflake_adopt_online('shop.invoices'::pg_catalog.regclass, 'id'::pg_catalog.name, false, NULL::pg_catalog.regrole,
         false, 64::pg_catalog.int4, '0'::pg_catalog.interval, '100 ms'::pg_catalog.interval, false, NULL::pg_catalog.text)",
    "INSERT INTO shop.invoices VALUES (2, 2); TABLE public.snowflake_adopt_progress",
    "DO $$
     BEGIN
         EXECUTE pg_catalog.format('CREATE UNIQUE INDEX snowflake_new_%s ON shop.invoices (snowflake_new_1)',
                                   'shop.invoices_pkey'::pg_catalog.regclass::pg_catalog.oid);
     END
     $$",
    "CALL public.snowflake_adopt_online('shop.invoices'::pg_catalog.regclass, 'id'::pg_catalog.name, false, NULL::pg_catalog.regrole,
         false, 64::pg_catalog.int4, '0'::pg_catalog.interval, '100 ms'::pg_catalog.interval, false, NULL::pg_catalog.text)",
    "SELECT public.snowflake_adopt('shop.invoices'::pg_catalog.regclass, 'id'::pg_catalog.name, false)",
    "INSERT INTO shop.invoices (total) VALUES (3)",
    "CREATE EXTENSION snowflake_id_registry",
    "SELECT snowflake_registry.create_segment('customers'::pg_catalog.text)",
    "SELECT public.snowflake_segment_nextval('customers'::pg_catalog.text), public.snowflake_segment_next('customers'::pg_catalog.text),
            public.snowflake_segment_currval('customers'::pg_catalog.text),
            public.snowflake_segment_batch('customers'::pg_catalog.text, 2::pg_catalog.int8),
            public.snowflake_segment_ranges('customers'::pg_catalog.text, 2::pg_catalog.int8),
            public.snowflake_segment_prefetch('customers'::pg_catalog.text)",
    "TABLE public.snowflake_segment_status; TABLE snowflake_registry.segments; SELECT snowflake_internal.snowflake_segments_in_use()",
    "CREATE TABLE shop.bills (id pg_catalog.int8 PRIMARY KEY)",
    "SELECT public.snowflake_adopt('shop.bills'::pg_catalog.regclass, 'id'::pg_catalog.name, false,
                                   generator => 'segment:customers'::pg_catalog.text)",
    "CREATE TABLE shop.receipts (id pg_catalog.int8 DEFAULT public.snowflake_segment_nextval('customers'::pg_catalog.text),
                                 note pg_catalog.text);
     INSERT INTO shop.receipts DEFAULT VALUES; COPY shop.receipts (note) FROM PROGRAM 'echo 1'",
    "SELECT problem FROM public.snowflake_check()",
    // Twice, because the second call updates the row.
    "SELECT public.snowflake_segment_grant('customers'::pg_catalog.text, 'mallory'::pg_catalog.regrole);
     SELECT public.snowflake_segment_grant('orders'::pg_catalog.text, 'mallory'::pg_catalog.regrole);
     INSERT INTO shop.receipts DEFAULT VALUES;
     SELECT public.snowflake_segment_revoke('orders'::pg_catalog.text, 'mallory'::pg_catalog.regrole);
     SELECT public.snowflake_segment_grant_all('mallory'::pg_catalog.regrole)",
    "SELECT public.snowflake_raise_floor(pg_catalog.now()), public.snowflake_accept_clock()",
    "SELECT public.snowflake_reset_horizon(5::pg_catalog.int4, 0::pg_catalog.int4)",
    "DO $$
     BEGIN
         REFRESH MATERIALIZED VIEW snowflake_internal.horizon;
         RAISE EXCEPTION 'not refused';
     EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL;
     END
     $$",
    "DO $$
     BEGIN
         PERFORM snowflake_internal.refuse_refresh();
         RAISE EXCEPTION 'not refused';
     EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL;
     END
     $$",
    "DELETE FROM public.snowflake_workers; DELETE FROM public.snowflake_mask_keys",
];

#[test]
fn nothing_of_hers_runs() {
    let cluster = Cluster::builder()
        .preload()
        .set("snowflake_id.database", "hostile")
        .set("snowflake_id.node_name", "a")
        .set("max_locks_per_transaction", "4000")
        .set("jit", "off")
        .stopped();
    cluster.start_server();
    let mut client = cluster.connect();
    for command in
        ["CREATE EXTENSION snowflake_id", "CREATE ROLE mallory", "CREATE DATABASE hostile OWNER mallory"]
    {
        client.run(command);
    }
    let traps = traps(&mut client);
    assert!(traps.len() > 10_000, "only {} traps", traps.len());

    let mut mallory = cluster.connect_to("hostile");
    mallory
        .run("SET SESSION AUTHORIZATION mallory; SET check_function_bodies = off; CREATE SCHEMA evil; BEGIN");
    for trap in traps.chunks(500) {
        mallory.run(&trap.concat());
    }
    mallory.run("COMMIT; ALTER DATABASE hostile SET search_path = evil, pg_catalog, public");

    // Verify that traps work.
    let mut superuser = cluster.connect_to("hostile");
    superuser.run("SELECT 1 = 1; SET search_path = public; SELECT 1::oid = 1");
    assert_eq!(sprung(&cluster, 0).len(), 2, "{:?}", sprung(&cluster, 0));

    let from = cluster.log().len();
    let mut superuser = cluster.connect_to("hostile");
    let mut run = |commands: &str| {
        let result = superuser.batch_execute(commands);
        let sprung = sprung(&cluster, from);
        assert!(sprung.is_empty(), "{commands}\n{sprung:#?}");
        result.unwrap_or_else(|error| panic!("{commands}\n{}", text(&error)));
    };
    run("CREATE EXTENSION snowflake_id SCHEMA public");
    run(USES[0]);
    keeper_pid(&mut client);
    for commands in &USES[1..] {
        run(commands);
    }
    for name in names_of_functions(&mut client) {
        let is_used = USES.iter().any(|commands| commands.contains(&format!("public.{name}(")));
        assert!(is_used, "{name} is not used");
    }
    // When the extension is created again, it stores the current horizon of the server.
    run(
        "DROP TABLE shop.customers, shop.orders, shop.invoices, shop.items, shop.bills, shop.receipts; DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id SCHEMA public",
    );
    // No object depends on hers: otherwise they could not be dropped.
    run("DROP OWNED BY mallory");
    run("DROP EXTENSION snowflake_id");
}

/// The reports of called traps in the log from this length on, each kind once.
fn sprung(cluster: &Cluster, from: usize) -> BTreeSet<String> {
    let log = &cluster.log()[from..];
    log.lines().filter_map(|line| line.split_once("WARNING:  trap: ")).map(|(_, trap)| trap.into()).collect()
}

/// The functions for users.
/// The names of the functions for users. Internal functions are called by these functions, by views and by the server.
fn names_of_functions(client: &mut Client) -> Vec<String> {
    strings(
        client,
        "SELECT DISTINCT p.proname::text FROM pg_proc AS p
         JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
         JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'snowflake_id'
         WHERE p.pronamespace = 'public'::regnamespace",
    )
}

fn strings(client: &mut Client, query: &str) -> Vec<String> {
    client.query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// The commands that create the traps, to be run before the search_path is hostile.
fn traps(client: &mut Client) -> Vec<String> {
    let (words, symbols) = mentioned();
    let mut traps = vec![];

    let operators = format!("SELECT DISTINCT oprname::text FROM pg_operator WHERE oprname = ANY ({symbols})");
    for operator in strings(client, &operators) {
        let is_comparison = operator.contains(['<', '>', '=', '~', '&', '@']);
        for left in TYPES {
            for right in TYPES {
                let result = if is_comparison { "bool" } else { left };
                for schema in ["evil", "public"] {
                    let function = format!("{schema}.\"{operator}\"");
                    traps.push(trap(&function, &format!("{left}, {right}"), result));
                    traps.push(format!(
                        "CREATE OPERATOR {schema}.{operator} (FUNCTION = {function}, LEFTARG = {left}, RIGHTARG = {right});"
                    ));
                }
            }
        }
    }

    // Copies of PostgreSQL's functions, for a hostile schema that comes first, and every function with other arguments,
    // for one that comes last.
    let originals = format!(
        "SELECT DISTINCT quote_ident(p.proname) || '(' || oidvectortypes(p.proargtypes) || ')' FROM pg_proc AS p
         WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY ({words})
           AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) AS a (type) JOIN pg_type AS t ON t.oid = a.type
                           WHERE t.typtype = 'p')"
    );
    let variants = format!(
        "WITH own AS (
             SELECT p.proname, p.proargtypes::oid[] AS types
             FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
             JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'snowflake_id'
             -- PL/pgSQL functions cannot have arguments of pseudo-types, and type snowflake does not exist yet.
             WHERE NOT EXISTS (SELECT FROM unnest(p.proargtypes) AS a (type) JOIN pg_type AS t ON t.oid = a.type
                               WHERE t.typtype = 'p' OR t.typname = 'snowflake')
         ), argument (type) AS (
             SELECT unnest(ARRAY[{}]::regtype[])::oid
         ), variant (name, types) AS (
             SELECT p.proname, ARRAY[first.type, second.type] FROM pg_proc AS p, argument AS first, argument AS second
             WHERE p.proname = ANY ({words}) AND p.prorettype <> 'trigger'::regtype
             UNION
             SELECT p.proname, ARRAY[type] FROM pg_proc AS p, argument
             WHERE p.proname = ANY ({words}) AND p.prorettype <> 'trigger'::regtype
             UNION
             SELECT proname, types[:place - 1] || type || types[place + 1:]
             FROM own, generate_subscripts(own.types, 1) AS place, argument
             UNION
             SELECT proname, types || type FROM own, argument
         )
         SELECT quote_ident(name) || '(' || array_to_string(types::regtype[], ', ') || ')' FROM variant
         EXCEPT
         SELECT proname || '(' || array_to_string(types::regtype[], ', ') || ')' FROM own",
        ARGUMENT_TYPES.map(|name| format!("'{name}'")).join(", ")
    );
    for (schema, signatures) in [("evil", originals), ("public", variants)] {
        for signature in strings(client, &signatures) {
            let (name, arguments) = signature.trim_end_matches(')').split_once('(').unwrap();
            traps.push(trap(&format!("{schema}.{name}"), arguments, "bigint"));
        }
    }

    // Domains with the names of types, and empty relations with the names of the catalogs.
    let types = format!(
        "SELECT quote_ident(typname) FROM pg_type
         WHERE typnamespace = 'pg_catalog'::regnamespace AND typname = ANY ({words}) AND typtype = 'b'"
    );
    for name in strings(client, &types) {
        let check = format!("evil.\"type {}\"", name.trim_matches('"'));
        traps.push(trap(&check, &format!("pg_catalog.{name}"), "bool"));
        traps.push(format!("CREATE DOMAIN evil.{name} AS pg_catalog.{name} CHECK ({check}(VALUE));"));
    }
    let relations = format!(
        "SELECT relname::text FROM pg_class
         WHERE relnamespace = 'pg_catalog'::regnamespace AND relname = ANY ({words}) AND relkind IN ('r', 'v')"
    );
    for name in strings(client, &relations) {
        traps.push(trap(&format!("evil.\"relation {name}\""), "", "oid"));
        traps.push(format!("CREATE VIEW evil.{name} AS SELECT evil.\"relation {name}\"() AS oid;"));
    }
    traps
}

/// The words and the operators of the installation script, as SQL arrays.
fn mentioned() -> (String, String) {
    let directory = ask_pg_config(&pg_config(), "--sharedir");
    let script = format!("{directory}/extension/snowflake_id--{}.sql", env!("CARGO_PKG_VERSION"));
    let script = fs::read_to_string(script).unwrap();
    let is_letter = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let array = |parts: BTreeSet<&str>| {
        let parts: Vec<String> = parts.iter().map(|part| format!("'{part}'")).collect();
        format!("ARRAY[{}]", parts.join(", "))
    };
    let words = array(script.split(|character| !is_letter(character)).collect());
    let symbols = array(script.split(|character| !"+-*/<>=~!@#%^&|`?".contains(character)).collect());
    (words, symbols)
}

fn trap(name: &str, arguments: &str, result: &str) -> String {
    format!(
        "CREATE FUNCTION {name}({arguments}) RETURNS {result} LANGUAGE plpgsql AS
         $$BEGIN RAISE WARNING 'trap: % as %', $name${name}({arguments})$name$, current_user; RETURN NULL; END$$;"
    )
}
