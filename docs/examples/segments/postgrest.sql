-- Gives out the numbers of segment "orders" with PostgREST, which calls the functions of a schema over HTTP.
--
-- With db-schemas = "api" and a token for role "web", a client takes a number as follows:
--     curl -X POST -H "Authorization: Bearer $TOKEN" http://127.0.0.1:3000/rpc/next_order
--
-- PostgREST also accepts GET requests for such a function, and runs them in a read-only transaction. A sequence fails
-- in a read-only transaction, but a segment does not. The function must therefore refuse read-only transactions, so
-- that no cache can repeat a number. PostgREST then replies to a GET request with status 405. A function that returns
-- IDs should return text, because JavaScript changes JSON numbers above 2^53.

CREATE SCHEMA api;

CREATE FUNCTION api.next_order() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_read_only')::bool THEN
        RAISE 'use POST' USING ERRCODE = 'read_only_sql_transaction';
    END IF;
    RETURN public.snowflake_segment_nextval('orders');
END
$$;

REVOKE EXECUTE ON FUNCTION api.next_order() FROM PUBLIC;
CREATE ROLE web;
GRANT USAGE ON SCHEMA api TO web;
GRANT EXECUTE ON FUNCTION api.next_order() TO web;
