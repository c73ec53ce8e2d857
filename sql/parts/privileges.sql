-- Privileges. Internal objects are not for users, and some other objects change or show the state of the server or of the
-- fleet, or contain keys. Only their owner, a superuser, may use these objects. All privileges on them are revoked from
-- PUBLIC, which can call any new function by default, and from all roles to which ALTER DEFAULT PRIVILEGES grants
-- privileges on new objects. The grants at the end are exceptions.
--
-- A superuser runs this script, but another role may own the schema of the extension. An operator in that schema
-- with exactly matching types takes precedence over an operator of pg_catalog that needs a conversion. Therefore all
-- operators are schema-qualified, and constructs that imply operators (CASE with a value, IN, BETWEEN) are not used.
DO $$
DECLARE
    revocation pg_catalog.text;
BEGIN
    FOR revocation IN
        SELECT pg_catalog.format('REVOKE ALL ON %s %s FROM %s', object.kind, object.name,
                                 CASE WHEN acl.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
                                      ELSE acl.grantee::pg_catalog.regrole::pg_catalog.text END)
        FROM (
            SELECT 'SCHEMA', 'snowflake_internal', n.nspowner, coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))
            FROM pg_catalog.pg_namespace AS n
            WHERE n.nspname OPERATOR(pg_catalog.=) 'snowflake_internal'
            UNION ALL
            -- In GRANT and REVOKE, TABLE includes views.
            SELECT 'TABLE', c.oid::pg_catalog.regclass::pg_catalog.text, c.relowner,
                   coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))
            FROM pg_catalog.pg_class AS c
            WHERE (c.relnamespace OPERATOR(pg_catalog.=) 'snowflake_internal'::pg_catalog.regnamespace
                   -- Indexes, composite types and TOAST tables have no privileges in pg_class.
                   AND c.relkind OPERATOR(pg_catalog.<>) ALL ('{i,I,c,t}'::pg_catalog."char"[]))
               OR c.oid OPERATOR(pg_catalog.=) ANY (ARRAY[
                '@extschema@.snowflake_workers',
                '@extschema@.snowflake_mask_keys',
                '@extschema@.snowflake_status',
                '@extschema@.snowflake_layout_status',
                '@extschema@.snowflake_clock_seq_status',
                '@extschema@.snowflake_watermark_status',
                '@extschema@.snowflake_segment_status'
            ]::pg_catalog.regclass[]::pg_catalog.oid[])
            UNION ALL
            SELECT 'ROUTINE', p.oid::pg_catalog.regprocedure::pg_catalog.text, p.proowner,
                   coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))
            FROM pg_catalog.pg_proc AS p
            WHERE p.pronamespace OPERATOR(pg_catalog.=) 'snowflake_internal'::pg_catalog.regnamespace
               OR p.oid OPERATOR(pg_catalog.=) ANY (ARRAY[
                '@extschema@.snowflake_check()',
                '@extschema@.snowflake_accept_clock()',
                '@extschema@.snowflake_raise_floor(timestamptz)',
                '@extschema@.snowflake_reset_horizon(int, int)',
                '@extschema@.snowflake_segment_nextval(text)',
                '@extschema@.snowflake_segment_next(text)',
                '@extschema@.snowflake_segment_batch(text, bigint)',
                '@extschema@.snowflake_segment_ranges(text, bigint)',
                '@extschema@.snowflake_segment_prefetch(text)',
                '@extschema@.snowflake_segment_currval(text)',
                '@extschema@.snowflake_segment_grant(text, regrole)',
                '@extschema@.snowflake_segment_revoke(text, regrole)',
                '@extschema@.snowflake_segment_grant_all(regrole)',
                '@extschema@.snowflake_prepare_mask_key(text)',
                '@extschema@.snowflake_prepare_mask_key(text, bytea)',
                '@extschema@.snowflake_switch_mask_key(text)',
                '@extschema@.snowflake_drop_previous_mask_key(text)',
                '@extschema@.snowflake_mask_named(bigint, text)',
                '@extschema@.snowflake_mask_named(bigint, text, int)',
                '@extschema@.snowflake_mask_named(bigint, text, text)',
                '@extschema@.snowflake_unmask_named(bigint, text)',
                '@extschema@.snowflake_unmask_named(bigint, text, int)',
                '@extschema@.snowflake_unmask_named(bigint, text, text)',
                '@extschema@.snowflake_to_public_named(bigint, text, text)',
                '@extschema@.snowflake_from_public_named(text, text, text)',
                '@extschema@.snowflake_to_uuid_named(bigint, text, text)',
                '@extschema@.snowflake_from_uuid_named(uuid, text, text)'
            ]::pg_catalog.regprocedure[]::pg_catalog.oid[])
        ) AS object (kind, name, owner, privileges),
        LATERAL pg_catalog.aclexplode(object.privileges) AS acl
        WHERE acl.grantee OPERATOR(pg_catalog.<>) object.owner
    LOOP
        EXECUTE revocation;
    END LOOP;
END
$$;

-- Other functions call these functions with the privileges of the caller, or expressions contain them after planning:
-- the conversion of a constant, for example, and a cast to text, need EXECUTE on the functions of the type.
GRANT USAGE ON SCHEMA snowflake_internal TO PUBLIC;
GRANT EXECUTE ON FUNCTION
    -- type snowflake, and its casts
    snowflake_internal.snowflake_in(cstring),
    snowflake_internal.snowflake_out(snowflake),
    snowflake_internal.snowflake_recv(internal),
    snowflake_internal.snowflake_send(snowflake),
    snowflake_internal.snowflake_to_numeric(snowflake),
    snowflake_internal.snowflake_to_float8(snowflake),
    snowflake_internal.snowflake_to_int4(snowflake),
    snowflake_internal.int4_to_snowflake(int),
    snowflake_internal.int2_to_snowflake(smallint),
    -- calls in defaults: see defaults.sql
    snowflake_internal.snowflake_nextval_in_copy(internal),
    snowflake_internal.snowflake_segment_nextval_in_default(regprocedure, text, regclass, internal),
    snowflake_internal.snowflake_segment_nextval_in_copy(regprocedure, text, regclass, internal),
    -- view snowflake_presets
    snowflake_describe_layout(text),
    snowflake_internal.snowflake_preset_names(),
    -- snowflake_create_partitions(), snowflake_plan_partitions() and the functions that adopt
    snowflake_internal.home(),
    snowflake_internal.default_functions(),
    snowflake_internal.id_type(),
    snowflake_internal.next_id(),
    snowflake_internal.next_number(text),
    snowflake_internal.lowest_new_id(),
    snowflake_internal.bound(timestamptz),
    snowflake_internal.bound(timestamptz, text),
    snowflake_internal.limits(text),
    -- snowflake_create_partitions() and snowflake_plan_partitions()
    snowflake_internal.snowflake_partition_steps(regclass, timestamptz, timestamptz, interval, text, boolean),
    snowflake_internal.snowflake_add_partitions(regclass, timestamptz, timestamptz, interval, text),
    -- snowflake_adopt()
    snowflake_internal.snowflake_adopt_check_defaults(regclass, name, boolean),
    snowflake_internal.snowflake_adopt_target(regclass, name, boolean),
    snowflake_internal.snowflake_adopt_check_owners(regclass, name, boolean, regrole, text),
    snowflake_internal.snowflake_adopt_plan(regclass, name, boolean, regrole, text),
    snowflake_internal.snowflake_adopt_columns(regclass, name, boolean),
    snowflake_internal.snowflake_adopt_owners(regclass, name, boolean),
    snowflake_internal.snowflake_adopt_sequences(regclass, name, boolean),
    snowflake_internal.snowflake_adopt_kept_defaults(text),
    snowflake_internal.snowflake_adopt_given(regclass, name, boolean),
    snowflake_internal.snowflake_adopt_row_types(oid[]),
    snowflake_internal.snowflake_adopt_obstacles(regclass, name, boolean),
    snowflake_internal.snowflake_adopt_notes(regclass, name, boolean, text[], boolean),
    snowflake_internal.snowflake_adopt_check_layout(boolean),
    -- snowflake_adopt_online(), and snowflake_adopt(), which compares, too
    snowflake_internal.snowflake_adopt_old_comment(text),
    snowflake_internal.snowflake_adopt_calls(regclass, oid),
    snowflake_internal.snowflake_adopt_properties(oid[], text[], text[], boolean),
    snowflake_internal.snowflake_adopt_actions(oid[]),
    snowflake_internal.snowflake_adopt_restore_actions(oid[], jsonb),
    snowflake_internal.snowflake_adopt_compare(text[], text[]),
    snowflake_internal.snowflake_adopt_compared(regclass, name, boolean),
    snowflake_internal.snowflake_adopt_copy_body(name, name),
    snowflake_internal.snowflake_adopt_new_columns(),
    snowflake_internal.snowflake_adopt_pairs(regclass, name),
    snowflake_internal.snowflake_adopt_indexes(regclass, name),
    snowflake_internal.snowflake_adopt_constraints(regclass, name),
    snowflake_internal.snowflake_adopt_locked(regclass, name),
    snowflake_internal.snowflake_adopt_version(oid[]),
    snowflake_internal.snowflake_adopt_definitions(regclass, name),
    snowflake_internal.snowflake_adopt_names(oid[]),
    snowflake_internal.snowflake_adopt_lock_order(oid[], regclass, int),
    snowflake_internal.snowflake_adopt_time_left(timestamptz),
    snowflake_internal.snowflake_adopt_is_proved(regclass, name),
    snowflake_internal.snowflake_adopt_old_snapshots(),
    snowflake_internal.snowflake_adopt_holders(text[]),
    snowflake_internal.snowflake_adopt_grants(aclitem[], name, text),
    snowflake_internal.snowflake_adopt_privileges(oid, regrole, text),
    snowflake_internal.snowflake_adopt_views(regclass, name),
    snowflake_internal.snowflake_adopt_view_properties(text[]),
    snowflake_internal.snowflake_adopt_unlinked(regclass, name),
    snowflake_internal.snowflake_adopt_common_notes(regclass, name),
    snowflake_internal.snowflake_adopt_online_obstacles(regclass, name, boolean, jsonb),
    snowflake_internal.snowflake_adopt_online_notes(regclass, name),
    snowflake_internal.snowflake_adopt_steps(regclass, name, boolean, jsonb),
    snowflake_internal.snowflake_adopt_exchange(regclass, name, boolean),
    snowflake_internal.snowflake_adopt_first_locks(regclass, name, int),
    snowflake_internal.snowflake_adopt_steps_back(regclass, name),
    snowflake_internal.snowflake_adopt_online_plan(regclass, name, regrole, boolean, boolean, boolean, boolean)
    TO PUBLIC;

-- The role that queries a view needs EXECUTE on the functions in the view.
GRANT EXECUTE ON FUNCTION
    snowflake_internal.snowflake_server_status(),
    snowflake_internal.snowflake_layouts_in_use(),
    snowflake_internal.snowflake_clock_sequence_values(),
    snowflake_internal.snowflake_watermarks(),
    snowflake_internal.snowflake_segments_in_use()
    TO pg_monitor;
GRANT SELECT ON snowflake_status, snowflake_layout_status, snowflake_clock_seq_status, snowflake_watermark_status,
    snowflake_segment_status TO pg_monitor;
