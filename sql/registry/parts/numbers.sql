-- Segments: computation of numbers -----------------------------------------------------------------------

-- A number with a period consists of a prefix, such as 20261121, and the digits of a serial number. Therefore all
-- numbers of a later period are higher, and the numbers of a segment only increase. Sums are computed as numeric,
-- which cannot overflow.

CREATE FUNCTION snowflake_registry.at_or_above(start numeric, increment bigint, value numeric) RETURNS numeric
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN value <= start THEN start
            ELSE value + mod(increment - mod(value - start, increment), increment) END;
COMMENT ON FUNCTION snowflake_registry.at_or_above(numeric, bigint, numeric) IS
    'lowest of start, start + increment, ... that is not below a value';

CREATE FUNCTION snowflake_registry.period_base(period_key bigint, digits int) RETURNS numeric
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN (period_key::text || repeat('0', digits))::numeric;
COMMENT ON FUNCTION snowflake_registry.period_base(bigint, int) IS 'prefix of a period followed by serial number 0';

CREATE FUNCTION snowflake_registry.in_period(period_key bigint, digits int, start bigint, increment bigint,
                                             value numeric) RETURNS numeric
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN least(
    snowflake_registry.at_or_above(snowflake_registry.period_base(period_key, digits) + start, increment,
                                   value),
    snowflake_registry.period_base(period_key, digits) + snowflake_registry.period_base(1, digits)
);
COMMENT ON FUNCTION snowflake_registry.in_period(bigint, int, bigint, bigint, numeric) IS
    'lowest number of a period that is not below a value; serial number 0 of the next prefix if the period has no such number';

CREATE FUNCTION snowflake_registry.key_of_number(digits int, value numeric) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN div(value, snowflake_registry.period_base(1, digits))::bigint;
COMMENT ON FUNCTION snowflake_registry.key_of_number(int, numeric) IS 'prefix of a number';

CREATE FUNCTION snowflake_registry.key_of_date(period text, day timestamp) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN period = 'year' THEN extract(year FROM day)
            WHEN period = 'month' THEN extract(year FROM day) * 100 + extract(month FROM day)
            ELSE extract(year FROM day) * 10000 + extract(month FROM day) * 100 + extract(day FROM day)
       END::bigint;
COMMENT ON FUNCTION snowflake_registry.key_of_date(text, timestamp) IS 'prefix of the period that contains a date';

CREATE FUNCTION snowflake_registry.key_of_clock(period text, time_zone text, instant timestamptz)
RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN snowflake_registry.key_of_date(period, instant AT TIME ZONE time_zone);
COMMENT ON FUNCTION snowflake_registry.key_of_clock(text, text, timestamptz) IS
    'prefix of the period that contains a point in time';

CREATE FUNCTION snowflake_registry.first_day(period text, period_key bigint) RETURNS date
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN period = 'year' THEN make_date(period_key::int, 1, 1)
            WHEN period = 'month' THEN make_date((period_key / 100)::int, (period_key % 100)::int, 1)
            ELSE make_date((period_key / 10000)::int, (period_key / 100 % 100)::int, (period_key % 100)::int)
       END;
COMMENT ON FUNCTION snowflake_registry.first_day(text, bigint) IS
    'first day of the period with this prefix; raises an error if there is no such period';

CREATE FUNCTION snowflake_registry.key_after(period text, period_key bigint) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN snowflake_registry.key_of_date(
    period, snowflake_registry.first_day(period, period_key) + make_interval(
        years => (period = 'year')::int, months => (period = 'month')::int, days => (period = 'day')::int));
COMMENT ON FUNCTION snowflake_registry.key_after(text, bigint) IS 'prefix of the next period';

-- If clocks are set back at midnight or shortly after it, a day has two midnights, and AT TIME ZONE returns the
-- second midnight. The period starts at the first midnight, because a segment never returns to an earlier period.
CREATE FUNCTION snowflake_registry.period_begins(period text, time_zone text, period_key bigint)
RETURNS timestamptz
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    midnight CONSTANT timestamptz :=
        snowflake_registry.first_day(period, period_key)::timestamp AT TIME ZONE time_zone;
BEGIN
    RETURN coalesce(
        (SELECT min(candidate)
         FROM generate_series(midnight - interval '3 hours', midnight, interval '15 minutes') AS candidate
         WHERE snowflake_registry.key_of_clock(period, time_zone, candidate) >= period_key),
        midnight);
END
$$;
COMMENT ON FUNCTION snowflake_registry.period_begins(text, text, bigint) IS
    'start of the period with this prefix';

-- Returns the state of a segment at a point in time. If the clock was set back, the segment stays in its period.
CREATE FUNCTION snowflake_registry.segment_at(segment snowflake_registry.segment, moment timestamptz)
RETURNS snowflake_registry.segment
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key bigint;
BEGIN
    IF segment.period IS NOT NULL THEN
        key := snowflake_registry.key_of_clock(segment.period, segment.time_zone, moment);
        IF key > segment.period_key THEN
            segment.period_key := key;
            segment.next_value := CASE
                WHEN segment.ahead_key = key THEN segment.ahead_value
                ELSE snowflake_registry.in_period(key, segment.digits, segment.start, segment.increment, 0)
            END;
            IF segment.ahead_key <= key THEN
                segment.ahead_key := NULL;
                segment.ahead_value := NULL;
            END IF;
        END IF;
    END IF;
    RETURN segment;
END
$$;
COMMENT ON FUNCTION snowflake_registry.segment_at(snowflake_registry.segment, timestamptz) IS
    'moves a segment to the period that contains a point in time';

-- The registry skips numbers that a server reports as taken from this or another registry. A server with a false report
-- could exhaust a segment. Therefore, a report can skip at most a thousand ranges, which the server could also take, or
-- all numbers until the end of the next period.
CREATE FUNCTION snowflake_registry.number_is_credible(
    segment snowflake_registry.segment, number numeric, moment timestamptz
)
RETURNS boolean
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF segment.period IS NULL THEN
        RETURN number < segment.next_value + 1000::numeric * greatest(segment.max_step, 1000000) * segment.increment;
    END IF;
    RETURN snowflake_registry.key_of_number(segment.digits, number)
        <= snowflake_registry.key_after(segment.period,
                                        (snowflake_registry.segment_at(segment, moment)).period_key);
EXCEPTION WHEN data_exception THEN
    -- For example, the time zone of the segment is not known on this server. Other segments must not be affected.
    RETURN true;
END
$$;
COMMENT ON FUNCTION snowflake_registry.number_is_credible(snowflake_registry.segment, numeric, timestamptz) IS
    'tests whether a server may have received this number';
