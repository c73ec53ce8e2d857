-- Functions for servers -----------------------------------------------------------------------------------

-- Returns the identity that the caller gets, which is free from free_from, and the worker IDs that are reserved for its role.
-- Without reserved ones, a server with a pin gets none.
CREATE FUNCTION snowflake_registry.choose_worker(
    settings snowflake_registry.settings, moment timestamptz, datacenter_id int, worker_limit bigint, pin int, unwanted int[],
    by_hand int[], node_name text, OUT reserved int[], OUT worker_id int, OUT free_from timestamptz
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    named int[];
BEGIN
    reserved := ARRAY(SELECT lease.worker_id FROM snowflake_registry.lease AS lease
                      WHERE lease.datacenter_id = choose_worker.datacenter_id AND lease.reserved_for = session_user
                        AND lease.worker_id = coalesce(choose_worker.pin, lease.worker_id));
    IF choose_worker.pin IS NOT NULL AND cardinality(reserved) = 0 THEN
        RETURN;
    END IF;
    -- A worker ID that the server can never have does not keep it from the others.
    named := ARRAY(SELECT element FROM unnest(reserved) AS element
                   WHERE element = ANY (choose_worker.by_hand)
                     AND element < choose_worker.worker_limit AND element <> ALL (choose_worker.unwanted));
    IF cardinality(named) > 0 THEN
        reserved := named;
    END IF;

    -- Find a free identity, or otherwise the identity that becomes free first. Identities that the node held before are
    -- preferred. Identities that are said to be used by hand come last.
    WITH known AS (
        SELECT lease.worker_id,
               -- The end of a new range must not be before granted_until.
               greatest(CASE WHEN lease.used_until IS NULL THEN lease.granted_until
                             ELSE greatest(lease.used_until, lease.granted_until - settings.lease) END,
                        settings.nothing_before) AS free_from,
               lease.node_name = choose_worker.node_name AS was_its_own, lease.renewed_at, lease.is_reserved,
               lease.said_by_hand IS NOT NULL AS is_by_hand
        FROM snowflake_registry.lease AS lease
        WHERE lease.datacenter_id = choose_worker.datacenter_id
    ),
    -- NOT IN with a subquery builds a hash table once. A search of the array for each candidate would take a second for
    -- the longest list, while all other calls wait.
    --
    -- The lowest identity that was never granted is first_worker, or the successor of a known or refused identity.
    never_given AS (
        SELECT min(candidate.worker_id)::int AS worker_id,
               settings.nothing_before AS free_from,
               false AS was_its_own, NULL::timestamptz AS renewed_at, false AS is_reserved, false AS is_by_hand
        FROM (
            SELECT settings.first_worker::bigint AS worker_id
            UNION ALL SELECT known.worker_id::bigint + 1 FROM known
            UNION ALL SELECT element::bigint + 1 FROM unnest(choose_worker.unwanted) AS element
        ) AS candidate
        WHERE candidate.worker_id BETWEEN settings.first_worker AND settings.last_worker
          AND candidate.worker_id < choose_worker.worker_limit
          AND candidate.worker_id NOT IN (SELECT element FROM unnest(choose_worker.unwanted) AS element)
          AND candidate.worker_id NOT IN (SELECT known.worker_id FROM known)
    )
    SELECT candidate.worker_id, candidate.free_from INTO choose_worker.worker_id, choose_worker.free_from
    FROM (SELECT * FROM known UNION ALL SELECT * FROM never_given) AS candidate
    WHERE CASE WHEN cardinality(reserved) > 0 THEN candidate.worker_id = ANY (reserved)
               ELSE candidate.worker_id BETWEEN settings.first_worker AND settings.last_worker
                    AND NOT candidate.is_reserved END
      AND candidate.worker_id < choose_worker.worker_limit
      AND candidate.worker_id NOT IN (SELECT element FROM unnest(choose_worker.unwanted) AS element)
    ORDER BY CASE WHEN candidate.free_from > moment THEN candidate.free_from ELSE '-infinity' END,
             candidate.is_by_hand,
             coalesce(candidate.was_its_own, false) DESC,
             CASE WHEN candidate.was_its_own THEN candidate.renewed_at END DESC NULLS LAST,
             candidate.worker_id
    LIMIT 1;
END
$$;
COMMENT ON FUNCTION snowflake_registry.choose_worker(
    snowflake_registry.settings, timestamptz, int, bigint, int, int[], int[], text) IS
    'identity that is free for a server, or that will be free first';

-- A role cannot end the reports of other roles, and its own reports change the choice for others little.
CREATE FUNCTION snowflake_registry.note_hands(
    settings snowflake_registry.settings, moment timestamptz, datacenter_id int, by_hand int[]
)
RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    caller CONSTANT text := session_user;
    no_range CONSTANT timestamptz := least(settings.nothing_before, moment);
BEGIN
    IF (settings.is_started AND note_hands.datacenter_id <= settings.last_datacenter) IS NOT TRUE THEN
        RETURN;
    END IF;
    -- A role adds at most about 64 rows.
    INSERT INTO snowflake_registry.lease AS lease (
        datacenter_id, worker_id, granted_from, granted_until, role, acquired_at, renewed_at, grant_count, said_by_hand
    )
    SELECT note_hands.datacenter_id, hand.worker_id, no_range, no_range, caller, moment, moment, 0,
           jsonb_build_object(caller, snowflake_registry.microseconds(moment))
    FROM unnest(note_hands.by_hand) AS hand (worker_id)
    WHERE EXISTS (SELECT FROM snowflake_registry.lease AS known
                  WHERE known.datacenter_id = note_hands.datacenter_id AND known.worker_id = hand.worker_id)
       OR hand.worker_id BETWEEN settings.first_worker AND settings.last_worker
          AND (SELECT count(*) FROM snowflake_registry.lease AS known
               WHERE known.role = caller AND known.grant_count = 0) < 64
    ON CONFLICT (datacenter_id, worker_id) DO UPDATE
    SET said_by_hand = coalesce(lease.said_by_hand, '{}') || excluded.said_by_hand
    WHERE coalesce((lease.said_by_hand ->> caller)::bigint, 0)
          < snowflake_registry.microseconds(moment - interval '1 hour');
    -- The last reports of a role count. A spare stays used up.
    UPDATE snowflake_registry.lease AS lease
    SET said_by_hand = nullif(lease.said_by_hand - caller, '{}')
    FROM (SELECT known.datacenter_id, known.worker_id
          FROM snowflake_registry.lease AS known
          WHERE known.said_by_hand ? caller AND NOT (known.is_reserved AND known.reserved_for IS NULL)
          ORDER BY (known.said_by_hand ->> caller)::bigint DESC, known.datacenter_id, known.worker_id
          OFFSET 64) AS older
    WHERE lease.datacenter_id = older.datacenter_id AND lease.worker_id = older.worker_id;
END
$$;
COMMENT ON FUNCTION snowflake_registry.note_hands(snowflake_registry.settings, timestamptz, int, int[]) IS
    'records the worker IDs that the configuration of the caller sets by hand, and forgets all but the last 64 of its role';

CREATE FUNCTION snowflake_registry.other_by_hand(worker_id int, by_hand int[]) RETURNS text
STABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE
    WHEN cardinality(by_hand) > 0 AND worker_id <> ALL (by_hand)
    THEN format('worker ID %s was granted, and the configuration of the server sets worker ID %s, which is not reserved for role %s',
                worker_id, array_to_string(by_hand, ', '), snowflake_registry.name_in_words(session_user)) END;
COMMENT ON FUNCTION snowflake_registry.other_by_hand(int, int[]) IS
    'detail of an answer that grants a worker ID other than those that are set by hand; otherwise NULL';

CREATE FUNCTION snowflake_registry.acquire(request jsonb) RETURNS snowflake_registry.answer
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
<<call>>
DECLARE
    begun record;
    answer snowflake_registry.answer;
    said record;
    needs record;
    lease_id CONSTANT uuid := snowflake_registry.uuid_of(request, 'lease_id');
    nonce CONSTANT uuid := snowflake_registry.uuid_of(request, 'nonce');
    registry snowflake_registry.settings;
    moment timestamptz;
    held snowflake_registry.lease;
    -- The worker IDs that are reserved for the role of the caller, if there are any.
    reserved int[];
    free record;
    before record;
BEGIN
    PERFORM snowflake_registry.begin_call();
    SELECT * INTO begun FROM snowflake_registry.begin_answer(request, true);
    answer := begun.answer;
    IF answer.outcome IS NULL THEN
        IF lease_id IS NULL OR nonce IS NULL THEN
            RAISE EXCEPTION 'the values of keys "lease_id" and "nonce" must be UUIDs'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Send strings such as "11111111-1111-4111-8111-111111111111".';
        END IF;
        SELECT * INTO needs FROM snowflake_registry.read_needs(request -> 'needs');
        IF needs.unknown IS NOT NULL THEN
            answer.outcome := 'registry too old';
            answer.detail := format('the request needs "%s", which this registry does not know',
                                    left(snowflake_registry.printable(needs.unknown), 40));
        END IF;
    END IF;
    -- In a request with another protocol, the key may have another meaning.
    SELECT * INTO said FROM snowflake_registry.read_facts(
        CASE WHEN begun.protocol BETWEEN answer.lowest_protocol AND answer.highest_protocol THEN request -> 'facts' END);
    -- The tokens of a refused server also count.
    registry := snowflake_registry.open_registry(answer.outcome IS NULL OR cardinality(said.by_hand) > 0, request -> 'tokens',
                                                 answer.outcome IS NULL);
    answer.renew_every := snowflake_registry.microseconds(snowflake_registry.call_every(registry));
    moment := clock_timestamp();

    -- A refused server continues with its worker ID. Other servers still get the worker ID if no other one is free.
    IF cardinality(said.by_hand) > 0 THEN
        PERFORM snowflake_registry.note_hands(
            registry, moment, snowflake_registry.number_of(request -> 'needs', 'datacenter', 0, 2147483647)::int, said.by_hand);
    END IF;
    IF answer.outcome IS NOT NULL THEN
        RETURN answer;
    END IF;
    said.clock_offset :=
        coalesce(said.clock_offset, make_interval(secs => begun.clock_offset::float8 / 1000000));

    -- The answer to an earlier call may have been lost. Therefore, a repeated request gets the same answer. The row is
    -- written again so that the server waits for this commit.
    SELECT * INTO held FROM snowflake_registry.lease AS lease WHERE lease.lease_id = call.lease_id;
    IF FOUND THEN
        -- A renewal shows that the holder has received the first answer, and so does a token, which only a renewal returns.
        -- The registry may have lost the renewal.
        IF held.used_until IS NOT NULL THEN
            answer.outcome := 'twin';
            answer.detail := format('worker ID %s was held under this lease, and the lease has been released',
                                    held.worker_id);
            RETURN answer;
        ELSIF held.is_renewed OR held.nonce <> call.nonce OR EXISTS (
            SELECT FROM snowflake_registry.read_tokens(request -> 'tokens') AS shown
            WHERE shown.lease_mark = snowflake_registry.mark_of(call.lease_id)
        ) THEN
            answer.outcome := 'twin';
            answer.detail := format('worker ID %s is held under this lease, and the lease has been renewed since',
                                    held.worker_id);
            RETURN answer;
        ELSIF held.granted_until > moment AND held.granted_until <= moment + interval '24 hours 1 minute'
              AND held.datacenter_id = needs.datacenter
              AND held.worker_id = coalesce(needs.pin, held.worker_id)
              AND NOT (held.is_reserved AND held.reserved_for IS DISTINCT FROM session_user)
              AND held.worker_id < needs.worker_limit
              AND held.worker_id <> ALL (needs.unwanted) THEN
            answer.outcome := 'granted';
            -- The lease still counts as not renewed. If the nonce is not known, it remains NULL, because the last renewal may
            -- have been lost.
            UPDATE snowflake_registry.lease AS lease
            SET nonce = held.nonce
            WHERE lease.lease_id = call.lease_id;
            answer.datacenter_id := held.datacenter_id;
            answer.worker_id := held.worker_id;
            answer.granted_from := snowflake_registry.microseconds(held.granted_from);
            answer.granted_until := snowflake_registry.microseconds(held.granted_until);
            answer.detail := snowflake_registry.other_by_hand(held.worker_id, said.by_hand);
            RETURN answer;
        END IF;
        -- The lease has ended, or does not match the request. No other server gets the rest of its range.
        UPDATE snowflake_registry.lease AS lease
        SET lease_id = NULL, nonce = NULL
        WHERE lease.lease_id = call.lease_id;
    END IF;

    IF registry.frozen_until IS NOT NULL THEN
        answer.outcome := 'taken';
        answer.detail := 'the registry is frozen: if another registry replaces it, move this server there; otherwise see section "Lost requests" '
                         'of page run/registry of the manual';
        RETURN answer;
    ELSIF registry.registry_id IS NULL OR NOT registry.is_started THEN
        answer.outcome := 'not started';
        answer.detail := CASE
            WHEN EXISTS (SELECT FROM snowflake_registry.lease WHERE grant_count > 0)
            THEN 'the fleet was ended: to continue it, its administrator must call snowflake_registry.quarantine()'
            ELSE 'its administrator must call snowflake_registry.start_fleet()' END;
        RETURN answer;
    ELSIF needs.datacenter > registry.last_datacenter THEN
        answer.outcome := 'taken';
        answer.detail := format('the registry grants worker IDs for datacenters 0 to %s, not for datacenter %s',
                                registry.last_datacenter, needs.datacenter);
        RETURN answer;
    END IF;

    IF registry.waits > '0' THEN
        answer.outcome := 'taken';
        answer.free_from := snowflake_registry.microseconds(registry.counted_at + registry.waits);
        answer.detail := format('quarantine until %s: %s',
                                snowflake_registry.in_words(registry.counted_at + registry.waits),
                                snowflake_registry.shown_reason(registry.quarantine_reason));
        RETURN answer;
    END IF;

    SELECT * INTO free FROM snowflake_registry.choose_worker(
        registry, moment, needs.datacenter, needs.worker_limit, needs.pin, needs.unwanted, said.by_hand, said.node_name);
    reserved := free.reserved;
    IF free.worker_id IS NULL THEN
        answer.outcome := 'taken';
        answer.detail := CASE
            WHEN needs.pin IS NOT NULL AND cardinality(reserved) = 0 THEN
                format('worker ID %s is not reserved for role %s', needs.pin, snowflake_registry.name_in_words(session_user))
            ELSE format(
                'there is no worker ID for this server: the registry grants %s, worker IDs below %s fit the layout of '
                'the server, and the server has excluded %s',
                CASE WHEN cardinality(reserved) > 0
                     THEN format('only worker IDs %s to role %s', array_to_string(reserved, ', '), snowflake_registry.name_in_words(session_user))
                     ELSE format('worker IDs %s to %s', registry.first_worker, registry.last_worker) END,
                needs.worker_limit, cardinality(needs.unwanted)) END;
        RETURN answer;
    ELSIF free.free_from > moment THEN
        answer.outcome := 'taken';
        answer.free_from := snowflake_registry.microseconds(free.free_from);
        answer.detail := CASE
            WHEN registry.nothing_before > moment THEN
                format('the registry grants no range that starts before %s, and its clock shows %s',
                       snowflake_registry.in_words(registry.nothing_before),
                       snowflake_registry.in_words(moment))
            WHEN cardinality(reserved) > 0 THEN
                format('worker ID %s is taken until %s', free.worker_id,
                       snowflake_registry.in_words(free.free_from))
            ELSE format('all worker IDs are taken, and worker ID %s will be free first, at %s', free.worker_id,
                        snowflake_registry.in_words(free.free_from))
        END;
        RETURN answer;
    END IF;

    SELECT lease.node_name, lease.host, lease.port INTO before
    FROM snowflake_registry.lease AS lease
    WHERE lease.datacenter_id = needs.datacenter AND lease.worker_id = free.worker_id;
    INSERT INTO snowflake_registry.lease AS lease (
        datacenter_id, worker_id, granted_from, granted_until, lease_id, nonce, node_name, host, port, layout,
        version, protocol, worker_limit, clock_offset, role, acquired_at, renewed_at, is_renewed, grant_count
    )
    VALUES (
        needs.datacenter, free.worker_id, free.free_from, moment + registry.lease, call.lease_id,
        call.nonce, said.node_name, said.host, said.port, said.layout, said.version, begun.protocol,
        needs.worker_limit, said.clock_offset, session_user, moment, moment, false, 1
    )
    ON CONFLICT (datacenter_id, worker_id) DO UPDATE
    SET granted_from = excluded.granted_from, granted_until = excluded.granted_until,
        lease_id = excluded.lease_id, nonce = excluded.nonce, node_name = excluded.node_name,
        host = excluded.host, port = excluded.port, layout = excluded.layout, version = excluded.version,
        protocol = excluded.protocol, worker_limit = excluded.worker_limit, clock_offset = excluded.clock_offset,
        role = excluded.role, acquired_at = excluded.acquired_at,
        renewed_at = excluded.renewed_at, is_renewed = false, grant_count = lease.grant_count + 1, used_until = NULL,
        unsigned_since = NULL;
    UPDATE snowflake_registry.settings SET serial = registry.serial + 1;
    PERFORM snowflake_registry.sign_settings();
    RAISE LOG 'snowflake_id_registry: granted worker ID % (datacenter %) to %, from % to %; the previous holder is %',
        free.worker_id, needs.datacenter,
        snowflake_registry.server_in_words(said.node_name, said.host, said.port),
        snowflake_registry.in_words(free.free_from), snowflake_registry.in_words(moment + registry.lease),
        CASE WHEN before IS NULL THEN 'not known'
             ELSE snowflake_registry.server_in_words(before.node_name, before.host, before.port) END;
    answer.outcome := 'granted';
    answer.datacenter_id := needs.datacenter;
    answer.worker_id := free.worker_id;
    answer.granted_from := snowflake_registry.microseconds(free.free_from);
    answer.granted_until := snowflake_registry.microseconds(moment + registry.lease);
    answer.detail := snowflake_registry.other_by_hand(free.worker_id, said.by_hand);
    RETURN answer;
END
$$;
COMMENT ON FUNCTION snowflake_registry.acquire(jsonb) IS
    'grants an identity that no other server holds, or returns the time at which an identity will be free';

-- A copy of the holder may be running that does not know of the release.
CREATE FUNCTION snowflake_registry.is_range_released(lease_id uuid, tokens jsonb) RETURNS boolean
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (
        SELECT
        FROM snowflake_registry.read_tokens(is_range_released.tokens) AS shown
             JOIN snowflake_registry.lease AS lease USING (datacenter_id, worker_id)
        WHERE shown.lease_mark = snowflake_registry.mark_of(is_range_released.lease_id)
          AND shown.granted_until <= lease.released_until
          AND (shown.grant_count < lease.grant_count AND shown.granted_until > lease.granted_from
               OR shown.grant_count = lease.grant_count AND shown.granted_until > lease.used_until)
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.is_range_released(uuid, jsonb) IS
    'tests whether a token of this lease belongs to a range that was released, and that overlaps the current range';

CREATE FUNCTION snowflake_registry.renew(request jsonb) RETURNS snowflake_registry.answer
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
<<call>>
DECLARE
    begun record;
    answer snowflake_registry.answer;
    said record;
    lease_id CONSTANT uuid := snowflake_registry.uuid_of(request, 'lease_id');
    last_nonce CONSTANT uuid := snowflake_registry.uuid_of(request, 'last_nonce');
    next_nonce CONSTANT uuid := snowflake_registry.uuid_of(request, 'next_nonce');
    proves_loss boolean;
    shown record;
    is_durable boolean;
    registry snowflake_registry.settings;
    moment timestamptz;
    held snowflake_registry.lease;
BEGIN
    PERFORM snowflake_registry.begin_call();
    -- Nothing is read before: see wal_position().
    SELECT * INTO shown FROM snowflake_registry.statement_of_lease(call.lease_id);
    SELECT * INTO begun FROM snowflake_registry.begin_answer(request, true);
    answer := begun.answer;
    IF answer.outcome IS NULL AND (lease_id IS NULL OR last_nonce IS NULL OR next_nonce IS NULL) THEN
        RAISE EXCEPTION 'the values of keys "lease_id", "last_nonce" and "next_nonce" must be UUIDs'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Send strings such as "11111111-1111-4111-8111-111111111111".';
    END IF;

    -- If a server proves a loss, it gets no new token and keeps its old token. A new token would prove less, because
    -- the transaction has not yet committed what the old token proves.
    proves_loss := snowflake_registry.what_tokens_prove(request -> 'tokens') IS NOT NULL;
    IF NOT proves_loss AND shown.statement IS NOT NULL THEN
        is_durable := snowflake_registry.becomes_durable(shown.seen);
        answer.token := CASE WHEN is_durable THEN snowflake_registry.signed(shown.statement) END;
    END IF;
    registry := snowflake_registry.open_registry(false, request -> 'tokens', answer.outcome IS NULL,
                                                 call.lease_id, proves_loss);
    answer.renew_every := snowflake_registry.microseconds(snowflake_registry.call_every(registry));
    -- The tokens of a refused server also count.
    IF answer.outcome IS NOT NULL THEN
        RETURN answer;
    END IF;
    SELECT * INTO said FROM snowflake_registry.read_facts(request -> 'facts');
    said.clock_offset :=
        coalesce(said.clock_offset, make_interval(secs => begun.clock_offset::float8 / 1000000));
    -- Concurrent renewals of the same lease are serialized, and the second one sees the changes of the first one.
    SELECT * INTO held
    FROM snowflake_registry.lease AS lease WHERE lease.lease_id = call.lease_id FOR UPDATE;
    IF NOT FOUND THEN
        IF snowflake_registry.is_range_released(call.lease_id, request -> 'tokens') THEN
            -- The caller must not continue to the end of its lease, because the next range has started before that.
            answer.outcome := 'twin';
            answer.detail := 'another process has released this lease';
            RETURN answer;
        END IF;
        answer.outcome := 'unknown';
        answer.detail := 'no worker ID is held under this lease: the lease was revoked, the worker ID was granted '
                         'to another server, or commits were lost';
        RETURN answer;
    END IF;
    moment := clock_timestamp();
    IF held.used_until IS NOT NULL THEN
        answer.outcome := 'twin';
        answer.detail := 'another process has released this lease';
        RETURN answer;
    ELSIF held.nonce IS NOT NULL AND registry.server_started = pg_postmaster_start_time()
       AND NOT coalesce(held.nonce = call.last_nonce OR held.nonce = call.next_nonce, false) THEN
        RAISE LOG 'snowflake_id_registry: two servers hold worker ID % (datacenter %) under the same lease',
            held.worker_id, held.datacenter_id
            USING DETAIL = format('The registry refused a renewal by %s. One server may be a copy of the other.',
                                  snowflake_registry.server_in_words(said.node_name, said.host, said.port));
        answer.outcome := 'twin';
        answer.detail := format('worker ID %s was renewed under the same lease by another server, last at %s',
                                held.worker_id, snowflake_registry.in_words(held.renewed_at));
        RETURN answer;
    ELSIF held.is_reserved AND held.reserved_for IS DISTINCT FROM session_user AND registry.frozen_until IS NULL THEN
        -- A frozen registry grants no other worker ID.
        answer.outcome := 'unknown';
        answer.detail := format('worker ID %s is reserved for %s', held.worker_id,
                                snowflake_registry.reserved_in_words(held.reserved_for));
        RETURN answer;
    ELSIF held.granted_until > moment + interval '24 hours 1 minute' THEN
        -- The clock was wrong when this range was granted. Servers reject such a range, and can get other worker IDs.
        answer.outcome := 'unknown';
        answer.detail := format('worker ID %s was granted until %s by a clock that was ahead',
                                held.worker_id, snowflake_registry.in_words(held.granted_until));
        RETURN answer;
    ELSIF held.granted_until < registry.nothing_before AND registry.is_started AND registry.waits <= '0' THEN
        answer.outcome := 'unknown';
        answer.detail := format('the lease ended at %s, and it is not known which other servers had worker ID %s '
                                'before %s', snowflake_registry.in_words(held.granted_until), held.worker_id,
                                snowflake_registry.in_words(registry.nothing_before));
        RETURN answer;
    ELSIF held.granted_until <= moment AND registry.frozen_until IS NOT NULL THEN
        answer.outcome := 'quarantine';
        answer.detail := format('the lease ended at %s, and the registry is frozen',
                                snowflake_registry.in_words(held.granted_until));
        RETURN answer;
    ELSIF held.granted_until <= moment
          AND (registry.waits > '0' OR registry.nothing_before > moment OR NOT registry.is_started) THEN
        -- A renewal after the end of the lease is equivalent to a new grant.
        answer.outcome := 'quarantine';
        answer.free_from := snowflake_registry.microseconds(greatest(
            registry.counted_at + registry.waits, CASE WHEN registry.is_started THEN registry.nothing_before END));
        answer.detail := format('the lease ended at %s, and the registry is in quarantine until %s: %s',
                                snowflake_registry.in_words(held.granted_until),
                                snowflake_registry.in_words(CASE
                                    WHEN registry.waits > '0' THEN registry.counted_at + registry.waits
                                    WHEN registry.is_started THEN registry.nothing_before
                                    ELSE 'infinity' END),
                                coalesce(snowflake_registry.shown_reason(registry.quarantine_reason), 'the fleet was ended'));
        RETURN answer;
    END IF;
    UPDATE snowflake_registry.lease AS lease
    SET granted_until = greatest(lease.granted_until, least(moment + registry.lease, registry.frozen_until)),
        nonce = call.next_nonce,
        node_name = coalesce(said.node_name, lease.node_name),
        host = coalesce(said.host, lease.host),
        port = coalesce(said.port, lease.port),
        layout = coalesce(said.layout, lease.layout),
        version = coalesce(said.version, lease.version),
        protocol = begun.protocol,
        clock_offset = said.clock_offset,
        role = session_user,
        renewed_at = moment,
        is_renewed = true,
        unsigned_since = CASE WHEN is_durable THEN NULL WHEN NOT is_durable THEN coalesce(lease.unsigned_since, moment)
                              ELSE lease.unsigned_since END
    WHERE lease.lease_id = call.lease_id
    RETURNING lease.* INTO held;
    -- A server that returns may have used its spare. Callers can name any worker IDs, so nothing waits for a row.
    IF cardinality(said.by_hand) > 0 THEN
        UPDATE snowflake_registry.lease AS lease
        SET said_by_hand = coalesce(lease.said_by_hand, '{}')
                           || jsonb_build_object(session_user, snowflake_registry.microseconds(moment))
        FROM (SELECT known.datacenter_id, known.worker_id
              FROM snowflake_registry.lease AS known
              WHERE known.datacenter_id = held.datacenter_id AND known.worker_id = ANY (said.by_hand)
                AND known.is_reserved AND known.reserved_for IS NULL
                AND coalesce((known.said_by_hand ->> session_user::text)::bigint, 0)
                    < snowflake_registry.microseconds(moment - interval '1 hour')
              FOR UPDATE SKIP LOCKED) AS spare
        WHERE lease.datacenter_id = spare.datacenter_id AND lease.worker_id = spare.worker_id;
    END IF;
    answer.outcome := 'granted';
    IF isfinite(registry.frozen_until) THEN
        answer.detail := format('the registry is frozen, and extends no lease beyond %s',
                                snowflake_registry.in_words(registry.frozen_until));
    END IF;
    answer.datacenter_id := held.datacenter_id;
    answer.worker_id := held.worker_id;
    answer.granted_from := snowflake_registry.microseconds(held.granted_from);
    answer.granted_until := snowflake_registry.microseconds(held.granted_until);
    RETURN answer;
END
$$;
COMMENT ON FUNCTION snowflake_registry.renew(jsonb) IS
    'renews the lease of a server';
