-- Stores the history that the server knows, if this is the keeper's database: see src/keeper/store.rs.
SELECT snowflake_internal.store_history();
