-- Stores what the server knows of its history, if this is the keeper's database: see src/keeper/store.rs. Warns if the
-- server cannot issue IDs yet.
SELECT snowflake_internal.store_history();
