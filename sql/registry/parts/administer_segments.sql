-- Segments: functions for administrators -----------------------------------------------------------------

-- Counts the change, so that tokens of later grants prove the loss of this change. All changes of a transaction count once,
-- because they can only be lost together. Otherwise, each of many changes in a transaction would have to pass the versions
-- of the row that the earlier changes have left.
CREATE FUNCTION snowflake_registry.end_request() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE snowflake_registry.settings SET serial = serial + 1, counted_by = pg_current_xact_id()
    WHERE counted_by IS DISTINCT FROM pg_current_xact_id();
    IF FOUND THEN
        PERFORM snowflake_registry.sign_settings();
    END IF;
    -- As in guard_fleet(), a view prevents DROP EXTENSION.
    IF NOT EXISTS (SELECT FROM snowflake_registry.segment WHERE dropped_at IS NULL) THEN
        DROP VIEW IF EXISTS snowflake_registry.segments_are_in_use_call_drop_segment_first;
    ELSIF to_regclass('snowflake_registry.segments_are_in_use_call_drop_segment_first') IS NULL THEN
        CREATE VIEW snowflake_registry.segments_are_in_use_call_drop_segment_first AS
            SELECT count(*) AS segments FROM snowflake_registry.segment WHERE dropped_at IS NULL;
        COMMENT ON VIEW snowflake_registry.segments_are_in_use_call_drop_segment_first IS
            'prevents DROP EXTENSION while there are segments; drop_segment() removes the view when it drops the last '
            'segment';
        REVOKE ALL ON snowflake_registry.segments_are_in_use_call_drop_segment_first FROM PUBLIC;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.end_request() IS
    'ends a function that changes segments: counts the change, and makes DROP EXTENSION fail unless CASCADE is specified';

CREATE FUNCTION snowflake_registry.segment_named(name text) RETURNS snowflake_registry.segment
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    segment snowflake_registry.segment;
BEGIN
    SELECT * INTO segment FROM snowflake_registry.segment AS segment
    WHERE segment.name = segment_named.name AND segment.dropped_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'segment % does not exist', snowflake_registry.name_in_words(segment_named.name)
            USING ERRCODE = 'undefined_object',
                  HINT = coalesce('Perhaps you meant segment ' || snowflake_registry.name_in_words(
                                      snowflake_registry.segment_like(segment_named.name))
                                      || '; names are case-sensitive.',
                                  'To list segments: SELECT * FROM snowflake_registry.segments;');
    END IF;
    RETURN segment;
END
$$;
COMMENT ON FUNCTION snowflake_registry.segment_named(text) IS 'finds a segment by name; raises an error if the segment does not exist';

CREATE FUNCTION snowflake_registry.check_steps(min_step bigint, max_step bigint) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(min_step < 1 OR max_step < min_step OR max_step > 1000000000, true) THEN
        RAISE EXCEPTION 'invalid range of steps: % to %', min_step, max_step
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'Both must be between 1 and 1000000000, and min_step must not be greater than max_step.',
                  HINT = 'Set both parameters, for example min_step => 1000, max_step => 1000000.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_steps(bigint, bigint) IS 'raises an error if the steps are invalid';

CREATE FUNCTION snowflake_registry.check_name(name text) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF octet_length(name) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'invalid length of segment name'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The name has %s bytes. It must have 1 to 255 bytes.', octet_length(name));
    END IF;
    -- Servers send names in UTF8. A database with encoding SQL_ASCII accepts names that are not valid UTF8.
    PERFORM convert_to(name, 'UTF8');
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_name(text) IS 'raises an error if no segment can have this name';

CREATE FUNCTION snowflake_registry.check_description(description text) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF octet_length(description) > 1024 THEN
        RAISE EXCEPTION 'description is too long'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The description has %s bytes, and the maximum is 1024.', octet_length(description));
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_description(text) IS 'raises an error if the description is too long';

CREATE FUNCTION snowflake_registry.create_segment(
    name text, start bigint DEFAULT 1, increment bigint DEFAULT 1, min_step bigint DEFAULT 1000,
    max_step bigint DEFAULT 1000000, max_value bigint DEFAULT 9223372036854775807, period text DEFAULT NULL,
    digits int DEFAULT NULL, time_zone text DEFAULT 'UTC', description text DEFAULT NULL
)
RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    messages CONSTANT text := current_setting('client_min_messages');
    made snowflake_registry.segment;
    before snowflake_registry.segment;
    zone text;
    most_digits int;
    given_until numeric;
BEGIN
    IF create_segment.name IS NULL OR create_segment.start IS NULL OR create_segment.increment IS NULL
       OR create_segment.max_value IS NULL THEN
        RAISE EXCEPTION 'name, start, increment and max_value must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a name. Omit start, increment or max_value to use its default.';
    ELSIF create_segment.increment NOT BETWEEN 1 AND 1000000000 THEN
        RAISE EXCEPTION 'invalid increment: %', create_segment.increment
            USING ERRCODE = 'invalid_parameter_value', DETAIL = 'The increment must be between 1 and 1000000000.';
    ELSIF create_segment.start NOT BETWEEN 0 AND create_segment.max_value THEN
        RAISE EXCEPTION 'invalid start: %', create_segment.start
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The start must be between 0 and %s (max_value).', create_segment.max_value);
    END IF;
    PERFORM snowflake_registry.check_name(create_segment.name);
    PERFORM snowflake_registry.check_description(create_segment.description);
    PERFORM snowflake_registry.check_steps(create_segment.min_step, create_segment.max_step);
    IF create_segment.period IS NULL THEN
        IF create_segment.digits IS NOT NULL OR coalesce(create_segment.time_zone <> 'UTC', false) THEN
            RAISE EXCEPTION 'digits and time_zone require a period'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Specify a period as well, such as period => ''day''.';
        END IF;
    ELSE
        -- With prefixes of years up to 9223, numbers fit into bigint.
        most_digits := CASE WHEN create_segment.period = 'day' THEN 11
                            WHEN create_segment.period = 'month' THEN 13
                            WHEN create_segment.period = 'year' THEN 15 END;
        IF most_digits IS NULL THEN
            RAISE EXCEPTION 'unrecognized period: %', snowflake_registry.name_in_words(create_segment.period)
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Use day, month or year.';
        ELSIF coalesce(create_segment.digits NOT BETWEEN 1 AND most_digits, true) THEN
            RAISE EXCEPTION '%', CASE
                WHEN create_segment.digits IS NULL
                THEN format('digits must be specified for a segment with period "%s"', create_segment.period)
                ELSE format('a segment with period "%s" cannot have %s digits', create_segment.period,
                            create_segment.digits) END
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('The number of digits after the prefix must be between 1 and %s, and cannot be '
                                      'changed later.', most_digits),
                      HINT = 'Specify the number of digits. For example, digits => 6 allows 999999 numbers in each period.';
        ELSIF create_segment.start NOT BETWEEN 0
              AND snowflake_registry.period_base(1, create_segment.digits) - 1 THEN
            RAISE EXCEPTION 'invalid start within a period: %', create_segment.start
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('With %s digits, the start must be between 0 and %s.', create_segment.digits,
                                      snowflake_registry.period_base(1, create_segment.digits) - 1);
        END IF;
        -- Abbreviations and offsets are not accepted, because the sign of a POSIX offset is the opposite of the usual
        -- sign.
        SELECT known.name INTO zone FROM pg_timezone_names AS known
        WHERE lower(known.name) = lower(create_segment.time_zone);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'time zone % not recognized',
                coalesce(snowflake_registry.name_in_words(create_segment.time_zone), 'NULL')
                USING ERRCODE = 'invalid_parameter_value', HINT = 'To list time zones: SELECT name FROM pg_timezone_names;';
        END IF;
    END IF;

    PERFORM snowflake_registry.begin_request();
    SELECT * INTO before FROM snowflake_registry.segment AS segment
    WHERE segment.name = create_segment.name;
    IF FOUND AND before.dropped_at IS NULL THEN
        RAISE EXCEPTION 'segment % already exists',
            snowflake_registry.name_in_words(create_segment.name)
            USING ERRCODE = 'duplicate_object',
                  HINT = 'To change the steps or max_value: SELECT snowflake_registry.alter_segment(name, ...);';
    END IF;
    given_until := greatest(before.next_value, before.ahead_value);

    made.start := create_segment.start;
    made.increment := create_segment.increment;
    made.period := create_segment.period;
    made.digits := create_segment.digits;
    made.time_zone := zone;
    IF made.period IS NULL THEN
        made.next_value := snowflake_registry.at_or_above(
            made.start, made.increment, coalesce(given_until, made.start));
    ELSIF before.period = made.period AND before.digits = made.digits THEN
        -- The periods are the same and continue where they were.
        made.period_key := before.period_key;
        made.next_value := snowflake_registry.in_period(made.period_key, made.digits, made.start,
                                                        made.increment, before.next_value);
        made.ahead_key := before.ahead_key;
        made.ahead_value := snowflake_registry.in_period(made.ahead_key, made.digits, made.start,
                                                         made.increment, before.ahead_value);
    ELSE
        made.period_key := snowflake_registry.key_of_clock(made.period, made.time_zone, clock_timestamp());
        made.next_value := snowflake_registry.in_period(made.period_key, made.digits, made.start,
                                                        made.increment, 0);
        IF made.next_value < given_until THEN
            RAISE EXCEPTION 'new numbers would be lower than numbers already granted under this name'
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      DETAIL = format('A segment with this name was dropped. All its numbers are below %s, and '
                                      'the new numbers would start at %s.', given_until, made.next_value),
                      HINT = 'Use another name.';
        END IF;
    END IF;
    IF made.next_value > create_segment.max_value THEN
        RAISE EXCEPTION 'the segment would have no numbers'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The segment would start at %s and end at %s (max_value).', made.next_value,
                                  create_segment.max_value),
                  HINT = 'Specify a lower start or a higher max_value.';
    END IF;
    INSERT INTO snowflake_registry.segment AS segment (
        name, next_value, start, increment, min_step, max_step, step, max_value, period, digits, time_zone,
        period_key, ahead_key, ahead_value, updated_at, description
    )
    VALUES (
        create_segment.name, made.next_value, made.start, made.increment, create_segment.min_step,
        create_segment.max_step, create_segment.min_step, create_segment.max_value, made.period, made.digits,
        made.time_zone, made.period_key, made.ahead_key, made.ahead_value, clock_timestamp(),
        nullif(create_segment.description, '')
    )
    -- A closed segment remains closed, because the registry does not know which numbers were granted.
    ON CONFLICT (name) DO UPDATE
    SET next_value = excluded.next_value, start = excluded.start, increment = excluded.increment,
        min_step = excluded.min_step, max_step = excluded.max_step, step = excluded.step,
        max_value = excluded.max_value, period = excluded.period, digits = excluded.digits,
        time_zone = excluded.time_zone, period_key = excluded.period_key, ahead_key = excluded.ahead_key,
        ahead_value = excluded.ahead_value, updated_at = excluded.updated_at, dropped_at = NULL, was_lost = false,
        description = excluded.description;
    PERFORM snowflake_registry.end_request();
    -- The next segment may be created in the same transaction.
    PERFORM set_config('client_min_messages', messages, true);
    -- Four fifths of the default of snowflake_id.max_segments. If many segments are created, the notice appears once.
    IF (SELECT count(*) FROM (SELECT FROM snowflake_registry.segment AS segment WHERE segment.dropped_at IS NULL
                              LIMIT 3278) AS counted) = 3277 THEN
        RAISE NOTICE 'the registry has 3277 segments'
            USING DETAIL = 'A server can use at most snowflake_id.max_segments segments: 4096 by default.',
                  HINT = 'On each server that will use more segments, increase snowflake_id.max_segments and restart the server.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.create_segment(
    text, bigint, bigint, bigint, bigint, bigint, text, int, text, text
) IS
    'creates a segment; if a segment with this name was dropped, numbers start above all numbers already granted';

CREATE FUNCTION snowflake_registry.alter_segment(
    name text, min_step bigint DEFAULT NULL, max_step bigint DEFAULT NULL, max_value bigint DEFAULT NULL,
    next_value bigint DEFAULT NULL, description text DEFAULT NULL
)
RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    segment snowflake_registry.segment;
    lowest numeric;
BEGIN
    PERFORM snowflake_registry.begin_request();
    segment := snowflake_registry.segment_named(alter_segment.name);
    segment.min_step := coalesce(alter_segment.min_step, segment.min_step);
    segment.max_step := coalesce(alter_segment.max_step, segment.max_step);
    PERFORM snowflake_registry.check_steps(segment.min_step, segment.max_step);
    PERFORM snowflake_registry.check_description(alter_segment.description);
    IF alter_segment.next_value IS NOT NULL THEN
        IF segment.closed_reason IS NOT NULL THEN
            RAISE EXCEPTION 'segment % is closed', snowflake_registry.name_in_words(segment.name)
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      DETAIL = format('Reason: %s.', segment.closed_reason),
                      HINT = 'To open the segment: SELECT snowflake_registry.resume_segment(name, next_value);';
        END IF;
        segment := snowflake_registry.segment_from(segment, alter_segment.next_value);
    END IF;
    lowest := greatest(segment.next_value, segment.ahead_value) - segment.increment;
    IF alter_segment.max_value < lowest THEN
        RAISE EXCEPTION 'invalid max_value: %', alter_segment.max_value
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('Numbers up to %s have already been granted.', lowest),
                  HINT = format('Specify a max_value of at least %s.', lowest);
    END IF;
    UPDATE snowflake_registry.segment AS kept
    SET min_step = segment.min_step, max_step = segment.max_step,
        step = greatest(segment.min_step, least(segment.max_step, kept.step)),
        max_value = coalesce(alter_segment.max_value, kept.max_value), next_value = segment.next_value,
        period_key = segment.period_key, ahead_key = segment.ahead_key, ahead_value = segment.ahead_value,
        -- An empty description removes the description.
        description = CASE WHEN alter_segment.description IS NULL THEN kept.description
                           ELSE nullif(alter_segment.description, '') END,
        updated_at = clock_timestamp()
    WHERE kept.name = segment.name;
    PERFORM snowflake_registry.end_request();
END
$$;
COMMENT ON FUNCTION snowflake_registry.alter_segment(text, bigint, bigint, bigint, bigint, text) IS
    'changes properties of a segment; numbers never decrease';

-- If the segment has a period, next_value also determines the period.
CREATE FUNCTION snowflake_registry.segment_from(segment snowflake_registry.segment, next_value bigint)
RETURNS snowflake_registry.segment
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lowest CONSTANT numeric :=
        greatest(segment.next_value, segment.ahead_value, segment.seen_until + 1::numeric);
    key bigint;
BEGIN
    IF next_value < lowest THEN
        RAISE EXCEPTION 'segment % cannot continue at %',
            snowflake_registry.name_in_words(segment.name), next_value
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('Numbers below %s may already have been granted.', lowest),
                  HINT = format('Specify a next_value of at least %s.', lowest);
    END IF;
    IF segment.period IS NULL THEN
        segment.next_value := snowflake_registry.at_or_above(segment.start, segment.increment, next_value);
        RETURN segment;
    END IF;
    key := snowflake_registry.key_of_number(segment.digits, next_value);
    BEGIN
        PERFORM snowflake_registry.first_day(segment.period, key);
    EXCEPTION WHEN data_exception THEN
        RAISE EXCEPTION '% does not start with the prefix of a period', next_value
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The segment has period "%s" and %s digits, and its next number is %s.', segment.period,
                                  segment.digits, segment.next_value),
                  HINT = format('Specify a date such as %s, followed by %s digits.', segment.period_key, segment.digits);
    END;
    segment.period_key := key;
    segment.next_value := snowflake_registry.in_period(key, segment.digits, segment.start, segment.increment,
                                                       next_value);
    segment.ahead_key := NULL;
    segment.ahead_value := NULL;
    RETURN segment;
END
$$;
COMMENT ON FUNCTION snowflake_registry.segment_from(snowflake_registry.segment, bigint) IS
    'sets the next number of a segment; raises an error if a number could be repeated';

CREATE FUNCTION snowflake_registry.drop_segment(name text) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM snowflake_registry.begin_request();
    PERFORM snowflake_registry.segment_named(drop_segment.name);
    UPDATE snowflake_registry.segment AS segment
    SET dropped_at = clock_timestamp(), updated_at = clock_timestamp()
    WHERE segment.name = drop_segment.name;
    PERFORM snowflake_registry.end_request();
    RAISE LOG 'snowflake_id_registry: segment % was dropped by %',
        snowflake_registry.name_in_words(drop_segment.name), snowflake_registry.name_in_words(session_user);
END
$$;
COMMENT ON FUNCTION snowflake_registry.drop_segment(text) IS
    'drops a segment; servers can still use the ranges that they hold';

CREATE FUNCTION snowflake_registry.resume_segment(name text, next_value bigint) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    messages CONSTANT text := current_setting('client_min_messages');
    registry snowflake_registry.settings;
    segment snowflake_registry.segment;
    generous bigint;
BEGIN
    IF resume_segment.next_value IS NULL THEN
        RAISE EXCEPTION 'next_value must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'If no commits were lost: SELECT snowflake_registry.resume_segments();';
    END IF;
    registry := snowflake_registry.begin_request();
    segment := snowflake_registry.segment_named(resume_segment.name);
    IF segment.closed_reason IS NULL THEN
        RAISE EXCEPTION 'segment % is not closed', snowflake_registry.name_in_words(segment.name)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = CASE WHEN registry.frozen_until IS NOT NULL
                      THEN 'The registry is frozen. If no other registry has replaced it: '
                           'SELECT snowflake_registry.unfreeze();'
                      ELSE 'To skip numbers: SELECT snowflake_registry.alter_segment(name, next_value => ...);' END;
    END IF;
    segment := snowflake_registry.segment_from(segment, resume_segment.next_value);
    generous := (SELECT generous_resume_at FROM snowflake_registry.segments AS closed WHERE closed.name = segment.name);
    UPDATE snowflake_registry.segment AS kept
    SET next_value = segment.next_value, period_key = segment.period_key, ahead_key = segment.ahead_key,
        ahead_value = segment.ahead_value, closed_reason = NULL, seen_until = NULL,
        updated_at = clock_timestamp()
    WHERE kept.name = segment.name;
    PERFORM snowflake_registry.end_request();
    RAISE LOG 'snowflake_id_registry: segment % was resumed at % by %',
        snowflake_registry.name_in_words(segment.name), segment.next_value,
        snowflake_registry.name_in_words(session_user);
    IF segment.next_value < generous THEN
        PERFORM set_config('client_min_messages', messages, true);
        RAISE NOTICE 'segment % may repeat numbers if servers or tables were restored, too',
            snowflake_registry.name_in_words(segment.name)
            USING DETAIL = 'Numbers that were granted after the backup or the snapshot are then in no table of these servers.',
                  HINT = format('In this case, skip more numbers before servers connect: SELECT snowflake_registry.alter_segment(%L, '
                                'next_value => %s);', segment.name, generous);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.resume_segment(text, bigint) IS
    'opens a closed segment; the caller asserts that no number at or above next_value was ever granted';

CREATE FUNCTION snowflake_registry.resume_segments() RETURNS bigint
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    resumed bigint;
BEGIN
    PERFORM snowflake_registry.begin_request();
    UPDATE snowflake_registry.segment
    SET closed_reason = NULL, seen_until = NULL, updated_at = clock_timestamp()
    WHERE closed_reason IS NOT NULL
      AND coalesce(seen_until < greatest(next_value, ahead_value), true);
    GET DIAGNOSTICS resumed = ROW_COUNT;
    PERFORM snowflake_registry.end_request();
    RAISE LOG 'snowflake_id_registry: % segments were resumed without a change of their numbers by %', resumed,
        snowflake_registry.name_in_words(session_user);
    RETURN resumed;
END
$$;
COMMENT ON FUNCTION snowflake_registry.resume_segments() IS
    'opens all closed segments, and returns how many were opened; the caller asserts that the registry has lost no '
    'commits; a segment remains closed if a server has reported a higher number';
