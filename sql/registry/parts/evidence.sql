-- Evidence ----------------------------------------------------------------------------------------------

-- The registry signs its grants. Servers keep the signed tokens and present them in each call. If the registry was
-- restored to an earlier state, the tokens prove which grants were lost. All other reports of servers are unproven
-- claims.
--
-- The registry signs only grants that an earlier transaction has committed durably. Otherwise, a caller could roll back or
-- lose a signed grant, and the token would then seem to prove a loss.

CREATE TYPE snowflake_registry.evidence AS (
    datacenter_id int,
    worker_id int,
    grant_count bigint,
    granted_from timestamptz,
    granted_until timestamptz,
    lease_mark text,
    serial bigint,
    name text,
    next_value numeric,
    ahead_value numeric,
    last_request text,
    frozen_until timestamptz
);
COMMENT ON TYPE snowflake_registry.evidence IS
    'contents of a token: a lease or a segment, the total number of grants, and the last request of an administrator';

CREATE FUNCTION snowflake_registry.make_key() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Four times 122 random bits.
    key CONSTANT bytea := sha256(convert_to(
        concat(gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid()), 'UTF8'));
    pads bytea[] := '{}';
    pad bytea;
BEGIN
    FOR number IN 0 .. 1 LOOP
        pad := decode(repeat(CASE number WHEN 0 THEN '36' ELSE '5c' END, 64), 'hex');
        FOR i IN 0 .. 31 LOOP
            pad := set_byte(pad, i, get_byte(pad, i) # get_byte(key, i));
        END LOOP;
        pads := pads || pad;
    END LOOP;
    INSERT INTO snowflake_registry.signing_key (inner_pad, outer_pad) VALUES (pads[1], pads[2])
    ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION snowflake_registry.make_key() IS 'creates the signing key of a new registry';

-- VOLATILE, so that the query takes its snapshot after it has locked the table: see is_limited().
CREATE FUNCTION snowflake_registry.signed(statement text) RETURNS text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT statement || '.' || encode(
            sha256(key.outer_pad || sha256(key.inner_pad || convert_to(statement, 'UTF8'))), 'hex')
        FROM snowflake_registry.signing_key AS key
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.signed(text) IS 'appends the HMAC-SHA256 to a statement';

CREATE FUNCTION snowflake_registry.mark_of(lease_id uuid) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN left(encode(sha256(lease_id::text::bytea), 'hex'), 16);
COMMENT ON FUNCTION snowflake_registry.mark_of(uuid) IS 'hash that identifies a lease without revealing the ID of the lease';

-- The last part of each token.
CREATE FUNCTION snowflake_registry.requests_in_token(settings snowflake_registry.settings) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN coalesce(settings.requests[cardinality(settings.requests)], '') || ':' || CASE
    WHEN settings.frozen_until IS NULL THEN ''
    ELSE coalesce(snowflake_registry.microseconds(settings.frozen_until)::text, 'infinity') END;
COMMENT ON FUNCTION snowflake_registry.requests_in_token(snowflake_registry.settings) IS
    'last request of an administrator and the time until which the registry is frozen, as the last part of a token';

-- A visible grant is committed, but a crash or a failover may still lose its commit: the caller that made the grant may
-- have lowered synchronous_commit after the call, or may have canceled its wait for a standby. A token of such a grant
-- would then seem to prove a loss, although only an unacknowledged commit was lost. Therefore, the registry signs a grant
-- when its commit is durable on this server and, if commits wait for standbys, on as many standbys as they wait for.
--
-- A call of a server reads the position in WAL and the statements first, waits without a lock until the position is
-- durable, and then signs the statements. What it reads before would have to be flushed as well, because reading a page
-- may prune it, which writes WAL.

-- NULL if a managed service denies access to the position. The registry then signs all committed grants.
CREATE FUNCTION snowflake_registry.wal_position() RETURNS pg_lsn
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    inserted pg_lsn;
    size_of_header numeric;
BEGIN
    inserted := pg_current_wal_insert_lsn();
    -- If the last page is full, the position is behind the header of the next page, which is flushed only with a record.
    -- The first page of each segment has a longer header.
    size_of_header := CASE
        WHEN mod(inserted - pg_lsn '0/0', pg_size_bytes(current_setting('wal_segment_size'))) = 40 THEN 40
        WHEN mod(inserted - pg_lsn '0/0', current_setting('wal_block_size')::numeric) = 24 THEN 24
        ELSE 0 END;
    RETURN inserted - size_of_header;
EXCEPTION
    WHEN insufficient_privilege OR feature_not_supported OR undefined_function OR object_not_in_prerequisite_state THEN
        RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.wal_position() IS 'position in WAL that the commits of all visible rows precede';

-- Without the privileges of pg_read_all_stats, the owner of the registry does not see the standbys.
CREATE FUNCTION snowflake_registry.durable_position() RETURNS pg_lsn
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names CONSTANT text := current_setting('synchronous_standby_names');
    here pg_lsn;
    needed numeric;
BEGIN
    here := pg_current_wal_flush_lsn();
    IF names = '' OR current_setting('max_wal_senders') = '0' OR NOT pg_has_role('pg_read_all_stats', 'USAGE') THEN
        RETURN here;
    END IF;
    -- PostgreSQL has checked the syntax: FIRST n (...), ANY n (...), n (...), or a list, which means 1. Names that
    -- contain parentheses are quoted.
    needed := coalesce(
        (regexp_match(names COLLATE "C", '^[[:space:]]*((first|any)[[:space:]]+)?([0-9]+)[[:space:]]*[(]', 'i'))[3]::numeric,
        1);
    RETURN least(here, coalesce((
        SELECT sender.flush_lsn
        FROM (
            SELECT standby.flush_lsn, row_number() OVER (ORDER BY standby.flush_lsn DESC) AS place
            FROM pg_stat_get_wal_senders() AS standby
            WHERE standby.sync_state = ANY ('{sync,quorum}') AND standby.flush_lsn IS NOT NULL
        ) AS sender
        WHERE sender.place = needed
    ), '0/0'));
EXCEPTION
    WHEN insufficient_privilege OR feature_not_supported OR undefined_function OR object_not_in_prerequisite_state THEN
        RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.durable_position() IS
    'position in WAL up to which commits are durable on this server and on the standbys that commits wait for';

-- The caller must hold no lock for which others wait. The pauses amount to 495 ms.
CREATE FUNCTION snowflake_registry.becomes_durable(seen pg_lsn) RETURNS boolean
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    started CONSTANT text := timeofday();
    durable pg_lsn;
BEGIN
    FOR pauses IN 0 .. 34 LOOP
        durable := snowflake_registry.durable_position();
        IF coalesce(durable >= seen, true) THEN
            RETURN true;
        END IF;
        -- pg_sleep() would wait without end for a clock that stands still, as in tests.
        EXIT WHEN pauses = 34 OR timeofday() = started;
        IF pauses = 3 AND current_setting('server_version_num')::int >= 170000 THEN
            -- Nothing else may flush WAL that no commit follows.
            BEGIN
                EXECUTE 'SELECT pg_logical_emit_message(false, ''snowflake_registry'', '''', true)';
            EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
                NULL;
            END;
        END IF;
        PERFORM pg_sleep(least(2 ^ pauses, 16) / 1000);
    END LOOP;
    RAISE LOG 'snowflake_id_registry: signed no token, because the last commits are not durable yet'
        USING DETAIL = format('Commits are durable up to %s, and the token requires %s.', durable, seen),
              HINT = 'Check whether the standbys in synchronous_standby_names are connected.';
    RETURN false;
END
$$;
COMMENT ON FUNCTION snowflake_registry.becomes_durable(pg_lsn) IS
    'waits up to 495 ms until commits are durable up to a position; false if they are not durable yet';

-- A call that changes nothing may still write WAL, because reading a page may prune it. Nothing but the WAL writer would flush
-- this WAL, after wal_writer_delay, and the next call would wait for it. The message belongs to the transaction, so the
-- commit flushes it. The commit also waits for standbys, so the caller must have seen that they are connected.
CREATE FUNCTION snowflake_registry.flush_at_commit() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_current_xact_id_if_assigned() IS NULL AND snowflake_registry.wal_position() > pg_current_wal_flush_lsn() THEN
        PERFORM pg_logical_emit_message(true, 'snowflake_registry', '');
    END IF;
EXCEPTION
    WHEN insufficient_privilege OR feature_not_supported OR undefined_function OR object_not_in_prerequisite_state THEN
        RETURN;
END
$$;
COMMENT ON FUNCTION snowflake_registry.flush_at_commit() IS
    'lets the commit of a call that changed nothing flush the WAL that the call has left';

-- STABLE, so that all queries of the function use the snapshot of the calling query, which was taken before the position
-- is read. If the transaction has written anything, there is no statement, because it could be rolled back.
CREATE FUNCTION snowflake_registry.statement_of_lease(lease_id uuid, OUT statement text, OUT seen pg_lsn)
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RETURN;
    END IF;
    seen := snowflake_registry.wal_position();
    SELECT concat_ws(
        ':', 'lease', lease.datacenter_id, lease.worker_id, lease.grant_count,
        snowflake_registry.microseconds(lease.granted_from),
        snowflake_registry.microseconds(lease.granted_until), settings.serial,
        snowflake_registry.mark_of(lease.lease_id), snowflake_registry.requests_in_token(settings)) INTO statement
    FROM snowflake_registry.lease AS lease, snowflake_registry.settings AS settings
    WHERE lease.lease_id = statement_of_lease.lease_id;
END
$$;
COMMENT ON FUNCTION snowflake_registry.statement_of_lease(uuid) IS
    'token for a lease, before it is signed, and the position in WAL that must be durable first';

CREATE FUNCTION snowflake_registry.statements_of_segments(requests jsonb, OUT statements jsonb, OUT seen pg_lsn)
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RETURN;
    ELSIF jsonb_typeof(requests) IS DISTINCT FROM 'array' OR jsonb_array_length(requests) NOT BETWEEN 1 AND 64 THEN
        RETURN;
    END IF;
    seen := snowflake_registry.wal_position();
    SELECT jsonb_object_agg(segment.name, concat(
        'segment:', encode(convert_to(segment.name, 'UTF8'), 'hex'), ':', segment.next_value, ':',
        segment.ahead_value, ':', settings.serial, ':', snowflake_registry.requests_in_token(settings)))
    INTO statements
    FROM snowflake_registry.segment AS segment, snowflake_registry.settings AS settings
    WHERE segment.name = ANY (ARRAY(
        SELECT element ->> 'name' FROM jsonb_array_elements(statements_of_segments.requests) AS element
    ));
END
$$;
COMMENT ON FUNCTION snowflake_registry.statements_of_segments(jsonb) IS
    'tokens for the numbers that were granted of the requested segments, before they are signed, and the position in WAL '
    'that must be durable first';

-- Tokens without a valid signature of this registry are ignored.
CREATE FUNCTION snowflake_registry.read_tokens(tokens jsonb) RETURNS SETOF snowflake_registry.evidence
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shown snowflake_registry.evidence;
    said text;
    parts text[];
BEGIN
    FOR said IN
        SELECT element #>> '{}' FROM jsonb_array_elements(tokens) AS element
        WHERE jsonb_typeof(element) = 'string'
    LOOP
        -- A token contains the name of its segment in hexadecimal.
        CONTINUE WHEN length(said) > 800
            OR said IS DISTINCT FROM snowflake_registry.signed(split_part(said, '.', 1));
        parts := string_to_array(split_part(said, '.', 1), ':');
        shown := NULL;
        IF parts[1] = 'lease' THEN
            shown.datacenter_id := parts[2];
            shown.worker_id := parts[3];
            shown.grant_count := parts[4];
            shown.granted_from := snowflake_registry.instant(parts[5]::bigint);
            shown.granted_until := snowflake_registry.instant(parts[6]::bigint);
            shown.serial := parts[7];
            shown.lease_mark := parts[8];
            parts := parts[9:];
        ELSIF parts[1] = 'segment' THEN
            shown.name := convert_from(decode(parts[2], 'hex'), 'UTF8');
            shown.next_value := parts[3];
            shown.ahead_value := nullif(parts[4], '');
            shown.serial := parts[5];
            parts := parts[6:];
        ELSE
            -- A newer version of this registry has signed the token, and the registry was set back since then. What was
            -- granted is not known, so the token counts as a lost request, after which an administrator has to check.
            parts := ARRAY['token ' || parts[1], NULL];
        END IF;
        shown.last_request := parts[1];
        shown.frozen_until := CASE WHEN parts[2] = 'infinity' THEN timestamptz 'infinity'
            ELSE snowflake_registry.instant(nullif(parts[2], '')::bigint) END;
        RETURN NEXT shown;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_registry.read_tokens(jsonb) IS 'contents of the tokens that this registry has signed';

CREATE FUNCTION snowflake_registry.is_request_lost(
    shown snowflake_registry.evidence, settings snowflake_registry.settings
)
RETURNS boolean
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN shown.last_request <> '' AND shown.last_request <> ALL (settings.requests);
COMMENT ON FUNCTION snowflake_registry.is_request_lost(snowflake_registry.evidence, snowflake_registry.settings) IS
    'tests whether a token contains a request of an administrator that the registry has not recorded';

-- Every number of a later period is higher than all numbers of an earlier period.
CREATE FUNCTION snowflake_registry.what_tokens_prove(tokens jsonb) RETURNS text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shown snowflake_registry.evidence;
    registry snowflake_registry.settings;
    lease snowflake_registry.lease;
    segment snowflake_registry.segment;
BEGIN
    SELECT * INTO registry FROM snowflake_registry.settings;
    FOR shown IN SELECT * FROM snowflake_registry.read_tokens(tokens) LOOP
        IF shown.serial IS NULL AND snowflake_registry.is_request_lost(shown, registry) THEN
            RETURN 'a newer version of this registry has signed a token, and the registry was set back since then';
        ELSIF snowflake_registry.is_request_lost(shown, registry) THEN
            RETURN 'a server knows of a call of configure(), start_fleet(), reserve(), freeze() or unfreeze(), and the registry does not';
        ELSIF shown.serial > registry.serial THEN
            RETURN format('a server knows of %s grants, and the registry knows of %s', shown.serial, registry.serial);
        ELSIF shown.worker_id IS NOT NULL THEN
            SELECT * INTO lease FROM snowflake_registry.lease AS known
            WHERE known.datacenter_id = shown.datacenter_id AND known.worker_id = shown.worker_id;
            IF NOT FOUND OR shown.grant_count > lease.grant_count
               OR shown.grant_count = lease.grant_count AND shown.lease_mark <> snowflake_registry.mark_of(lease.lease_id)
               OR shown.granted_from = lease.granted_from AND shown.granted_until > lease.granted_until
               OR shown.granted_from <> lease.granted_from
                  AND shown.granted_until > greatest(lease.granted_from, lease.released_until) THEN
                RETURN format('a server was granted worker ID %s of datacenter %s from %s to %s, and the '
                              'registry does not know of this grant', shown.worker_id, shown.datacenter_id,
                              snowflake_registry.in_words(shown.granted_from),
                              snowflake_registry.in_words(shown.granted_until));
            END IF;
        ELSIF shown.name IS NOT NULL THEN
            SELECT * INTO segment FROM snowflake_registry.segment AS known WHERE known.name = shown.name;
            IF NOT FOUND OR shown.next_value > segment.next_value
               OR shown.ahead_value > greatest(segment.next_value, segment.ahead_value) THEN
                RETURN format('numbers of segment %s were given up to %s, and the registry does not know of '
                              'them', snowflake_registry.name_in_words(shown.name),
                              greatest(shown.next_value, shown.ahead_value) - 1);
            END IF;
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.what_tokens_prove(jsonb) IS
    'reason to assume that commits were lost, if tokens prove grants that the registry has not recorded; otherwise NULL';

-- After a call of this function, the same tokens no longer prove a loss. The registry signs a lease when it is renewed, so
-- each lease of a token counts as renewed. The caller must hold the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.learn_from_tokens(tokens jsonb, lease_id uuid) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    shown snowflake_registry.evidence;
    lease snowflake_registry.lease;
    segment snowflake_registry.segment;
    holder uuid;
BEGIN
    FOR shown IN SELECT * FROM snowflake_registry.read_tokens(tokens) LOOP
        UPDATE snowflake_registry.settings SET serial = shown.serial WHERE serial < shown.serial;
        -- The registry does not know which request was lost, so an administrator has to check. If there are two ends of
        -- a freeze, the earlier end counts, because another registry may start at that time.
        UPDATE snowflake_registry.settings AS settings
        SET requests = array_append(settings.requests, shown.last_request),
            frozen_until = coalesce(least(shown.frozen_until, settings.frozen_until), 'infinity')
        WHERE snowflake_registry.is_request_lost(shown, settings);
        IF shown.worker_id IS NOT NULL THEN
            -- If the caller is the holder, the caller keeps the identity.
            holder := CASE
                WHEN shown.lease_mark = snowflake_registry.mark_of(learn_from_tokens.lease_id)
                     AND NOT EXISTS (SELECT FROM snowflake_registry.lease AS known
                                     WHERE known.lease_id = learn_from_tokens.lease_id)
                THEN learn_from_tokens.lease_id END;
            SELECT * INTO lease FROM snowflake_registry.lease AS known
            WHERE known.datacenter_id = shown.datacenter_id AND known.worker_id = shown.worker_id;
            IF NOT FOUND THEN
                INSERT INTO snowflake_registry.lease (
                    datacenter_id, worker_id, granted_from, granted_until, lease_id, acquired_at, renewed_at, grant_count
                )
                VALUES (
                    shown.datacenter_id, shown.worker_id, shown.granted_from, shown.granted_until, holder, moment,
                    moment, shown.grant_count
                );
            ELSIF shown.granted_from = lease.granted_from AND shown.grant_count <= lease.grant_count
                  AND NOT coalesce(shown.grant_count = lease.grant_count
                                   AND shown.lease_mark <> snowflake_registry.mark_of(lease.lease_id), false) THEN
                UPDATE snowflake_registry.lease AS known SET granted_until = shown.granted_until, is_renewed = true
                WHERE known.datacenter_id = shown.datacenter_id AND known.worker_id = shown.worker_id
                  AND known.granted_until < shown.granted_until;
            ELSIF shown.grant_count >= lease.grant_count
                  OR shown.granted_until > greatest(lease.granted_from, lease.released_until) THEN
                -- The holder recorded so far can use the identity until the end of its range.
                UPDATE snowflake_registry.lease AS known
                SET used_until = NULL,
                    -- A later grant that starts before the end of this one follows a release, which was lost.
                    released_until = CASE
                        WHEN shown.grant_count > lease.grant_count AND lease.grant_count > 0 AND shown.granted_from < lease.granted_until
                        THEN greatest(lease.released_until, shown.granted_until) ELSE lease.released_until END,
                    granted_from = CASE WHEN shown.grant_count > lease.grant_count THEN shown.granted_from
                                        ELSE greatest(lease.granted_until, shown.granted_until) END,
                    granted_until = greatest(lease.granted_until, shown.granted_until),
                    grant_count = greatest(lease.grant_count + 1, shown.grant_count), nonce = NULL,
                    is_renewed = true, protocol = DEFAULT,
                    lease_id = CASE WHEN shown.grant_count > lease.grant_count
                                         AND (lease.grant_count = 0
                                              OR coalesce(lease.used_until, lease.granted_until) <= shown.granted_from)
                                    THEN holder END
                WHERE known.datacenter_id = shown.datacenter_id AND known.worker_id = shown.worker_id;
            END IF;
        ELSIF shown.name IS NOT NULL THEN
            SELECT * INTO segment FROM snowflake_registry.segment AS known WHERE known.name = shown.name;
            IF shown.next_value > segment.next_value
               OR shown.ahead_value > greatest(segment.next_value, segment.ahead_value) THEN
                segment.next_value := greatest(segment.next_value, shown.next_value);
                segment.ahead_value := greatest(segment.ahead_value, shown.ahead_value);
                segment.period_key := snowflake_registry.key_of_number(segment.digits, segment.next_value - 1);
                segment.ahead_key := snowflake_registry.key_of_number(segment.digits, segment.ahead_value - 1);
                -- Either the next period has started, or the segment has no periods in this registry.
                IF coalesce(segment.ahead_key <= segment.period_key, segment.period IS NULL) THEN
                    segment.next_value := greatest(segment.next_value, segment.ahead_value);
                    segment.ahead_key := NULL;
                    segment.ahead_value := NULL;
                END IF;
                UPDATE snowflake_registry.segment AS known
                SET next_value = segment.next_value, period_key = segment.period_key, ahead_key = segment.ahead_key,
                    ahead_value = segment.ahead_value, has_left = true, updated_at = moment
                WHERE known.name = shown.name;
            END IF;
            -- If the creation of a segment was lost, the segment is treated as dropped. If the segment is created
            -- again, it continues above the numbers in the token.
            INSERT INTO snowflake_registry.segment (
                name, next_value, start, increment, min_step, max_step, step, max_value, has_left, updated_at,
                dropped_at, was_lost
            )
            VALUES (
                shown.name, greatest(shown.next_value, shown.ahead_value), 0, 1, 1000, 1000000, 1000,
                9223372036854775807, true, moment, moment, true
            )
            ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_registry.learn_from_tokens(jsonb, uuid) IS
    'records the grants that are proven by tokens';
