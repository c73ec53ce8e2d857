use std::env::var;

use serde::{Serialize, Serializer};
use tokio_postgres::NoTls;

#[derive(Serialize)]
struct Order {
    #[serde(serialize_with = "as_string")]
    id: i64,
    item: String,
}

/// For JavaScript: serde writes an i64 as a number.
fn as_string<S: Serializer>(id: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [host, user, database] = ["PGHOST", "PGUSER", "PGDATABASE"].map(|name| var(name).unwrap());
    let config = format!("host={host} user={user} dbname={database}");
    let (mut client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    tokio::spawn(connection);

    let insert = "INSERT INTO orders (item) VALUES ($1) RETURNING id, item";
    let row = client.query_one(insert, &[&"tea"]).await?;
    let tea = Order { id: row.get("id"), item: row.get("item") };
    println!("{}", tea.id); // an ID
    println!("{}", serde_json::to_string(&tea)?); // {"id":"an ID","item":"tea"}

    // For many rows, take the IDs first, in the same transaction.
    let transaction = client.transaction().await?;
    let rows = transaction.query("SELECT snowflake_batch(3)", &[]).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let items = vec!["milk", "sugar", "lemon"];
    let insert = "INSERT INTO orders (id, item) SELECT * FROM unnest($1::bigint[], $2::text[])";
    transaction.execute(insert, &[&ids, &items]).await?;
    transaction.commit().await?;

    let row = client.query_one("SELECT item FROM orders WHERE id = $1", &[&ids[2]]).await?;
    println!("{}", row.get::<_, &str>("item")); // lemon
    Ok(())
}
