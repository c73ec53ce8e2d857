#!/usr/bin/env bash
# Lets eight clients fill a table while the server is killed and its clock is set back. Then counts, compares and decodes
# the IDs. A second part sets the clock back by an hour, in a layout with a clock sequence. KEEP=1 leaves the server
# running.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/setup.sh
. scripts/throwaway.sh

# The clock library of the tests sets the clock of this server only.
cc -shared -fPIC -O1 -o "$work_dir/clock.so" tests/cluster/src/clock.c
# Shifts the server's clock by a number of seconds. All its processes have the file mapped, so it must not be truncated.
set_clock() {
    local shift_us=$(($1 * 1000000)) bytes='' i
    for i in 0 8 16 24 32 40 48 56; do bytes+=$(printf '\\x%02x' $((shift_us >> i & 255))); done
    printf '%b' "$bytes" | dd of="$work_dir/clock" conv=notrunc status=none
}
# The server needs a history of more than an hour: it never uses times before its first start.
set_clock -7200
chmod a+rx "$work_dir/clock.so" "$work_dir/clock"
server_environment=(LD_PRELOAD="$work_dir/clock.so" SNOWFLAKE_ID_CLOCK="$work_dir/clock")
start_server <<END
shared_preload_libraries = 'snowflake_id'
snowflake_id.worker_id = 1
timezone = 'UTC'
END
connection=(--host "$work_dir" --username postgres)
psql=(as_server "$bin_dir/psql" -X -q -v ON_ERROR_STOP=1 "${connection[@]}" --dbname postgres)
ask() { "${psql[@]}" --no-align --tuples-only --command "$1"; }
# The table has no primary key, so that a repeated ID would be stored and counted.
"${psql[@]}" <<END
CREATE EXTENSION snowflake_id;
CREATE TABLE orders (id bigint DEFAULT snowflake_nextval(), run int, client int, n int);
CREATE TABLE visits (LIKE orders INCLUDING DEFAULTS);
END
for table in orders visits; do
    as_server tee "$work_dir/$table.sql" >/dev/null <<END
\\set n :n + 1
INSERT INTO $table (run, client, n) VALUES (:run, :client_id, :n);
END
done
# Starts eight clients in the background. Each inserts rows into table $1, one in each transaction, for $3 seconds.
insert() {
    as_server "$bin_dir/pgbench" --no-vacuum --client 8 --jobs 2 --time "$3" --define run="$2" --define n=0 \
        --file "$work_dir/$1.sql" "${connection[@]}" postgres >"$work_dir/pgbench.log" 2>&1 &
}
wait_for_id() {
    until ask "SELECT snowflake_nextval()" >/dev/null 2>&1; do sleep 0.1; done
}
report() {
    printf "  %s  %-62s %7s\n" "$(ask "SELECT to_char(clock_timestamp(), 'HH24:MI:SS')")" "$1" \
        "$(ask "SELECT count(*) FROM ${2:-orders}")"
}
# Counts the IDs of table $1 that are repeated, and those that are lower than one that the session got before, if $3 says
# that they must not be.
count() {
    "${psql[@]}" --no-align --tuples-only <<END
WITH compared AS (
    SELECT id, lag(id) OVER (PARTITION BY run, client ORDER BY n) AS before FROM $1
)
SELECT format(E'\n  %-72s %7s\n  %-72s %7s\n  %-72s %7s\n', 'rows', count(*),
              'IDs that repeat another', count(*) - count(DISTINCT id),
              'IDs lower than the one before ($2)', count(*) FILTER (WHERE id <= before AND $3))
FROM compared;
END
}
# Decodes the first and the last ID of groups of rows.
decode() {
    "${psql[@]}" --pset footer=off <<END
SELECT which, id, to_char(decoded.generated_at, 'YYYY-MM-DD HH24:MI:SS.MS') AS generated_at,
       decoded.worker_id AS worker, $2decoded.sequence
FROM ($1) AS ends (nr, which, id), snowflake_decode(id) AS decoded
ORDER BY nr;
END
}

echo
echo "Eight clients insert rows, one in each transaction; DEFAULT snowflake_nextval() creates the keys."
echo
echo "  clock     what happens                                                      rows"
wait_for_id
report "A new server makes its first ID."
as_server "$bin_dir/pg_ctl" --silent --wait --pgdata="$data" stop
set_clock 0
start_again
report "Two hours later, the clients start."
insert orders 1 60
sleep 2
report "kill -9 ends the server under load."
kill -KILL "$(head -n 1 "$data/postmaster.pid")"
wait || true
# The server cannot start before the last of its old processes has ended.
for _ in $(seq 50); do
    if start_again 2>/dev/null; then break; fi
    sleep 0.2
done
wait_for_id
report "The server has recovered, and the clients return."
insert orders 2 6
sleep 2
report "The clock is set back by two seconds under load: calls wait."
set_clock -2
sleep 3
report "The clock has caught up."
wait $! || { cat "$work_dir/pgbench.log" >&2 && exit 1; }
report "The clients stop."
count orders "same session" true
decode "SELECT 1, 'first', min(id) FROM orders WHERE run = 1
        UNION ALL SELECT 2, 'last before kill -9', max(id) FROM orders WHERE run = 1
        UNION ALL SELECT 3, 'first after it', min(id) FROM orders WHERE run = 2
        UNION ALL SELECT 4, 'last', max(id) FROM orders WHERE run = 2" ''

echo "The second part uses layout rollback3. It has a field clock_seq, so that calls need not wait for the clock."
echo
echo "  clock     what happens                                                      rows"
ask "ALTER SYSTEM SET snowflake_id.layout = 'rollback3'" && ask "SELECT pg_reload_conf()" >/dev/null
until [ "$(ask "SHOW snowflake_id.layout")" = rollback3 ]; do sleep 0.1; done
insert visits 3 5
sleep 2
report "The clock is set back by one hour under load." visits
set_clock -3602
wait $! || { cat "$work_dir/pgbench.log" >&2 && exit 1; }
report "The clients stop." visits
count visits "same session, same clock_seq" "snowflake_clock_seq(id) = snowflake_clock_seq(before)"
echo "  After the clock was set back, IDs show its time, and differ by the next clock_seq."
echo
decode "SELECT 1, 'last before the clock was set', max(id) FROM visits WHERE snowflake_clock_seq(id) = 0
        UNION ALL SELECT 2, 'first after it', min(id) FROM visits WHERE snowflake_clock_seq(id) = 1
        UNION ALL SELECT 3, 'last', max(id) FROM visits WHERE snowflake_clock_seq(id) = 1" 'decoded.clock_seq, '
echo "  In the default layout, calls fail until the clock has caught up, rather than repeat an ID:"
echo
if ask "SET snowflake_id.layout = 'standard'; SET snowflake_id.max_wait = '1 s'; SELECT snowflake_nextval()" \
    >"$work_dir/refused.log" 2>&1; then
    echo "the call did not fail" >&2
    exit 1
fi
sed 's/^/  /' "$work_dir/refused.log"
echo
for table in orders visits; do
    if [ "$(ask "SELECT count(*) > 0 AND count(*) = count(DISTINCT id) FROM $table")" != t ]; then
        echo "there are no rows, or IDs that occur twice" >&2
        exit 1
    fi
done

if [ "${KEEP:-0}" = 1 ]; then
    set_clock 0
    ask "ALTER SYSTEM RESET snowflake_id.layout" && ask "SELECT pg_reload_conf()" >/dev/null
    keep_work_dir=1
    echo "The server is up, and its clock is right again. To play on:"
    echo "    $bin_dir/psql -h $work_dir -U postgres"
    echo "To stop and remove it:"
    echo "    kill -QUIT $(head -n 1 "$data/postmaster.pid") && sleep 1 && rm -r $work_dir"
else
    echo "The server is stopped and removed. To keep one to play with: make demo KEEP=1"
fi
