-- Segments: functions for servers ------------------------------------------------------------------------

-- Parses a request. An invalid request does not affect other requests, unless it has no name.
CREATE FUNCTION snowflake_registry.read_request(ordinal bigint, element jsonb, registry_id uuid)
RETURNS snowflake_registry.request
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked snowflake_registry.request;
    keys CONSTANT text[] := ARRAY['had_until', 'count', 'period_key', 'lasted'];
    highest CONSTANT numeric[] := ARRAY[9223372036854775807, 1000000000, 9223372036854775807, 1e15];
    numbers numeric[];
    number numeric;
    flag text;
BEGIN
    IF jsonb_typeof(element) IS DISTINCT FROM 'object'
       OR jsonb_typeof(element -> 'name') IS DISTINCT FROM 'string' THEN
        RAISE EXCEPTION 'request % has no name', ordinal
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'An example of valid requests is [{"name": "orders", "had_until": 12345, "lasted": 840}].';
    END IF;
    asked.request := ordinal;
    asked.name := element ->> 'name';
    FOR i IN 1 .. 4 LOOP
        IF coalesce(jsonb_typeof(element -> keys[i]), 'null') <> 'null' THEN
            number := CASE WHEN jsonb_typeof(element -> keys[i]) = 'number'
                           THEN (element -> keys[i])::numeric END;
            IF number BETWEEN 0 AND highest[i] AND (number = trunc(number) OR keys[i] = 'lasted') THEN
                numbers[i] := number;
            ELSE
                asked.problem := format('%s is not a number from 0 to %s', keys[i], highest[i]);
            END IF;
        END IF;
    END LOOP;
    asked.had_until := numbers[1];
    asked.count := numbers[2];
    asked.period_key := numbers[3];
    asked.lasted := numbers[4];
    FOREACH flag IN ARRAY '{next,report}'::text[] LOOP
        IF jsonb_typeof(element -> flag) NOT IN ('boolean', 'null') THEN
            asked.problem := format('%s is neither true nor false', flag);
        END IF;
    END LOOP;
    asked.is_next := coalesce(element -> 'next' = 'true', false);
    asked.is_report := coalesce(element -> 'report' = 'true', false);
    -- A number of another registry proves no loss of this registry.
    asked.is_ours := CASE
        WHEN element ? 'registry_id'
        THEN coalesce(lower(element ->> 'registry_id') = (
            SELECT settings.registry_id::text FROM snowflake_registry.settings AS settings
        ), false)
        ELSE registry_id IS NOT NULL
    END;
    RETURN asked;
END
$$;
COMMENT ON FUNCTION snowflake_registry.read_request(bigint, jsonb, uuid) IS
    'parses a request for numbers of one segment';

CREATE FUNCTION snowflake_registry.lost_numbers(registry_id uuid, requests jsonb, is_local boolean)
RETURNS text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    unknown record;
BEGIN
    SELECT segment.name, asked.had_until INTO unknown
    FROM jsonb_array_elements(lost_numbers.requests) WITH ORDINALITY AS element (value, ordinal),
         LATERAL snowflake_registry.read_request(element.ordinal, element.value, lost_numbers.registry_id)
             AS asked,
         snowflake_registry.segment AS segment
    WHERE segment.name = asked.name AND asked.is_ours AND segment.closed_reason IS NULL
      -- A claim of another server without a token proves nothing.
      AND lost_numbers.is_local AND (segment.has_left OR snowflake_registry.serves_others())
      AND CASE
              WHEN segment.period IS NULL THEN asked.had_until >= segment.next_value
              WHEN snowflake_registry.key_of_number(segment.digits, asked.had_until) = segment.ahead_key
              THEN asked.had_until >= segment.ahead_value
              -- A number of an earlier period is always lower.
              ELSE asked.had_until >= segment.next_value
          END
      AND snowflake_registry.number_is_credible(segment, asked.had_until, clock_timestamp())
    ORDER BY element.ordinal
    LIMIT 1;
    IF FOUND THEN
        RETURN format('a server was given numbers of segment %s up to %s, and the registry does not know '
                      'of them', snowflake_registry.name_in_words(unknown.name), unknown.had_until);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.lost_numbers(uuid, jsonb, boolean) IS
    'reason to assume that commits were lost, if a server has numbers that the registry has not granted; otherwise NULL';

-- The function finds only names that differ in case, because these can be found through an index. Servers request
-- unknown names repeatedly, and the call holds locks.
CREATE FUNCTION snowflake_registry.segment_like(name text) RETURNS text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT segment.name
        FROM snowflake_registry.segment AS segment
        WHERE lower(segment.name) = lower(segment_like.name) AND segment.dropped_at IS NULL
        ORDER BY segment.name
        LIMIT 1
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.segment_like(text) IS
    'name of the segment that differs from a name only in case, or NULL';

-- Takes a range of one segment. The row is locked until the commit. A report that cannot change the row, because it
-- contains no number or a number of this registry, does not lock the row. Programs therefore can find out cheaply
-- whether a segment exists.
CREATE FUNCTION snowflake_registry.take_range(
    asked snowflake_registry.request, node_name text, is_local boolean, waits_for text, was_alone boolean
)
RETURNS snowflake_registry.taken
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    answer snowflake_registry.taken;
    stored snowflake_registry.segment;
    segment snowflake_registry.segment;
    is_only_read CONSTANT boolean := asked.is_report AND (asked.had_until IS NULL OR asked.is_ours AND NOT is_local);
    is_frozen boolean;
    moment timestamptz;
    had_key bigint;
    after_key bigint;
    basis bigint;
    first numeric;
    last numeric;
BEGIN
    IF is_only_read THEN
        SELECT * INTO stored FROM snowflake_registry.segment AS segment WHERE segment.name = asked.name;
    ELSE
        SELECT * INTO stored FROM snowflake_registry.segment AS segment WHERE segment.name = asked.name FOR UPDATE;
    END IF;
    IF NOT FOUND OR stored.dropped_at IS NOT NULL THEN
        IF stored.was_lost THEN
            answer.outcome := 'lost';
            answer.detail := 'the creation of the segment was lost';
        ELSIF stored.dropped_at IS NOT NULL THEN
            answer.outcome := 'dropped';
            answer.detail := format('the segment was dropped at %s',
                                    snowflake_registry.in_words(stored.dropped_at));
        ELSIF asked.is_ours AND asked.had_until IS NOT NULL THEN
            answer.outcome := 'lost';
            answer.detail := format('the segment no longer exists, although this registry has granted numbers '
                                    'up to %s: commits were lost', asked.had_until);
        ELSE
            answer.outcome := 'unknown';
            answer.detail := 'there is no such segment';
            answer.near := snowflake_registry.segment_like(asked.name);
        END IF;
        RETURN answer;
    END IF;
    answer.increment := stored.increment;
    answer.max_value := stored.max_value;
    answer.step := stored.step;
    IF asked.problem IS NOT NULL THEN
        answer.outcome := 'invalid';
        answer.detail := asked.problem;
        RETURN answer;
    END IF;
    -- The freeze is checked here for all segments, so that it also applies to segments that are created or resumed
    -- during the freeze.
    is_frozen := (SELECT settings.frozen_until FROM snowflake_registry.settings AS settings) IS NOT NULL;
    IF stored.closed_reason IS NOT NULL OR is_frozen THEN
        -- If other servers have proved that they hold higher numbers of this registry, next_value was already raised.
        IF stored.closed_reason IS NOT NULL
           AND (asked.is_ours AND is_local OR NOT asked.is_ours AND asked.is_report)
           AND asked.had_until > coalesce(stored.seen_until, -1)
           AND snowflake_registry.number_is_credible(stored, asked.had_until, clock_timestamp()) THEN
            UPDATE snowflake_registry.segment AS segment
            SET seen_until = asked.had_until WHERE segment.name = asked.name;
        END IF;
        answer.outcome := 'closed';
        answer.detail := coalesce(left(stored.closed_reason, 200), 'the registry is frozen');
        RETURN answer;
    END IF;

    IF asked.is_report AND (asked.is_ours OR asked.had_until IS NULL) THEN
        answer.outcome := 'noted';
        RETURN answer;
    ELSIF waits_for IS NOT NULL AND NOT asked.is_report
          AND NOT (is_local AND NOT stored.has_left AND was_alone) THEN
        -- Servers that may prove a loss are served first. If only the registry's own server was able to take numbers, the
        -- registry's tables are as recent as the rows with these numbers, so this server does not wait.
        answer.outcome := 'busy';
        answer.detail := waits_for;
        RETURN answer;
    END IF;

    moment := clock_timestamp();
    segment := snowflake_registry.segment_at(stored, moment);
    answer.period_key := segment.period_key;
    IF segment.period IS NULL THEN
        IF asked.had_until >= segment.next_value
           AND (asked.is_ours AND NOT is_local
                OR NOT snowflake_registry.number_is_credible(segment, asked.had_until, moment)) THEN
            answer.outcome := 'invalid';
            answer.detail := CASE
                WHEN asked.is_ours THEN format('this registry has granted numbers below %s, not up to %s',
                                               segment.next_value, asked.had_until)
                ELSE format('the server has received numbers up to %s of another registry, and this registry would continue at %s: '
                            'its administrator must call snowflake_registry.alter_segment(%L, next_value => ...)',
                            asked.had_until, segment.next_value, asked.name) END;
            RETURN answer;
        ELSIF asked.had_until >= segment.next_value THEN
            segment.next_value :=
                snowflake_registry.at_or_above(segment.start, segment.increment, asked.had_until + 1);
        END IF;
        first := segment.next_value;
        last := segment.max_value;
    ELSE
        after_key := snowflake_registry.key_after(segment.period, segment.period_key);
        had_key := coalesce(snowflake_registry.key_of_number(segment.digits, asked.had_until),
                            asked.period_key);
        IF had_key = 0 AND asked.period_key > 0 THEN
            answer.outcome := 'invalid';
            answer.detail := format('number %s has no prefix and cannot be in period %s', asked.had_until,
                                    asked.period_key);
            RETURN answer;
        ELSIF had_key > after_key THEN
            -- If the registry followed this server, the whole fleet would enter a future period.
            answer.outcome := 'ahead';
            answer.detail := format('the server is in period %s, and the registry in period %s', had_key,
                                    segment.period_key);
            RETURN answer;
        END IF;
        IF had_key = segment.period_key AND asked.had_until >= segment.next_value THEN
            segment.next_value := snowflake_registry.in_period(had_key, segment.digits, segment.start,
                                                               segment.increment, asked.had_until + 1);
        ELSIF had_key = after_key AND asked.had_until >= coalesce(segment.ahead_value, 0) THEN
            segment.ahead_key := after_key;
            segment.ahead_value := snowflake_registry.in_period(after_key, segment.digits, segment.start,
                                                                segment.increment, asked.had_until + 1);
        END IF;
    END IF;
    IF asked.is_report THEN
        -- Another registry has granted these numbers. This registry skips them.
        UPDATE snowflake_registry.segment AS kept
        SET next_value = segment.next_value, period_key = segment.period_key, ahead_key = segment.ahead_key,
            ahead_value = segment.ahead_value, updated_at = moment
        WHERE kept.name = asked.name
          AND (kept.next_value, coalesce(kept.ahead_value, 0)) IS DISTINCT FROM
              (segment.next_value, coalesce(segment.ahead_value, 0));
        answer.outcome := 'noted';
        RETURN answer;
    END IF;
    IF segment.period IS NOT NULL THEN
        -- A server that already has numbers of the next period gets more numbers of that period. If the period that the
        -- server calls "next" has started in the meantime, it is the current period of the registry, and the server
        -- gets numbers of that period.
        IF had_key = after_key OR asked.is_next AND NOT coalesce(had_key < segment.period_key, false) THEN
            answer.period_key := after_key;
            segment.ahead_key := after_key;
            segment.ahead_value := coalesce(
                segment.ahead_value,
                snowflake_registry.in_period(after_key, segment.digits, segment.start, segment.increment, 0));
            first := segment.ahead_value;
        ELSE
            first := segment.next_value;
        END IF;
        last := least(segment.max_value, snowflake_registry.period_base(answer.period_key, segment.digits)
                                         + snowflake_registry.period_base(1, segment.digits) - 1);
        answer.period_starts := snowflake_registry.microseconds(snowflake_registry.period_begins(
            segment.period, segment.time_zone, answer.period_key));
        answer.period_ends := snowflake_registry.microseconds(snowflake_registry.period_begins(
            segment.period, segment.time_zone,
            snowflake_registry.key_after(segment.period, answer.period_key)));
    END IF;
    IF first > last THEN
        answer.outcome := 'exhausted';
        answer.detail := CASE
            WHEN last = segment.max_value THEN format('the numbers of the segment end at %s (max_value)', last)
            ELSE format('period %s has no more numbers with %s digits, and the next period starts at %s',
                        answer.period_key, segment.digits,
                        snowflake_registry.in_words(to_timestamp(answer.period_ends / 1000000)))
        END;
        RETURN answer;
    END IF;

    -- As in Leaf, a range should last between 15 and 30 minutes.
    basis := coalesce(asked.count, segment.step);
    answer.step := greatest(segment.min_step, least(segment.max_step, CASE
        WHEN asked.lasted < 900 THEN basis * 2
        WHEN asked.lasted > 1800 THEN basis / 2
        ELSE basis
    END));
    answer.outcome := 'granted';
    answer.first := first;
    answer.count := least(answer.step, div(last - first, segment.increment) + 1);
    first := first + answer.count::numeric * segment.increment;
    IF segment.period IS NULL THEN
        segment.next_value := first;
    ELSIF answer.period_key = segment.period_key THEN
        segment.next_value := snowflake_registry.in_period(answer.period_key, segment.digits, segment.start,
                                                           segment.increment, first);
    ELSE
        segment.ahead_value := snowflake_registry.in_period(answer.period_key, segment.digits, segment.start,
                                                            segment.increment, first);
    END IF;
    UPDATE snowflake_registry.segment AS kept
    SET next_value = segment.next_value, period_key = segment.period_key, ahead_key = segment.ahead_key,
        ahead_value = segment.ahead_value, step = answer.step, has_left = kept.has_left OR NOT is_local,
        taken_at = moment, taken_by = take_range.node_name, numbers_granted = kept.numbers_granted + answer.count,
        updated_at = moment
    WHERE kept.name = asked.name;
    RETURN answer;
END
$$;
COMMENT ON FUNCTION snowflake_registry.take_range(snowflake_registry.request, text, boolean, text, boolean) IS
    'takes a range of numbers of one segment';
