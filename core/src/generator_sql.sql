-- Generates and reads snowflake IDs of one layout, on a server without the extension snowflake_id:
--     {layout}
--     {identity}
--
-- The objects are created in the first schema of search_path. Run the script in one transaction, as the role that is to
-- own the objects. Then grant roles the right to take IDs (the names are examples):
--     GRANT USAGE ON SCHEMA ids TO app;
--     GRANT EXECUTE ON FUNCTION ids.snowflake_nextval(), ids.snowflake_next(), ids.snowflake_batch(bigint) TO app;
--
-- To change the worker ID, run the script for the new worker ID in the same schema. If the worker ID is raised, IDs
-- continue above the previous ones. The script waits for the transactions that have taken IDs, at most 5 seconds unless
-- lock_timeout is set, and new calls wait for the script. These calls return one more ID with the former worker ID: wait
-- for them before another server gets it. Take no IDs in the transaction of the script. One schema can contain one layout.
--
-- What is promised, for the IDs of this schema:
--   * Each ID is larger than all IDs that any session received before the call started, whatever the clock does.
--   * No row that is committed has the ID of another row, not even after a crash. As with a sequence, an ID whose
--     transaction was lost in a crash may be issued again if the clock is behind after the crash.
--   * The time in an ID is at most one second ahead of the clock, and never before the start of the call.
--   * A call waits at most 5 seconds for the clock, and 1 second for a lock, except while the script runs. The field
--     clock_seq is always 0.
--
-- What is not promised:
--   * The worker ID is not leased. You have to make sure that no other server, database or schema uses it, and that no
--     registry leases it: reserve it there first, with SELECT snowflake_registry.reserve(worker_id => ..).
--   * A copy of the database (a clone, a branch, a restored backup beside the original) issues the IDs of the original.
--     Run the script for another worker ID in the copy before the copy issues IDs.
--   * A database that was set back to an earlier state does not know the IDs that it lost. If the clock may be behind,
--     call snowflake_raise_floor() with the time of the last ID.
--   * lastval() does not return the ID. Do not change the sequences, and keep CACHE 1.

DO $generator$
DECLARE
    schema_name pg_catalog.name := pg_catalog.current_schema();
    home pg_catalog.text := pg_catalog.quote_ident(schema_name);
    -- The counter of an ID is the sum of both sequences. The counter sequence only counts. The base is raised if the sum
    -- is behind the clock.
    base pg_catalog.text := pg_catalog.concat(home, '.snowflake_generator_base');
    counter pg_catalog.text := pg_catalog.concat(home, '.snowflake_generator_counter');
    mark pg_catalog.text := 'part of the generator of snowflake IDs of layout {layout}';
    is_new pg_catalog.bool;
    existing pg_catalog.name[];
    other pg_catalog.text;
    object pg_catalog.text;
    statement pg_catalog.text;
    lock_timeout pg_catalog.text;
BEGIN
    IF schema_name IS NULL OR schema_name OPERATOR(pg_catalog.~) '^pg_temp' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_schema_name',
            MESSAGE = 'no schema is selected for the generator of snowflake IDs',
            HINT = 'Create a schema, and put it first in search_path: CREATE SCHEMA ids; SET search_path = ids;';
    END IF;

    -- The functions have the rights of their owner. A role that can create or replace objects in the schema could
    -- misuse these rights.
    SELECT pg_catalog.string_agg(coalesce(pg_catalog.quote_ident(role.rolname), 'PUBLIC'), ', ') INTO other
    FROM pg_catalog.pg_namespace AS namespace
    CROSS JOIN LATERAL (
        SELECT namespace.nspowner
        UNION
        SELECT acl.grantee FROM pg_catalog.aclexplode(namespace.nspacl) AS acl
        WHERE acl.privilege_type OPERATOR(pg_catalog.=) 'CREATE'
    ) AS maker (oid)
    JOIN pg_catalog.pg_database AS database ON database.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
    LEFT JOIN pg_catalog.pg_roles AS role ON role.oid OPERATOR(pg_catalog.=)
        CASE WHEN maker.oid OPERATOR(pg_catalog.=) 'pg_database_owner'::pg_catalog.regrole THEN database.datdba
             ELSE maker.oid END
    WHERE namespace.nspname OPERATOR(pg_catalog.=) schema_name
      AND (role.oid IS NULL OR role.rolname OPERATOR(pg_catalog.<>) current_user AND NOT role.rolsuper);
    IF other IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = pg_catalog.format('schema %s is not safe for the generator of snowflake IDs', home),
            DETAIL = pg_catalog.format('Other roles own the schema or can create objects in it: %s.', other),
            HINT = 'Create a schema of your own, and put it first in search_path: CREATE SCHEMA ids; SET search_path = ids;';
    END IF;

    SELECT pg_catalog.string_agg(found.name, ', ') INTO other
    FROM (
        SELECT relation.oid::pg_catalog.regclass::pg_catalog.text, relation.relname, relation.relnamespace, relation.relowner
        FROM pg_catalog.pg_class AS relation
        UNION ALL
        SELECT function.oid::pg_catalog.regprocedure::pg_catalog.text, function.proname, function.pronamespace, function.proowner
        FROM pg_catalog.pg_proc AS function
    ) AS found (name, short_name, namespace, owner)
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid OPERATOR(pg_catalog.=) found.namespace
    JOIN pg_catalog.pg_roles AS role ON role.oid OPERATOR(pg_catalog.=) found.owner
    WHERE namespace.nspname OPERATOR(pg_catalog.=) schema_name AND found.short_name OPERATOR(pg_catalog.~) '^snowflake_'
      AND role.rolname OPERATOR(pg_catalog.<>) current_user;
    IF other IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = pg_catalog.format('schema %s contains snowflake objects of other roles', home),
            DETAIL = pg_catalog.format('The objects are: %s.', other),
            HINT = 'Create a schema of your own, and put it first in search_path: CREATE SCHEMA ids; SET search_path = ids;';
    END IF;

    -- The functions of the extension have the same names.
    IF EXISTS (
        SELECT FROM pg_catalog.pg_extension AS extension
        WHERE extension.extname OPERATOR(pg_catalog.=) 'snowflake_id'
          AND extension.extnamespace OPERATOR(pg_catalog.=) home::pg_catalog.regnamespace
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'duplicate_object',
            MESSAGE = pg_catalog.format('schema %s contains extension snowflake_id', home),
            DETAIL = 'The script would replace functions of the extension.',
            HINT = 'Create a schema of your own, and put it first in search_path: CREATE SCHEMA ids; SET search_path = ids;';
    END IF;

    is_new := pg_catalog.to_regclass(counter) IS NULL;
    existing := ARRAY(
        SELECT relation.relname FROM pg_catalog.pg_class AS relation
        WHERE relation.relnamespace OPERATOR(pg_catalog.=) home::pg_catalog.regnamespace
        UNION ALL
        SELECT function.proname FROM pg_catalog.pg_proc AS function
        WHERE function.pronamespace OPERATOR(pg_catalog.=) home::pg_catalog.regnamespace
    );
    IF is_new THEN
        FOREACH object IN ARRAY ARRAY[base, counter] LOOP
            EXECUTE pg_catalog.format('CREATE SEQUENCE %s MINVALUE 0 START {start} NO CYCLE CACHE 1', object);
            EXECUTE pg_catalog.format('COMMENT ON SEQUENCE %s IS %L', object, mark);
            PERFORM pg_catalog.setval(object::pg_catalog.regclass, 0);
            -- In an extension, a dump has to contain the values of the sequences.
            PERFORM pg_catalog.pg_extension_config_dump(member.objid, '')
            FROM pg_catalog.pg_depend AS member
            WHERE member.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
              AND member.objid OPERATOR(pg_catalog.=) object::pg_catalog.regclass
              AND member.deptype OPERATOR(pg_catalog.=) 'e';
        END LOOP;
        -- Only the owner of the view can lock it.
        EXECUTE pg_catalog.format('CREATE VIEW %s.snowflake_generator_lock AS SELECT WHERE false', home);
        EXECUTE pg_catalog.format('COMMENT ON VIEW %s.snowflake_generator_lock IS %L', home, mark);
    ELSIF mark IS DISTINCT FROM pg_catalog.obj_description(counter::pg_catalog.regclass, 'pg_class') THEN
        RAISE EXCEPTION USING ERRCODE = 'duplicate_object',
            MESSAGE = pg_catalog.format('schema %s has a generator of another layout', home),
            DETAIL = pg_catalog.format('Sequence %s has the comment "%s".', counter,
                pg_catalog.obj_description(counter::pg_catalog.regclass, 'pg_class')),
            HINT = 'Create another schema, and put it first in search_path.';
    END IF;
    lock_timeout := pg_catalog.current_setting('lock_timeout');
    FOREACH object IN ARRAY ARRAY[base, counter] LOOP
        -- The start value is never used. It stands for layout and worker ID, because logical replication copies the value
        -- of a sequence only if the definitions are equal. With START alone, numbers that are taken afterwards could be
        -- taken again after a crash, because the WAL would not contain them. CACHE makes PostgreSQL log the next number.
        IF (SELECT sequence.seqstart FROM pg_catalog.pg_sequence AS sequence
            WHERE sequence.seqrelid OPERATOR(pg_catalog.=) object::pg_catalog.regclass)
            OPERATOR(pg_catalog.<>) {start} THEN
            IF lock_timeout OPERATOR(pg_catalog.=) '0' THEN
                PERFORM pg_catalog.set_config('lock_timeout', '5s', true);
            END IF;
            EXECUTE pg_catalog.format('ALTER SEQUENCE %s START {start} CACHE 1', object);
            PERFORM pg_catalog.set_config('lock_timeout', lock_timeout, true);
        END IF;
        -- If only the schema of a dump was restored, the sequences have no values.
        IF pg_catalog.pg_sequence_last_value(object::pg_catalog.regclass) IS NULL THEN
            PERFORM pg_catalog.setval(object::pg_catalog.regclass, 0);
        END IF;
    END LOOP;

    -- Raises the base, so that the next ID is at or above a counter. The exception releases the lock, which would
    -- otherwise be held until the end of the transaction. The base is not reset, because sequences are not transactional.
    EXECUTE pg_catalog.format(
        'CREATE OR REPLACE FUNCTION %s.snowflake_generator_raise(lowest pg_catalog.int8) RETURNS pg_catalog.void
            LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
            SET search_path = pg_catalog, pg_temp SET lock_timeout = ''1s'' AS %L',
        home, pg_catalog.format($function$
DECLARE
    base pg_catalog.int8;
    next pg_catalog.int8;
BEGIN
    LOCK TABLE %1$s.snowflake_generator_lock IN EXCLUSIVE MODE;
    base := pg_catalog.pg_sequence_last_value(%2$L);
    next := base OPERATOR(pg_catalog.+) pg_catalog.pg_sequence_last_value(%3$L) OPERATOR(pg_catalog.+) 1;
    IF next IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'the sequences of the generator of snowflake IDs have no values',
            DETAIL = 'Only the schema of a dump may have been restored.',
            HINT = 'Run the script of the generator again.';
    END IF;
    -- Another session has raised the base. If many sessions need the lock, one of them goes a little further, so that
    -- they do not queue for the lock in each tick.
    IF next OPERATOR(pg_catalog.>=) lowest THEN
        lowest := lowest OPERATOR(pg_catalog.+) {lead};
    END IF;
    IF next OPERATOR(pg_catalog.<) lowest THEN
        PERFORM pg_catalog.setval(%2$L, base OPERATOR(pg_catalog.+) lowest OPERATOR(pg_catalog.-) next);
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'SNOWF';
EXCEPTION
    WHEN SQLSTATE 'SNOWF' THEN
        RETURN;
    WHEN lock_not_available THEN
        RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
            MESSAGE = 'could not lock the generator of snowflake IDs within 1 second',
            DETAIL = 'Another session holds a lock on view snowflake_generator_lock, or on the sequences.',
            HINT = 'To see which sessions hold locks, use views pg_locks and pg_stat_activity.';
END
$function$, home, base, counter));

    -- Waits until the clock permits a counter, or raises an error.
    EXECUTE pg_catalog.format(
        'CREATE OR REPLACE FUNCTION %s.snowflake_generator_wait(counter pg_catalog.int8) RETURNS pg_catalog.void
            LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
            SET search_path = pg_catalog, pg_temp AS %L',
        home, $function$
DECLARE
    left_us pg_catalog.int8 := {max_wait_us};
    now_us pg_catalog.int8;
    wait_us pg_catalog.int8;
BEGIN
    LOOP
        now_us := {now_us};
        IF now_us OPERATOR(pg_catalog.<) {epoch_us} THEN
            RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range',
                MESSAGE = 'the clock is before the epoch of the layout',
                DETAIL = 'The epoch is {epoch}.',
                HINT = 'Check the server''s clock, or choose a layout with an earlier epoch.';
        END IF;
        IF now_us OPERATOR(pg_catalog.>=) {end_us} OR counter OPERATOR(pg_catalog.>) {last} THEN
            RAISE EXCEPTION USING ERRCODE = 'sequence_generator_limit_exceeded',
                MESSAGE = 'the layout is exhausted',
                DETAIL = 'The time field of {time_bits} bits ended at {end}.',
                HINT = 'Check the server''s clock, or choose a layout with a later epoch or more time bits.';
        END IF;
        wait_us := ((counter OPERATOR(pg_catalog.>>) {sequence_bits}) OPERATOR(pg_catalog.-) {ticks_ahead})
            OPERATOR(pg_catalog.*) {unit_us} OPERATOR(pg_catalog.+) {epoch_us} OPERATOR(pg_catalog.-) now_us;
        IF wait_us OPERATOR(pg_catalog.<=) 0 THEN
            RETURN;
        END IF;
        IF wait_us OPERATOR(pg_catalog.>) left_us THEN
            RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
                MESSAGE = 'waiting for snowflake IDs would take longer than 5 seconds',
                DETAIL = pg_catalog.concat('An ID will be available in ',
                    (wait_us OPERATOR(pg_catalog.+) 999) OPERATOR(pg_catalog./) 1000,
                    ' ms. The layout allows {ids_per_second} IDs per second.'),
                HINT = 'Check whether the server''s clock was set back. If IDs are requested faster than the layout allows, choose a layout with more sequence bits.';
        END IF;
        wait_us := LEAST(wait_us, 100000);
        PERFORM pg_catalog.pg_sleep(wait_us OPERATOR(pg_catalog./) 1000000::pg_catalog.float8);
        left_us := left_us OPERATOR(pg_catalog.-) wait_us;
    END LOOP;
END
$function$);

    -- If the base is the same before and after nextval(), it was the same at nextval(), because it only increases. The
    -- sum is therefore larger than the sums of all earlier calls. All names are qualified instead of SET search_path,
    -- which would double the time of a call.
    -- snowflake_next() does the same, for tools that mistake a default with the word nextval for that of a sequence.
    FOR object IN VALUES ('snowflake_nextval'), ('snowflake_next') LOOP
        EXECUTE pg_catalog.format(
            'CREATE OR REPLACE FUNCTION %s.%s() RETURNS pg_catalog.int8
                LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER AS %L',
            home, object, pg_catalog.format($function$
DECLARE
    now_us pg_catalog.int8;
    lowest pg_catalog.int8;
    base pg_catalog.int8;
    counter pg_catalog.int8;
BEGIN
    LOOP
        now_us := {now_us};
        lowest := CASE WHEN now_us OPERATOR(pg_catalog.>=) {epoch_us} AND now_us OPERATOR(pg_catalog.<) {end_us}
            THEN {counter_at_clock} END;
        -- After a failed attempt, the clock is not read again: if ticks are short, no attempt would succeed.
        LOOP
            base := pg_catalog.pg_sequence_last_value(%2$L);
            -- A number is taken only if the sum is not behind the clock, and not too far ahead. A shift checks both.
            counter := CASE WHEN ((base OPERATOR(pg_catalog.+) pg_catalog.pg_sequence_last_value(%3$L)
                    OPERATOR(pg_catalog.+) 1 OPERATOR(pg_catalog.-) lowest) OPERATOR(pg_catalog.>>) {taken_bits}) OPERATOR(pg_catalog.=) 0
                THEN base OPERATOR(pg_catalog.+) pg_catalog.nextval(%3$L) END;
            IF counter OPERATOR(pg_catalog.-) lowest OPERATOR(pg_catalog.<=) {most_ahead}
                AND counter OPERATOR(pg_catalog.<=) {last}
                AND pg_catalog.pg_sequence_last_value(%2$L) OPERATOR(pg_catalog.=) base THEN
                RETURN {id};
            END IF;

            IF counter IS NULL THEN
                counter := base OPERATOR(pg_catalog.+) pg_catalog.pg_sequence_last_value(%3$L) OPERATOR(pg_catalog.+) 1;
                IF counter IS NULL THEN
                    PERFORM %1$s.snowflake_generator_raise(0);
                ELSIF counter OPERATOR(pg_catalog.<) lowest THEN
                    PERFORM %1$s.snowflake_generator_raise(lowest);
                ELSE
                    PERFORM %1$s.snowflake_generator_wait(counter);
                    EXIT;
                END IF;
            ELSIF pg_catalog.pg_sequence_last_value(%2$L) OPERATOR(pg_catalog.=) base THEN
                PERFORM %1$s.snowflake_generator_wait(counter);
                IF pg_catalog.pg_sequence_last_value(%2$L) OPERATOR(pg_catalog.=) base THEN
                    RETURN {id};
                END IF;
            END IF;
        END LOOP;
    END LOOP;
END
$function$, home, base, counter));
    END LOOP;

    EXECUTE pg_catalog.format(
        'CREATE OR REPLACE FUNCTION %s.snowflake_batch(count pg_catalog.int8) RETURNS SETOF pg_catalog.int8
            LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
            SET search_path = pg_catalog, pg_temp AS %L',
        home, pg_catalog.format($function$
BEGIN
    IF count OPERATOR(pg_catalog.<) 1 OR count OPERATOR(pg_catalog.>) {most_batch} THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = pg_catalog.concat('cannot issue a batch of ', count, ' snowflake IDs'),
            DETAIL = 'The count must be between 1 and {most_batch}.',
            HINT = CASE WHEN count OPERATOR(pg_catalog.<) 1 THEN 'Request at least one ID.'
                ELSE 'Request the IDs in several batches.' END;
    END IF;
    FOR taken IN 1..count LOOP
        RETURN NEXT %1$s.snowflake_nextval();
    END LOOP;
END
$function$, home));

    EXECUTE pg_catalog.format(
        'CREATE OR REPLACE FUNCTION %s.snowflake_raise_floor(floor pg_catalog.timestamptz) RETURNS pg_catalog.void
            LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
            SET search_path = pg_catalog, pg_temp AS %L',
        home, pg_catalog.format($function$
DECLARE
    ticks pg_catalog.int8;
BEGIN
    IF floor OPERATOR(pg_catalog.>) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) INTERVAL '24 hours') THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range',
            MESSAGE = 'cannot move the floor more than one day ahead of the clock',
            DETAIL = 'The server would issue no IDs before the clock reaches that time.',
            HINT = 'Use the time of the last ID that was issued elsewhere.';
    END IF;
    IF floor OPERATOR(pg_catalog.<=) pg_catalog.to_timestamp({epoch_us} OPERATOR(pg_catalog./) 1000000::pg_catalog.float8) THEN
        RETURN;
    END IF;
    ticks := ({floor_us} OPERATOR(pg_catalog.-) {epoch_us} OPERATOR(pg_catalog.+) {unit_us} OPERATOR(pg_catalog.-) 1)
        OPERATOR(pg_catalog./) {unit_us};
    IF ticks OPERATOR(pg_catalog.>) ({last} OPERATOR(pg_catalog.>>) {sequence_bits}) THEN
        RAISE EXCEPTION USING ERRCODE = 'sequence_generator_limit_exceeded',
            MESSAGE = 'the layout is exhausted',
            DETAIL = 'The time field of {time_bits} bits ended at {end}.',
            HINT = 'Check the server''s clock, or choose a layout with a later epoch or more time bits.';
    END IF;
    PERFORM %1$s.snowflake_generator_raise(ticks OPERATOR(pg_catalog.<<) {sequence_bits});
END
$function$, home));

    FOR object, statement IN VALUES
        ('snowflake_nextval()', 'the next snowflake ID'),
        ('snowflake_next()', 'the next snowflake ID'),
        ('snowflake_batch(pg_catalog.int8)', 'the next snowflake IDs, in ascending order'),
        ('snowflake_raise_floor(pg_catalog.timestamptz)', 'prevents new snowflake IDs with a time before an instant'),
        ('snowflake_generator_raise(pg_catalog.int8)', 'raises the generator of snowflake IDs to a counter'),
        ('snowflake_generator_wait(pg_catalog.int8)', 'waits until the clock permits a counter')
    LOOP
        EXECUTE pg_catalog.format('COMMENT ON FUNCTION %s.%s IS %L', home, object,
            pg_catalog.concat(statement, ', layout {layout}, {identity}'));
    END LOOP;

    -- Default privileges may grant rights on new objects. Rights that were granted after the first run are kept.
    FOR statement IN
        SELECT pg_catalog.format('REVOKE ALL ON %s %s FROM %s', found.kind, found.name,
            CASE WHEN acl.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
                 ELSE acl.grantee::pg_catalog.regrole::pg_catalog.text END)
        FROM (
            SELECT CASE WHEN relation.relkind OPERATOR(pg_catalog.=) 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
                   relation.oid::pg_catalog.regclass::pg_catalog.text, relation.relname, relation.relnamespace,
                   relation.relowner, relation.relacl
            FROM pg_catalog.pg_class AS relation
            UNION ALL
            SELECT 'FUNCTION', function.oid::pg_catalog.regprocedure::pg_catalog.text, function.proname,
                   function.pronamespace, function.proowner,
                   coalesce(function.proacl, pg_catalog.acldefault('f', function.proowner))
            FROM pg_catalog.pg_proc AS function
        ) AS found (kind, name, short_name, namespace, owner, privileges)
        JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid OPERATOR(pg_catalog.=) found.namespace
        CROSS JOIN LATERAL pg_catalog.aclexplode(found.privileges) AS acl
        WHERE namespace.nspname OPERATOR(pg_catalog.=) schema_name
          AND found.short_name OPERATOR(pg_catalog.~) '^snowflake_(generator_|nextval$|next$|batch$|raise_floor$)'
          AND acl.grantee OPERATOR(pg_catalog.<>) found.owner
          -- A restore without privileges permits every role to call the functions.
          AND (found.short_name OPERATOR(pg_catalog.<>) ALL (existing)
               OR acl.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid
               AND found.short_name OPERATOR(pg_catalog.~) '^snowflake_(generator_|raise_floor$)')
    LOOP
        EXECUTE statement;
    END LOOP;

    -- Functions that read IDs. They are part of this block, so that none is replaced if the block fails.
    EXECUTE $reader${reader}$reader$;
END
$generator$;
