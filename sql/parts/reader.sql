-- Reading IDs where the extension is not.

COMMENT ON FUNCTION snowflake_reader_sql(text) IS
    'a script of functions in plain SQL that read the IDs of a layout, for servers without the extension';
