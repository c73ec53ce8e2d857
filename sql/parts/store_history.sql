-- Stores what the server knows of its past, if this is the keeper's database: see src/keeper/store.rs. Warns if the server
-- is not set up to make IDs.
SELECT snowflake_internal.store_history();
