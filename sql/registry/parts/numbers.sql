-- Segments: how numbers are made ------------------------------------------------------------------------

-- A number with a period is its prefix, such as 20261121, and behind it the digits of a serial. So all
-- numbers of a later period are higher, and those of one name only rise. Sums are numeric: they cannot
-- overflow.

CREATE FUNCTION snowflake_registry.at_or_above(start numeric, increment bigint, value numeric) RETURNS numeric
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN value <= start THEN start
            ELSE value + mod(increment - mod(value - start, increment), increment) END;
COMMENT ON FUNCTION snowflake_registry.at_or_above(numeric, bigint, numeric) IS
    'the lowest of start, start + increment, .. that is not below a value';

CREATE FUNCTION snowflake_registry.period_base(period_key bigint, digits int) RETURNS numeric
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN (period_key || repeat('0', digits))::numeric;
COMMENT ON FUNCTION snowflake_registry.period_base(bigint, int) IS 'the prefix of a period, and serial 0';

CREATE FUNCTION snowflake_registry.in_period(period_key bigint, digits int, start bigint, increment bigint,
                                             value numeric) RETURNS numeric
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN least(
    snowflake_registry.at_or_above(snowflake_registry.period_base(period_key, digits) + start, increment,
                                   value),
    snowflake_registry.period_base(period_key, digits) + snowflake_registry.period_base(1, digits)
);
COMMENT ON FUNCTION snowflake_registry.in_period(bigint, int, bigint, bigint, numeric) IS
    'the lowest number of a period that is not below a value; serial 0 of the next prefix: there is none';

CREATE FUNCTION snowflake_registry.key_of_number(digits int, value numeric) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN div(value, snowflake_registry.period_base(1, digits))::bigint;
COMMENT ON FUNCTION snowflake_registry.key_of_number(int, numeric) IS 'the prefix of a number';

CREATE FUNCTION snowflake_registry.key_of_date(period text, day timestamp) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN period = 'year' THEN extract(year FROM day)
            WHEN period = 'month' THEN extract(year FROM day) * 100 + extract(month FROM day)
            ELSE extract(year FROM day) * 10000 + extract(month FROM day) * 100 + extract(day FROM day)
       END::bigint;
COMMENT ON FUNCTION snowflake_registry.key_of_date(text, timestamp) IS 'the prefix of the period of a date';

CREATE FUNCTION snowflake_registry.key_of_clock(period text, time_zone text, instant timestamptz)
RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN snowflake_registry.key_of_date(period, instant AT TIME ZONE time_zone);
COMMENT ON FUNCTION snowflake_registry.key_of_clock(text, text, timestamptz) IS
    'the prefix of the period of an instant';

CREATE FUNCTION snowflake_registry.first_day(period text, period_key bigint) RETURNS date
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN period = 'year' THEN make_date(period_key::int, 1, 1)
            WHEN period = 'month' THEN make_date((period_key / 100)::int, (period_key % 100)::int, 1)
            ELSE make_date((period_key / 10000)::int, (period_key / 100 % 100)::int, (period_key % 100)::int)
       END;
COMMENT ON FUNCTION snowflake_registry.first_day(text, bigint) IS
    'the day on which the period with this prefix begins; an error if there is none';

CREATE FUNCTION snowflake_registry.key_after(period text, period_key bigint) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN snowflake_registry.key_of_date(
    period, snowflake_registry.first_day(period, period_key) + ('1 ' || period)::interval);
COMMENT ON FUNCTION snowflake_registry.key_after(text, bigint) IS 'the prefix of the period that comes next';

-- Where clocks are put back at midnight or shortly after it, a day has two midnights, and AT TIME ZONE finds
-- the second. Periods never go back, so it is the first that counts.
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
    'the first instant of the period with this prefix';

-- A segment as it is when the clock shows this. A clock that was set back does not lead to an earlier period.
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
    'moves a segment on to the period of an instant';

-- What a server says that it had, of this registry or of another one, is passed over. So one that makes numbers up could use
-- up all of them. A claim uses up no more than a thousand ranges that it could take as well, or than the next period has.
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
    -- Such as a time zone that this server does not know: other names are to go on.
    RETURN true;
END
$$;
COMMENT ON FUNCTION snowflake_registry.number_is_credible(snowflake_registry.segment, numeric, timestamptz) IS
    'whether a server can have been given this number';
