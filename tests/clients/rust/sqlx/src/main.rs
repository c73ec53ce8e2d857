use sqlx::postgres::{PgConnectOptions, PgPool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> sqlx::Result<()> {
    // Uses PGHOST, PGDATABASE etc. from the environment.
    let pool = PgPool::connect_with(PgConnectOptions::new()).await?;

    let insert = "INSERT INTO orders (item) VALUES ($1) RETURNING id";
    let id: i64 = sqlx::query_scalar(insert).bind("tea").fetch_one(&pool).await?;
    println!("{id}"); // an ID

    // IDs before rows: for a batch, several tables or a queue. The IDs are taken in the transaction of the rows.
    let mut transaction = pool.begin().await?;
    let batch = sqlx::query_scalar("SELECT snowflake_batch(3)");
    let ids: Vec<i64> = batch.fetch_all(&mut *transaction).await?;
    sqlx::query("INSERT INTO orders (id, item) SELECT * FROM unnest($1::bigint[], $2::text[])")
        .bind(&ids)
        .bind(vec!["milk", "sugar", "lemon"])
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    println!("{}", ids[0]); // an ID
    println!("{}", ids[2]); // an ID
    println!("{}", ids.is_sorted()); // true
    Ok(())
}
