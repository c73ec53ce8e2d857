-- Reads links of several keys that the application passes. Try the new key first. The function returns NULL if none of
-- the keys made the link.
--
-- Pass links and keys as parameters, so that the keys are not in the text of the query. Statement logging shows
-- parameters: set log_parameter_max_length = 0, and leave log_parameter_max_length_on_error at its default, 0. The
-- module auto_explain also logs keys that you pass, in plans and, from PostgreSQL 16 on, as parameters. Do not load it,
-- or use named keys.
CREATE FUNCTION customer_id(link text, VARIADIC keys bytea[]) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE
    key bytea;
BEGIN
    FOREACH key IN ARRAY keys LOOP
        CONTINUE WHEN key IS NULL;
        BEGIN
            RETURN snowflake_from_public(link, 'cus', key);
        EXCEPTION WHEN invalid_text_representation THEN
            CONTINUE;
        END;
    END LOOP;
    RETURN NULL;
END
$$;
SELECT customer_id('cus_1RaoBzHuVr44yahB', '\x00112233445566778899aabbccddeeff', '\x0123456712345678234567893456789a'); -- 1541815603606036480
SELECT customer_id('cus_1RaoBzHuVr44yahC', '\x00112233445566778899aabbccddeeff', '\x0123456712345678234567893456789a') IS NULL; -- t
