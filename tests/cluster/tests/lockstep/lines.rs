//! The tables of both as lines of text, one for each row.

use snowflake_id_stand_in::{FOREVER, Tables};

/// A function that returns the tables of SQL in the form of [`lines`].
pub const DUMP: &str = "
    CREATE FUNCTION lockstep.us(instant timestamptz) RETURNS text IMMUTABLE LANGUAGE sql
    RETURN CASE WHEN instant = 'infinity' THEN 'infinity'
                ELSE coalesce(snowflake_registry.microseconds(instant)::text, '-') END;
    CREATE FUNCTION lockstep.dump() RETURNS text VOLATILE LANGUAGE sql
    BEGIN ATOMIC
        SELECT string_agg(line, chr(10)) FROM (
            SELECT concat_ws(' ', 'settings -', 'lease', snowflake_registry.microseconds(lease), 'longest',
                snowflake_registry.microseconds(longest_lease), 'every', snowflake_registry.microseconds(renew_every),
                'longest', snowflake_registry.microseconds(longest_renewal), 'workers', coalesce(first_worker::text, '-'),
                coalesce(last_worker::text, '-'), 'datacenters', last_datacenter, 'synchronous', synchronous,
                'timeline', timeline, 'server', lockstep.us(server_started), 'serial', serial, 'started', is_started,
                'floor', lockstep.us(nothing_before), 'waits', snowflake_registry.microseconds(waits), 'counted',
                lockstep.us(counted_at), 'flags', is_proved, is_witnessed, was_alone, witnesses, 'numbers',
                snowflake_registry.microseconds(numbers_wait), 'frozen',
                lockstep.us(frozen_until), 'requests', array_to_string(requests, ','))
            FROM snowflake_registry.settings
            UNION ALL
            SELECT concat_ws(' ', 'lease', datacenter_id || '/' || worker_id, lockstep.us(granted_from),
                lockstep.us(granted_until), 'id', coalesce(lease_id::text, '-'), 'nonce', coalesce(nonce::text, '-'),
                'node', coalesce(node_name, '-'), 'role', coalesce(role, '-'), 'protocol', protocol, 'acquired', lockstep.us(acquired_at), 'renewed',
                lockstep.us(renewed_at), is_renewed, 'grants', grant_count, 'reserved', is_reserved,
                coalesce(reserved_for, '-'), 'by_hand', coalesce((
                    SELECT string_agg(said.role || '=' || said.at, ',' ORDER BY said.role)
                    FROM jsonb_each_text(said_by_hand) AS said (role, at)), '-'), 'used',
                lockstep.us(used_until), 'released', lockstep.us(released_until))
            FROM snowflake_registry.lease
            UNION ALL
            SELECT concat_ws(' ', 'segment', name, 'next', next_value, 'shape', start, increment, min_step, max_step,
                step, max_value, 'period', coalesce(period, '-'), coalesce(digits, 0), coalesce(period_key, 0), 'ahead',
                coalesce(ahead_key, 0), coalesce(ahead_value, 0), 'left', has_left, 'closed', closed_reason IS NOT NULL,
                'seen', coalesce(seen_until, -1), 'taken', lockstep.us(taken_at), coalesce(taken_by, '-'), 'dropped',
                dropped_at IS NOT NULL, was_lost, 'granted', numbers_granted)
            FROM snowflake_registry.segment
        ) AS lines (line);
    END;";

/// The columns that the dump leaves out, and the tables that it does not contain. The page about tests lists them.
pub const NOT_COMPARED: [&str; 25] = [
    "lease.clock_offset",
    "lease.host",
    "lease.layout",
    "lease.note",
    "lease.port",
    "lease.unsigned_since",
    "lease.version",
    "lease.was_leased",
    "lease.worker_limit",
    "segment.description",
    "segment.time_zone",
    "segment.updated_at",
    "segment_privilege.name",
    "segment_privilege.role",
    "settings.counted_by",
    "settings.database_oid",
    "settings.format",
    "settings.only_row",
    "settings.quarantine_reason",
    "settings.registry_id",
    "settings.system_identifier",
    "settings.written_by",
    "signing_key.inner_pad",
    "signing_key.only_row",
    "signing_key.outer_pad",
];

fn us(instant: Option<i64>) -> String {
    match instant {
        Some(FOREVER) => "infinity".into(),
        Some(i64::MIN) | None => "-".into(),
        Some(us) => us.to_string(),
    }
}

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// A boolean as SQL prints it.
fn t(value: bool) -> char {
    if value { 't' } else { 'f' }
}

/// The tables of the stand-in.
pub fn lines(tables: &Tables) -> Vec<String> {
    let s = &tables.settings;
    let requests: Vec<_> = s.requests.iter().map(|name| format!("{:08x}", name.0)).collect();
    let mut lines = vec![format!(
        "settings - lease {} longest {} every {} longest {} workers {} {} datacenters {} synchronous {} timeline {} server {} \
         serial {} started {} floor {} waits {} counted {} flags {} {} {} {} numbers {} frozen {} requests {}",
        s.lease_us,
        s.longest_lease_us,
        s.renew_every_us,
        s.longest_renewal_us,
        or_none(s.workers.map(|(first, _)| first)),
        or_none(s.workers.map(|(_, last)| last)),
        s.last_datacenter,
        t(s.synchronous),
        s.place.timeline,
        s.place.started_us,
        s.serial,
        t(s.is_started),
        us(Some(s.nothing_before_us)),
        s.waits_us,
        us(s.counted_at_us),
        t(s.is_proved),
        t(s.is_witnessed),
        t(s.was_alone),
        t(s.witnesses),
        s.numbers_wait_us,
        us(s.frozen_until_us),
        requests.join(",")
    )];
    lines.extend(tables.leases.iter().map(|(identity, row)| {
        let said: Vec<_> = row.said_by_hand_us.iter().map(|(role, at_us)| format!("{role}={at_us}")).collect();
        format!(
            "lease {}/{} {} {} id {} nonce {} node {} role {} protocol {} acquired {} renewed {} {} grants {} \
             reserved {} {} by_hand {} used {} released {}",
            identity.datacenter,
            identity.worker,
            row.from_us,
            row.until_us,
            or_none(row.lease_id),
            or_none(row.nonce),
            or_none(row.node_name.as_ref()),
            or_none(row.role.as_ref()),
            row.protocol,
            row.acquired_at_us,
            row.renewed_at_us,
            t(row.is_renewed),
            row.grant_count,
            t(row.is_reserved),
            or_none(row.reserved_for.as_ref()),
            or_none((!said.is_empty()).then(|| said.join(","))),
            us(row.used_until_us),
            us(row.released_until_us)
        )
    }));
    lines.extend(tables.segments.iter().map(|(name, row)| {
        format!(
            "segment {name} next {} shape {} {} {} {} {} {} period {} {} {} ahead {} {} left {} closed {} seen {} taken {} {} \
             dropped {} {} granted {}",
            row.next,
            row.start,
            row.increment,
            row.min_step,
            row.max_step,
            row.step,
            row.max_value,
            row.period.map_or("-", |period| period.unit.name()),
            row.period.map_or(0, |period| period.digits),
            row.period_key.unwrap_or(0),
            row.ahead.map_or(0, |(key, _)| key),
            row.ahead.map_or(0, |(_, value)| value),
            t(row.has_left),
            t(row.is_closed),
            row.seen_until.unwrap_or(-1),
            us(row.taken_at_us),
            or_none(row.taken_by.as_ref()),
            t(row.is_dropped),
            t(row.was_lost),
            row.numbers_granted
        )
    }));
    lines
}
