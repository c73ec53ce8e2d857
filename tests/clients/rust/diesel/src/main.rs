use diesel::prelude::*;
use diesel::sql_types::Integer;

diesel::table! {
    orders (id) {
        id -> BigInt,
        item -> Text,
    }
}

#[diesel::declare_sql_function]
extern "SQL" {
    fn snowflake_batch(count: Integer) -> BigInt;
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut connection = PgConnection::establish("")?; // uses PGHOST, PGDATABASE etc.

    let insert = diesel::insert_into(orders::table).values(orders::item.eq("tea"));
    let id: i64 = insert.returning(orders::id).get_result(&mut connection)?;
    println!("{id}"); // an ID

    // For many rows, take the IDs first, in the same transaction.
    let ids = connection.transaction(|connection| {
        let ids: Vec<i64> = diesel::select(snowflake_batch(3)).load(connection)?;
        let items = ids.iter().zip(["milk", "sugar", "lemon"]);
        let rows: Vec<_> = items.map(|(id, item)| (orders::id.eq(*id), orders::item.eq(item))).collect();
        diesel::insert_into(orders::table).values(&rows).execute(connection)?;
        QueryResult::Ok(ids)
    })?;

    let query = orders::table.find(ids[2]).select(orders::item);
    println!("{}", query.first::<String>(&mut connection)?); // lemon
    Ok(())
}
