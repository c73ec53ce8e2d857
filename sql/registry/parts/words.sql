-- Utilities ---------------------------------------------------------------------------------------------

CREATE FUNCTION snowflake_registry.microseconds(instant timestamptz) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
-- timestamptz has a slightly larger range than bigint.
RETURN CASE WHEN isfinite(instant)
            THEN least(extract(epoch FROM instant) * 1000000, 9223372036854775807)::bigint END;
COMMENT ON FUNCTION snowflake_registry.microseconds(timestamptz) IS
    'converts a time to microseconds of Unix time; NULL for infinity';

-- Views do not call this function, because their readers have no privilege to do so.
CREATE FUNCTION snowflake_registry.instant(us bigint) RETURNS timestamptz
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN timestamptz '1970-01-01 00:00:00+00' + us * interval '1 microsecond';
COMMENT ON FUNCTION snowflake_registry.instant(bigint) IS 'converts microseconds of Unix time to a time';

CREATE FUNCTION snowflake_registry.microseconds(span interval) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN (extract(epoch FROM span) * 1000000)::bigint;
COMMENT ON FUNCTION snowflake_registry.microseconds(interval) IS 'converts an interval to microseconds';

-- Formats a time to the second for messages, regardless of the caller's DateStyle and TimeZone.
CREATE FUNCTION snowflake_registry.in_words(instant timestamptz) RETURNS text
STABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN isfinite(instant) THEN to_char(instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
            ELSE 'never' END;
COMMENT ON FUNCTION snowflake_registry.in_words(timestamptz) IS 'formats a time in UTC for messages';

CREATE FUNCTION snowflake_registry.server_in_words(node_name text, host text, port int) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN node_name IS NULL THEN 'a server without a name' ELSE '"' || node_name || '"' END
    || CASE WHEN host IS NULL THEN '' ELSE ' (' || host || coalesce(':' || port::text, '') || ')' END;
COMMENT ON FUNCTION snowflake_registry.server_in_words(text, text, int) IS 'formats the name and the address of a server for messages';

-- A control character must not start a new line in the log, or move the cursor of a terminal.
CREATE FUNCTION snowflake_registry.printable(said text) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN regexp_replace(said COLLATE "C", '[[:cntrl:]]', '?', 'g');
COMMENT ON FUNCTION snowflake_registry.printable(text) IS 'replaces control characters of a text by question marks';

CREATE FUNCTION snowflake_registry.name_in_words(name text) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN '"' || snowflake_registry.printable(name) || '"';
COMMENT ON FUNCTION snowflake_registry.name_in_words(text) IS 'formats the name of a segment for messages';

-- The facts that a server reports about itself are informational and may contain anything. Invalid values are omitted.
-- Bodies of SECURITY DEFINER functions contain no backslashes, because a caller can change the meaning of backslashes.
CREATE FUNCTION snowflake_registry.read_facts(
    facts jsonb, OUT node_name text, OUT host text, OUT port int, OUT layout text, OUT version text,
    OUT clock_offset interval, OUT by_hand int[]
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    keys CONSTANT text[] := ARRAY['node_name', 'host', 'layout', 'version'];
    lengths CONSTANT int[] := ARRAY[200, 255, 500, 64];
    texts text[];
BEGIN
    by_hand := '{}';
    IF facts IS NULL OR pg_column_size(facts) > 65536 OR jsonb_typeof(facts) <> 'object' THEN
        RETURN;
    END IF;
    FOR i IN 1 .. 4 LOOP
        IF jsonb_typeof(facts -> keys[i]) = 'string' THEN
            texts[i] := nullif(snowflake_registry.printable(left(facts ->> keys[i], lengths[i])), '');
        END IF;
    END LOOP;
    node_name := texts[1];
    host := texts[2];
    layout := texts[3];
    version := texts[4];
    IF facts ->> 'port' COLLATE "C" ~ '^[0-9]{1,5}$' THEN
        port := (facts ->> 'port')::int;
        IF port NOT BETWEEN 1 AND 65535 THEN
            port := NULL;
        END IF;
    END IF;
    IF facts ->> 'clock_offset' COLLATE "C" ~ '^-?[0-9]{1,15}$' THEN
        clock_offset := make_interval(secs => (facts ->> 'clock_offset')::float8 / 1000000);
    END IF;
    IF jsonb_typeof(facts -> 'by_hand') = 'array' THEN
        by_hand := ARRAY(
            SELECT DISTINCT said.number::text::int AS worker_id
            FROM jsonb_array_elements(facts -> 'by_hand') WITH ORDINALITY AS said (number, position)
            WHERE said.position <= 8
              AND CASE WHEN said.number::text COLLATE "C" ~ '^[0-9]{1,10}$'
                       THEN said.number::text::bigint <= 2147483647 ELSE false END
            ORDER BY worker_id);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.read_facts(jsonb) IS
    'extracts the facts that a server reports about itself; omits invalid values';
