-- Possible layouts of an ID: known IDs, and the order of the guesses.
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- A tweet. (Later, its time as an ID of other presets will be in the past too.)
SELECT * FROM snowflake_guess_layout(1541815603606036480) WHERE generated_at < '2025-01-01';
SELECT * FROM snowflake_guess_layout(1541815603606036480) LIMIT 1;

-- The examples of Discord, redis-id-generator and pgEdge. A number alone does not identify its layout, but the times
-- indicate it.
SELECT layout, generated_at, datacenter_id, worker_id, sequence
FROM snowflake_guess_layout(175928847299117063) WHERE layout IN ('twitter', 'discord', 'wide');
SELECT layout, generated_at, worker_id, sequence FROM snowflake_guess_layout(5981966696448054276) LIMIT 1;
SELECT layout, generated_at, worker_id, sequence
FROM snowflake_guess_layout(170505378935607296) WHERE layout IN ('standard', 'pgedge');

-- Public examples of other generators: the first guess, or, if layouts differ only in their epochs, some of them.
SELECT id, layout, generated_at, datacenter_id, worker_id, sequence
FROM unnest(ARRAY[103270115826048975, 6854717870488702213, 129053495681099, 387750301904971, 646093214093387,
                  148656994422095873, 148656994422161409, 1428076403798048768, 1094590409767661570]) WITH ORDINALITY AS example (id, place),
     LATERAL (SELECT * FROM snowflake_guess_layout(id) LIMIT 1) AS guess
ORDER BY place;
SELECT layout, generated_at, worker_id, sequence
FROM snowflake_guess_layout(576906137413091329) WHERE layout IN ('leaf', 'shardingsphere', 'cosid');
SELECT layout, generated_at, worker_id, sequence
FROM snowflake_guess_layout(198064472869310464) WHERE layout IN ('leaf', 'shardingsphere', 'cosid');

-- Each preset is among the guesses for its own IDs, with the right fields.
SELECT name, guess.generated_at, guess.worker_id, guess.clock_seq, guess.sequence
FROM snowflake_presets,
     snowflake_encode(epoch + greatest('2020-02-03' - epoch, interval '40 days'),
                      CASE WHEN worker_bits > 0 THEN 3 ELSE 0 END, CASE WHEN sequence_bits > 0 THEN 2 ELSE 0 END, name) AS id,
     snowflake_guess_layout(id) AS guess
WHERE name = guess.layout ORDER BY name COLLATE "C";

-- The newest ID has this session's layout.
SELECT layout FROM snowflake_guess_layout(snowflake_nextval()) LIMIT 1;

-- There is no guess for a number that no preset can have issued, or only on the first day of its time.
SELECT count(*) FROM snowflake_guess_layout(-1);
SELECT count(*) FROM snowflake_guess_layout(0);
SELECT count(*) FROM snowflake_guess_layout(123456789);
SELECT count(*) FROM snowflake_guess_layout(NULL);
