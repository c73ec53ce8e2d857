-- Functions for reading and generating IDs on servers without the extension.

COMMENT ON FUNCTION snowflake_reader_sql(text) IS
    'script that creates SQL functions for reading the IDs of a layout on servers without the extension';
COMMENT ON FUNCTION snowflake_generator_sql(text, int, int) IS
    'script that creates SQL functions for generating and reading the IDs of a layout on servers without the extension';
