-- Stores what the server knows of its past, if this is the keeper's database: see src/keeper/store.rs.
SELECT snowflake_internal.store_history();
