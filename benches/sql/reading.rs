//! The cost of reading an ID, and of showing it to the public. Each server runs one repetition.

use crate::figures::{Figures, table_of_calls};
use crate::measure::net_ns;
use crate::servers::{SERVERS, Servers};

pub fn print(servers: &mut Servers, figures: &Figures) {
    let expressions = [
        ("`to_timestamp(double precision)`", "to_timestamp(n::float8)", "n::float8"),
        ("`snowflake_timestamp(id)`", "snowflake_timestamp(n)", "n"),
        ("`snowflake_worker(id)`", "snowflake_worker(n)", "n"),
        ("`snowflake_datacenter(id)`", "snowflake_datacenter(n) IS NULL", "n IS NULL"),
        ("`snowflake_sequence(id)`", "snowflake_sequence(n)", "n"),
        ("`snowflake_timestamp(id, 'twitter')`", "snowflake_timestamp(n, 'twitter')", "n"),
        ("`snowflake_decode(id)`", "snowflake_decode(n)", "n"),
        ("`snowflake_min_id(time)`", "snowflake_min_id(to_timestamp(n))", "to_timestamp(n)"),
        ("`snowflake_max_id(time)`", "snowflake_max_id(to_timestamp(n))", "to_timestamp(n)"),
        (
            "`snowflake_min_id(time, 'twitter')`",
            "snowflake_min_id(to_timestamp(n), 'twitter')",
            "to_timestamp(n)",
        ),
        (
            "`snowflake_max_id(time, 'twitter')`",
            "snowflake_max_id(to_timestamp(n), 'twitter')",
            "to_timestamp(n)",
        ),
    ];
    let ns = net_ns(servers, SERVERS, &expressions.map(|(_, expression, base)| (expression, base)));
    println!("\n### Reading an ID back, and bounds of a time range, net\n");
    let calls: Vec<_> = expressions.iter().map(|(name, ..)| *name).zip(ns).collect();
    println!("{}", table_of_calls(&calls, 0));
    figures.write_calls("reading", &calls);
}

/// Measures IDs for public display: as text, masked, and with a key.
pub fn print_showing(servers: &mut Servers, figures: &Figures) {
    let key = "INSERT INTO snowflake_mask_keys (name, key) VALUES ('bench', uuid_send(gen_random_uuid()))";
    for client in servers.all() {
        client.batch_execute(key).unwrap();
    }
    const ID: &str = "n + 1541815603606036480";
    const KEY: &str = "'\\x0123456712345678234567893456789a'";
    let row = |name: &str, expression: String, base: &str| (name.to_owned(), expression, base.to_owned());
    let mut rows = vec![row("`encode(int8send(id), 'hex')`", format!("encode(int8send({ID}), 'hex')"), ID)];
    for encoding in ["crockford32", "base36", "base58", "base62", "base64url", "decimal", "hex"] {
        let to_text = format!("snowflake_to_text({ID}, '{encoding}')");
        let from_text = format!("snowflake_from_text({to_text}, '{encoding}')");
        rows.push(row(&format!("`snowflake_to_text(id, '{encoding}')`"), to_text.clone(), ID));
        rows.push(row(&format!("`snowflake_from_text(text, '{encoding}')`"), from_text, &to_text));
    }
    rows.push(row("`snowflake_mask(id, key)`", format!("snowflake_mask({ID}, {KEY})"), ID));
    rows.push(row("`snowflake_unmask(masked, key)`", format!("snowflake_unmask({ID}, {KEY})"), ID));
    rows.push(row("`snowflake_mask_named(id, name)`", format!("snowflake_mask_named({ID}, 'bench')"), ID));
    rows.push(row(
        "`snowflake_mask(number, key, digits => 10)`",
        format!("snowflake_mask(n, {KEY}, digits => 10)"),
        "n",
    ));
    rows.push(row(
        "`snowflake_mask(id, key, layout => 'js53')`",
        format!("snowflake_mask(n, {KEY}, 'js53')"),
        "n",
    ));
    let public = format!("snowflake_to_public({ID}, 'cus', {KEY})");
    let from_public = format!("snowflake_from_public({public}, 'cus', {KEY})");
    rows.push(row("`snowflake_to_public(id, prefix, key)`", public.clone(), ID));
    rows.push(row("`snowflake_from_public(text, prefix, key)`", from_public, &public));
    let uuid = format!("snowflake_to_uuid({ID}, {KEY})");
    let from_uuid = format!("snowflake_from_uuid({uuid}, {KEY})");
    rows.push(row("`snowflake_to_uuid(id, key)`", uuid.clone(), ID));
    rows.push(row("`snowflake_from_uuid(uuid, key)`", from_uuid, &uuid));
    let pairs: Vec<_> =
        rows.iter().map(|(_, expression, base)| (expression.as_str(), base.as_str())).collect();
    let ns = net_ns(servers, SERVERS, &pairs);
    println!("\n### Showing an ID in public, net\n");
    let calls: Vec<_> = rows.iter().map(|(name, ..)| name.as_str()).zip(ns).collect();
    println!("{}", table_of_calls(&calls, 0));
    figures.write_calls("showing", &calls);
}
