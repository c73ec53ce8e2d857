-- The watermark: rows can be read in the order of their IDs, and none is skipped.
CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text);
INSERT INTO events (note) SELECT 'event ' || n FROM generate_series(1, 5) AS n;

-- The keeper's transactions may delay the watermark.
CREATE PROCEDURE wait_for_watermark() LANGUAGE plpgsql AS $$
BEGIN
    WHILE (SELECT max(id) FROM events) >= coalesce(snowflake_watermark(), 0) LOOP
        PERFORM pg_sleep(0.002);
    END LOOP;
END
$$;
CALL wait_for_watermark();

-- In one statement, as a subquery and as a filter, and in two statements.
SELECT count(*) FROM events WHERE id < (SELECT snowflake_watermark());
SELECT count(*) FROM events WHERE id < snowflake_watermark();
SELECT snowflake_watermark() AS watermark \gset
SELECT count(*) FROM events WHERE id < :watermark;
SET enable_indexscan = off; SET enable_bitmapscan = off;
SELECT count(*) FROM events WHERE id < snowflake_watermark();
RESET enable_indexscan; RESET enable_bitmapscan;

-- In both forms, the watermark is a condition of the index. (Versions of PostgreSQL show it differently.)
CREATE FUNCTION plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query;
END
$$;
SELECT form, count(*) FILTER (WHERE line ~ 'Index (Only )?Scan') AS scans,
       count(*) FILTER (WHERE line ~ 'Index Cond: \(\(id > \S+\) AND \(id < .*\)\)') AS conditions,
       count(*) FILTER (WHERE line ~ 'Filter|Sort') AS others
FROM (VALUES ('(SELECT snowflake_watermark())'), ('snowflake_watermark()')) AS forms (form),
     plan_of(format('SELECT * FROM events WHERE id > 5 AND id < %s ORDER BY id LIMIT 10', form)) AS line
GROUP BY form ORDER BY form;

-- One statement gets one answer.
SELECT count(DISTINCT snowflake_watermark()) FROM generate_series(1, 1000) AS n
WHERE n % 100 > 0 OR pg_sleep(0.001) IS NOT NULL;

-- A transaction does not see its own rows below the watermark before it is committed. Rows of subtransactions belong to
-- the transaction. A transaction that is rolled back does not hold the watermark back any longer.
BEGIN;
INSERT INTO events (note) VALUES ('mine');
SELECT count(*), count(*) FILTER (WHERE id < snowflake_watermark()) AS below FROM events;
SAVEPOINT s;
INSERT INTO events (note) VALUES ('mine');
ROLLBACK TO s;
SELECT count(*), count(*) FILTER (WHERE id < snowflake_watermark()) AS below FROM events;
COMMIT;
CALL wait_for_watermark();
SELECT count(*), count(*) FILTER (WHERE id < snowflake_watermark()) AS below FROM events;
BEGIN;
INSERT INTO events (note) VALUES ('rolled back');
ROLLBACK;
INSERT INTO events (note) VALUES ('later');
CALL wait_for_watermark();
SELECT count(*), count(*) FILTER (WHERE id < snowflake_watermark()) AS below FROM events;

-- A procedure that commits holds the watermark back only from commit to commit.
DO $$
BEGIN
    FOR n IN 1 .. 2 LOOP
        INSERT INTO events (note) VALUES ('procedure');
        RAISE NOTICE 'below: %', (SELECT count(*) FROM events WHERE id < snowflake_watermark());
        COMMIT;
        CALL wait_for_watermark();
    END LOOP;
END
$$;
SELECT count(*) FROM events WHERE id < (SELECT snowflake_watermark());

-- With a layout as argument.
SELECT snowflake_watermark('standard') = snowflake_watermark() AS standard, snowflake_watermark(NULL) IS NULL AS none;
SET snowflake_id.layout = 'wide';
SELECT snowflake_watermark() = snowflake_watermark('wide') AS wide, snowflake_watermark('standard') > max(id) AS standard FROM events;
SELECT snowflake_nextval() AS id \gset
SELECT snowflake_watermark() > :id AS passed;
BEGIN;
SELECT snowflake_nextval() AS id \gset
SELECT snowflake_watermark() <= :id AS wide, snowflake_watermark('standard') > max(id) AS standard FROM events;
COMMIT;
RESET snowflake_id.layout;
SELECT code, message FROM sqlstate_of($$SELECT snowflake_watermark('nonsense')$$);

-- Layouts with a clock sequence have no watermark.
SELECT * FROM sqlstate_of($$SELECT snowflake_watermark('rollback3')$$);
SELECT code FROM sqlstate_of($$SET LOCAL snowflake_id.layout = 'rollback2'; SELECT snowflake_watermark()$$);

-- The view: what holds the watermark back.
CREATE VIEW held AS
    SELECT watermark <= snowflake_currval() AS held, watermark_time IS NOT NULL AS has_time, problem, pid = pg_backend_pid() AS own,
           usename = current_user AS usename, application_name LIKE 'pg_regress/%' AS application, gid, held_back_since = now() AS since
    FROM snowflake_watermark_status WHERE layout = 'standard';
SELECT snowflake_nextval() > 0 AS taken;
SELECT * FROM held;
BEGIN;
SELECT snowflake_nextval() > 0 AS taken;
SELECT * FROM held;
-- With IDs of more layouts than a transaction can mark, there is no watermark at all.
SET LOCAL snowflake_id.layout = 'wide';
SELECT snowflake_nextval() > 0 AS taken;
SET LOCAL snowflake_id.layout = 'instagram';
SELECT snowflake_nextval() > 0 AS taken;
SELECT problem FROM held;
SET LOCAL snowflake_id.layout = 'discord';
SELECT snowflake_nextval() > 0 AS taken;
SELECT held, problem, own FROM held;
COMMIT;
SELECT problem FROM held;
DROP VIEW held;

-- A trigger refuses IDs that this transaction has not taken.
CREATE FUNCTION refused(commands text, OUT code text, OUT message text, OUT detail text, OUT hint text) LANGUAGE sql AS $$
    SELECT code, regexp_replace(message, '\d{9,}', 'N'), detail, hint FROM sqlstate_of(commands)
$$;
SELECT snowflake_nextval() AS earlier \gset
CREATE TABLE checked (id bigint DEFAULT snowflake_nextval(), note text);
CREATE TRIGGER own_id BEFORE INSERT OR UPDATE OF id ON checked
    FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id('id');
INSERT INTO checked (note) VALUES ('default'), ('default');
INSERT INTO checked (id) SELECT snowflake_batch(3);
INSERT INTO checked (id) VALUES (NULL);
COPY checked (note) FROM STDIN;
copied
\.
BEGIN;
SELECT snowflake_nextval() AS taken \gset
SAVEPOINT s;
INSERT INTO checked (id) VALUES (:taken);
COMMIT;
SELECT count(*) FROM checked;
SELECT * FROM refused('INSERT INTO checked (id) VALUES (' || :earlier || ')');
SELECT code, message FROM refused('INSERT INTO checked (id) VALUES (1)');
SELECT code, message FROM refused('INSERT INTO checked (id) VALUES (-1)');
-- An ID from before the transaction, an ID that was not issued yet, and an ID of another worker, after the transaction has
-- taken an ID.
SELECT code, message FROM refused('SELECT snowflake_nextval(); INSERT INTO checked (id) VALUES (' || :earlier || ')');
SELECT code, message FROM refused('INSERT INTO checked (id) VALUES (snowflake_nextval() + 10)');
SELECT code, message FROM refused('INSERT INTO checked (id) VALUES (snowflake_nextval() + 4096)');
SELECT code, message FROM refused($$SET LOCAL snowflake_id.layout = 'wide'; INSERT INTO checked (id) VALUES (snowflake_encode(clock_timestamp(), 7, 0, 'standard'))$$);
-- Updates of the column are checked as well.
UPDATE checked SET note = 'changed' WHERE note = 'default';
UPDATE checked SET id = snowflake_nextval() WHERE note = 'changed';
SELECT code, message FROM refused('UPDATE checked SET id = ' || :earlier || $$ WHERE note = 'changed'$$);
-- An ID that stays the same is accepted.
UPDATE checked SET id = id, note = 'kept' WHERE note = 'changed';
DROP TRIGGER own_id ON checked;

-- After the row was inserted, at the end of the transaction, and with the layout of the writers.
CREATE TRIGGER own_id AFTER INSERT OR UPDATE ON checked
    FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id('id', 'standard');
INSERT INTO checked (note) VALUES ('after');
UPDATE checked SET note = 'updated' WHERE note = 'after';
SELECT code, message FROM refused('INSERT INTO checked (id) VALUES (' || :earlier || ')');
-- Another trigger changes the ID. Neither the INSERT nor the UPDATE mentions the column.
CREATE FUNCTION change_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.id := 5;
    RETURN NEW;
END
$$;
CREATE TRIGGER zz_last BEFORE INSERT OR UPDATE ON checked FOR EACH ROW EXECUTE FUNCTION change_id();
SELECT code, message FROM refused($$INSERT INTO checked (note) VALUES ('changed by a trigger')$$);
SELECT code, message FROM refused($$UPDATE checked SET note = 'changed by a trigger' WHERE note = 'updated'$$);
DROP TRIGGER zz_last ON checked;
DROP FUNCTION change_id;
-- A transaction takes IDs of more layouts than it can mark. Its own IDs are accepted, and an earlier one is refused.
CREATE FUNCTION take_others() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    other text;
BEGIN
    FOREACH other IN ARRAY ARRAY['wide', 'instagram', 'discord', 'standard'] LOOP
        PERFORM set_config('snowflake_id.layout', other, true);
        PERFORM snowflake_nextval();
    END LOOP;
END
$$;
BEGIN;
SELECT take_others();
INSERT INTO checked (note) VALUES ('fourth'), ('fourth');
INSERT INTO checked (id) SELECT snowflake_batch(3);
INSERT INTO checked (id) VALUES (snowflake_currval());
SELECT problem FROM snowflake_watermark_status WHERE layout = 'standard';
COMMIT;
SELECT code, message FROM refused('SELECT take_others(); INSERT INTO checked (id) VALUES (' || :earlier || ')');
SELECT code, message FROM refused('SELECT take_others(); INSERT INTO checked (id) VALUES (snowflake_nextval() + 4096)');
SELECT code, message FROM refused('INSERT INTO checked (id) VALUES (snowflake_currval())');
DROP FUNCTION take_others;
DROP TRIGGER own_id ON checked;
CREATE CONSTRAINT TRIGGER own_id AFTER INSERT ON checked DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id('id');
INSERT INTO checked (note) VALUES ('deferred');
SELECT code, message FROM refused('INSERT INTO checked (id) VALUES (' || :earlier || '); SET CONSTRAINTS own_id IMMEDIATE');
DROP TRIGGER own_id ON checked;
CREATE TRIGGER own_id BEFORE INSERT ON checked FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id('id', 'wide');
SELECT code, message, detail FROM refused('INSERT INTO checked DEFAULT VALUES');
SET snowflake_id.layout = 'wide';
INSERT INTO checked (note) VALUES ('wide');
RESET snowflake_id.layout;
DROP TRIGGER own_id ON checked;

-- Wrong arguments, columns and events.
CREATE FUNCTION refused_trigger(trigger_on text, arguments text, each text DEFAULT 'ROW',
                                OUT code text, OUT message text) LANGUAGE sql AS $$
    SELECT code, message FROM refused(format(
        'CREATE TRIGGER own_id %s ON checked FOR EACH %s EXECUTE FUNCTION snowflake_require_own_id(%s);
         INSERT INTO checked (note) VALUES (''wrong''); DELETE FROM checked', trigger_on, each, arguments))
$$;
SELECT trigger_on, arguments, each, (refused_trigger(trigger_on, arguments, each)).*
FROM (VALUES ('BEFORE INSERT', '', 'ROW'), ('BEFORE INSERT', '''id'', ''standard'', ''more''', 'ROW'),
             ('BEFORE INSERT', '''other''', 'ROW'), ('BEFORE INSERT', '''note''', 'ROW'),
             ('BEFORE INSERT', '''id'', ''nonsense''', 'ROW'), ('BEFORE INSERT', '''id'', ''rollback3''', 'ROW'),
             ('BEFORE INSERT', '''id''', 'STATEMENT'), ('BEFORE DELETE', '''id''', 'ROW')) AS cases (trigger_on, arguments, each);
SELECT * FROM refused('CREATE TRIGGER own_id BEFORE INSERT ON checked FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id();
                       INSERT INTO checked DEFAULT VALUES');
SELECT detail, hint FROM refused($$CREATE TRIGGER own_id BEFORE INSERT ON checked FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id('other');
                       INSERT INTO checked DEFAULT VALUES$$);
SELECT code FROM refused('SELECT snowflake_require_own_id()');

-- Everyone can ask for the watermark and create the trigger. Only members of pg_monitor see what holds it back.
CREATE ROLE regress_snowflake_consumer;
GRANT SELECT ON events TO regress_snowflake_consumer;
SET ROLE regress_snowflake_consumer;
SELECT count(*) = 9 AS all_events FROM events WHERE id < (SELECT snowflake_watermark('standard'));
SELECT code, message FROM sqlstate_of('SELECT FROM snowflake_watermark_status');
SELECT code, message FROM sqlstate_of('SELECT snowflake_internal.snowflake_watermarks()');
CREATE TEMP TABLE own (id bigint);
CREATE TRIGGER own_id BEFORE INSERT ON own FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id('id');
INSERT INTO own VALUES (snowflake_nextval());
DROP TABLE own;
RESET ROLE;
GRANT pg_monitor TO regress_snowflake_consumer;
SET ROLE regress_snowflake_consumer;
SELECT count(*) > 0 AS visible FROM snowflake_watermark_status;
RESET ROLE;
DROP TABLE events, checked;
DROP FUNCTION plan_of, refused_trigger, refused;
DROP PROCEDURE wait_for_watermark;
DROP ROLE regress_snowflake_consumer;
