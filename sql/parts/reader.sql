-- Reading IDs on servers without the extension.

COMMENT ON FUNCTION snowflake_reader_sql(text) IS
    'a script of plain SQL functions that read the IDs of a layout on servers without the extension';
