mod order {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "orders")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false, default_expr = r#"Expr::cust("snowflake_nextval()")"#)]
        pub id: i64,
        #[sea_orm(column_type = "Text")]
        pub item: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

use std::env::var;

use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, Database, DbErr, EntityTrait, Schema, Statement, TransactionTrait,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), DbErr> {
    let [host, user, database] = ["PGHOST", "PGUSER", "PGDATABASE"].map(|name| var(name).unwrap());
    let db = Database::connect(format!("postgres:///{database}?host={host}&user={user}")).await?;
    let backend = db.get_database_backend();

    // As a migration does.
    let table = Schema::new(backend).create_table_from_entity(order::Entity);
    db.execute(&table).await?;

    let tea = order::ActiveModel { id: NotSet, item: Set("tea".into()) }.insert(&db).await?;
    println!("{}", tea.id); // an ID

    // For many rows, take the IDs first, in the same transaction.
    let transaction = db.begin().await?;
    let batch = Statement::from_string(backend, "SELECT snowflake_batch(3) AS id");
    let rows = transaction.query_all_raw(batch).await?;
    let ids = rows.iter().map(|row| row.try_get("", "id")).collect::<Result<Vec<i64>, DbErr>>()?;
    let items = ids.iter().zip(["milk", "sugar", "lemon"]);
    let orders = items.map(|(id, item)| order::ActiveModel { id: Set(*id), item: Set(item.into()) });
    order::Entity::insert_many(orders).exec(&transaction).await?;
    transaction.commit().await?;

    let lemon = order::Entity::find_by_id(ids[2]).one(&db).await?.unwrap();
    println!("{}", lemon.item); // lemon
    Ok(())
}
