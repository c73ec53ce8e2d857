//! Faults of the registry's SQL that the comparison must find.

pub struct Mutation {
    pub name: &'static str,
    from: &'static str,
    to: &'static str,
}

impl Mutation {
    /// The registry's script with this fault.
    pub fn applied_to(&self, script: &str) -> String {
        assert_eq!(script.matches(self.from).count(), 1, "mutation {}: {}", self.name, self.from);
        script.replace(self.from, self.to)
    }
}

/// Changes nothing, so the comparison must not find it.
pub const CONTROL: &str = "control";

const fn mutation(name: &'static str, from: &'static str, to: &'static str) -> Mutation {
    Mutation { name, from, to }
}

pub const MUTATIONS: [Mutation; 50] = [
    mutation(CONTROL, "RETURN (1, 1);", "RETURN (1, 1);"),
    mutation(
        "quarantine-keeps-nonces",
        "END,\n        nonce = NULL\n    WHERE lease_id IS NOT NULL",
        "END\n    WHERE lease_id IS NOT NULL",
    ),
    mutation("restart-keeps-nonces", "SET nonce = NULL WHERE nonce IS NOT NULL;", "SET nonce = nonce;"),
    mutation(
        "short-allowance",
        "allowance CONSTANT interval := '2 minutes'",
        "allowance CONSTANT interval := '1 minute'",
    ),
    mutation(
        "short-restart",
        "settings.numbers_wait := settings.longest_lease + interval",
        "settings.numbers_wait := settings.lease + interval",
    ),
    mutation(
        "counts-two-minutes",
        "RETURN least(interval '1 minute', greatest(settings.renew_every",
        "RETURN least(interval '2 minutes', greatest(settings.renew_every",
    ),
    mutation(
        "counts-backward-steps",
        "greatest(least(moment - known.counted_at, snowflake_registry.most_counted(known)), '0')",
        "least(moment - known.counted_at, snowflake_registry.most_counted(known))",
    ),
    mutation(
        "witness-after-a-proof",
        "IF NOT known.is_proved THEN\n            known.waits := least",
        "IF true THEN\n            known.waits := least",
    ),
    mutation(
        "proof-ignores-releases",
        "AND shown.granted_until > greatest(lease.granted_from, lease.released_until) THEN\n                RETURN",
        "AND shown.granted_until > lease.granted_from THEN\n                RETURN",
    ),
    mutation("proof-ignores-requests", "RETURN shown.last_request <> '' AND", "RETURN false AND"),
    mutation(
        "learning-keeps-used-until",
        "SET used_until = NULL,\n                    -- A later",
        "SET\n                    -- A later",
    ),
    mutation(
        "learning-trusts-the-caller",
        "WHEN shown.lease_mark = snowflake_registry.mark_of(learn_from_tokens.lease_id)\n",
        "WHEN learn_from_tokens.lease_id IS NOT NULL\n",
    ),
    mutation(
        "learning-forgets-renewals",
        "SET granted_until = shown.granted_until, is_renewed = true",
        "SET granted_until = shown.granted_until",
    ),
    mutation(
        "learns-no-later-numbers",
        "segment.next_value := greatest(segment.next_value, shown.next_value);",
        "",
    ),
    mutation(
        "released-range-of-the-same-grant",
        "(shown.grant_count < lease.grant_count AND shown.granted_until > lease.granted_from",
        "(shown.grant_count <= lease.grant_count AND shown.granted_until > lease.granted_from",
    ),
    mutation(
        "release-moves-the-end",
        "ELSE greatest(lease.used_until, lease.granted_until - settings.lease) END",
        "ELSE lease.used_until END",
    ),
    mutation(
        "no-twin-after-a-release",
        "IF held.used_until IS NOT NULL THEN\n            answer.outcome := 'twin';\n            answer.detail := format('worker ID %s was held",
        "IF false THEN\n            answer.outcome := 'twin';\n            answer.detail := format('worker ID %s was held",
    ),
    mutation(
        "acquire-ignores-renewals",
        "held.is_renewed OR held.nonce <> call.nonce OR EXISTS (",
        "held.nonce <> call.nonce OR EXISTS (",
    ),
    mutation(
        "acquire-ignores-tokens",
        "WHERE shown.lease_mark = snowflake_registry.mark_of(call.lease_id)\n        ) THEN",
        "WHERE false\n        ) THEN",
    ),
    mutation(
        "renew-beyond-a-freeze",
        "least(moment + registry.lease, registry.frozen_until)",
        "moment + registry.lease",
    ),
    mutation(
        "renew-in-a-quarantine",
        "AND (registry.waits > '0' OR registry.nothing_before > moment OR NOT registry.is_started)",
        "AND (registry.nothing_before > moment OR NOT registry.is_started)",
    ),
    mutation("reserved-ids-are-granted", "\n                    AND NOT candidate.is_reserved END", " END"),
    mutation(
        "grants-to-any-role",
        "lease.reserved_for = session_user\n                        AND",
        "lease.reserved_for IS NOT NULL AND",
    ),
    mutation(
        "pins-without-a-reservation",
        "IF choose_worker.pin IS NOT NULL AND cardinality(reserved) = 0 THEN",
        "IF false THEN",
    ),
    mutation(
        "named-ids-that-are-refused",
        "\n                     AND element < choose_worker.worker_limit AND element <> ALL (choose_worker.unwanted));",
        ");",
    ),
    mutation(
        "refused-callers-are-unheard",
        "    IF cardinality(said.by_hand) > 0 THEN\n        PERFORM snowflake_registry.note_hands(",
        "    IF cardinality(said.by_hand) > 0 AND answer.outcome IS NULL THEN\n        PERFORM snowflake_registry.note_hands(",
    ),
    mutation("by-hand-is-not-last", "             candidate.is_by_hand,\n", ""),
    mutation("renewals-ignore-spares", "jsonb_build_object(session_user,", "jsonb_build_object('other',"),
    mutation(
        "reserves-ids-by-hand",
        "IF FOUND AND NOT coalesce(reserve.none_by_hand, false) THEN",
        "IF false THEN",
    ),
    mutation(
        "renews-for-any-role",
        "ELSIF held.is_reserved AND held.reserved_for IS DISTINCT FROM session_user AND registry.frozen_until IS NULL THEN",
        "ELSIF false THEN",
    ),
    mutation(
        "reserves-leased-ids",
        "ELSIF for_role IS NULL AND (held.grant_count > 0 OR held.was_leased) THEN",
        "ELSIF false THEN",
    ),
    mutation(
        "starts-without-a-wait",
        "IF NOT coalesce(start_fleet.first_start, false) THEN",
        "IF false THEN",
    ),
    mutation("the-pool-grows", "IF NOT coalesce(configure.none_by_hand, false) THEN", "IF false THEN"),
    mutation(
        "configures-without-a-trace",
        "IF (changed.lease, changed.renew_every",
        "IF false AND (changed.lease, changed.renew_every",
    ),
    mutation(
        "numbers-in-a-freeze",
        "IF stored.closed_reason IS NOT NULL OR is_frozen THEN",
        "IF stored.closed_reason IS NOT NULL THEN",
    ),
    mutation(
        "signs-uncommitted-grants",
        "IF pg_current_xact_id_if_assigned() IS NOT NULL THEN\n        RETURN;\n    END IF;\n    seen",
        "seen",
    ),
    mutation(
        "counts-a-release",
        "SET used_until = held.used_until, released_until = lease.granted_until",
        "SET used_until = held.used_until",
    ),
    mutation(
        "any-synchronous-failover",
        "has_moved AND NOT (known.synchronous AND snowflake_registry.is_fresh(known.renew_every))",
        "has_moved AND NOT known.synchronous",
    ),
    mutation(
        "closes-no-unused-segments",
        "(segment.has_left OR snowflake_registry.serves_others())\n      AND CASE",
        "segment.has_left\n      AND CASE",
    ),
    mutation("own-numbers-of-a-client", "AND (asked.is_ours AND NOT is_local\n", "AND (false\n"),
    mutation(
        "short-longest-lease",
        "longest_lease = greatest(longest_lease, new_lease),",
        "longest_lease = greatest('10 minutes', new_lease),",
    ),
    mutation(
        "counts-whole-renewals",
        "greatest(settings.renew_every, interval '1 second') / 2);\nCOMMENT ON FUNCTION snowflake_registry.most_counted",
        "greatest(settings.renew_every, interval '1 second'));\nCOMMENT ON FUNCTION snowflake_registry.most_counted",
    ),
    mutation(
        "forgets-longer-renewals",
        "THEN greatest(longest_renewal, new_renewal) ELSE new_renewal END",
        "THEN new_renewal ELSE new_renewal END",
    ),
    mutation(
        "own-numbers-after-others",
        "AND NOT (is_local AND NOT stored.has_left AND was_alone)",
        "AND NOT (is_local AND was_alone)",
    ),
    mutation(
        "own-numbers-beside-others",
        "settings.was_alone := NOT snowflake_registry.serves_others();",
        "settings.was_alone := true;",
    ),
    mutation(
        "ends-with-any-clock",
        "IF known.waits <= '1 microsecond' AND clocks_agree THEN",
        "IF known.waits <= '1 microsecond' THEN",
    ),
    mutation("numbers-unwaited", "CASE WHEN registry.numbers_wait > '0'\n", "CASE WHEN false\n"),
    mutation("learning-keeps-the-protocol", "is_renewed = true, protocol = DEFAULT,", "is_renewed = true,"),
    mutation("renewals-keep-the-protocol", "        protocol = begun.protocol,\n", ""),
    mutation(
        "requires-another-protocol",
        "WHERE protocol < require_protocol.lowest AND",
        "WHERE protocol <= require_protocol.lowest AND",
    ),
];

/// Each fault still changes the script, at one place.
#[test]
fn mutations_match_once() {
    let script = super::replaced_clock::script();
    let wrong = MUTATIONS.iter().filter(|mutation| script.matches(mutation.from).count() != 1);
    let wrong: Vec<_> = wrong.map(|mutation| mutation.name).collect();
    assert!(wrong.is_empty(), "not at one place of the script: {wrong:?}");
}
