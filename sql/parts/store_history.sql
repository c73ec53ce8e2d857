-- If this is the keeper's database, store the history that the server still has in memory. See src/keeper/store.rs.
SELECT snowflake_internal.store_history();
