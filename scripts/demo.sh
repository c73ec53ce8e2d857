#!/usr/bin/env bash
# Lets eight clients fill a table while the server is killed and its clock is set back by an hour. Then counts,
# compares and decodes the IDs. KEEP=1 leaves the server running.
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
# Layout "rollback3" has a clock sequence. With it, calls do not wait after the clock was set back.
start_server <<END
shared_preload_libraries = 'snowflake_id'
snowflake_id.worker_id = 1
snowflake_id.layout = 'rollback3'
timezone = 'UTC'
END
connection=(--host "$work_dir" --username postgres)
psql=(as_server "$bin_dir/psql" -X -q -v ON_ERROR_STOP=1 "${connection[@]}" --dbname postgres)
ask() { "${psql[@]}" --no-align --tuples-only --command "$1"; }
# The table has no primary key, so that a repeated ID would be stored and counted.
"${psql[@]}" <<END
CREATE EXTENSION snowflake_id;
CREATE TABLE orders (id bigint DEFAULT snowflake_nextval(), run int, client int, n int);
END
as_server tee "$work_dir/insert.sql" >/dev/null <<END
\\set n :n + 1
INSERT INTO orders (run, client, n) VALUES (:run, :client_id, :n);
END
# Starts eight clients in the background. Each runs one transaction after another for $2 seconds.
insert() {
    as_server "$bin_dir/pgbench" --no-vacuum --client 8 --jobs 2 --time "$2" --define run="$1" --define n=0 \
        --file "$work_dir/insert.sql" "${connection[@]}" postgres >"$work_dir/pgbench.log" 2>&1 &
}
wait_for_id() {
    until ask "SELECT snowflake_nextval()" >/dev/null 2>&1; do sleep 0.1; done
}
report() {
    printf "  %s  %-62s %7s\n" "$(ask "SELECT to_char(clock_timestamp(), 'HH24:MI:SS')")" "$1" \
        "$(ask "SELECT count(*) FROM orders")"
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
insert 1 60
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
insert 2 5
sleep 2
report "The clock is set back by one hour under load."
set_clock -3600
wait $! || { cat "$work_dir/pgbench.log" >&2 && exit 1; }
report "The clients stop."

echo
"${psql[@]}" --no-align --tuples-only <<END
WITH compared AS (
    SELECT id, lag(id) OVER (PARTITION BY run, client ORDER BY n) AS before FROM orders
)
SELECT format(E'  %-72s %7s\n  %-72s %7s\n  %-72s %7s', 'rows', count(*),
              'IDs that repeat another', count(*) - count(DISTINCT id),
              'IDs lower than the one before (same session, same clock_seq)',
              count(*) FILTER (WHERE id <= before AND snowflake_clock_seq(id) = snowflake_clock_seq(before)))
FROM compared;
END
echo "  After the clock was set back, IDs show its time, and differ by the next clock_seq."
echo
"${psql[@]}" --pset footer=off <<END
SELECT which, id, to_char(decoded.generated_at, 'YYYY-MM-DD HH24:MI:SS.MS') AS generated_at,
       decoded.worker_id AS worker, decoded.clock_seq, decoded.sequence
FROM (SELECT 1 AS nr, 'first' AS which, min(id) AS id FROM orders WHERE run = 1
      UNION ALL SELECT 2, 'last before kill -9', max(id) FROM orders WHERE run = 1
      UNION ALL SELECT 3, 'first after it', min(id) FROM orders WHERE run = 2 AND snowflake_clock_seq(id) = 0
      UNION ALL SELECT 4, 'last before the clock was set', max(id) FROM orders WHERE snowflake_clock_seq(id) = 0
      UNION ALL SELECT 5, 'first after it', min(id) FROM orders WHERE snowflake_clock_seq(id) = 1
      UNION ALL SELECT 6, 'last', max(id) FROM orders WHERE snowflake_clock_seq(id) = 1) AS ends,
     snowflake_decode(id) AS decoded
ORDER BY nr;
END
if [ "$(ask "SELECT count(*) > 0 AND count(*) = count(DISTINCT id) FROM orders")" != t ]; then
    echo "there are no rows, or IDs that occur twice" >&2
    exit 1
fi

if [ "${KEEP:-0}" = 1 ]; then
    set_clock 0
    keep_work_dir=1
    echo "The server is up, and its clock is right again. To play on:"
    echo "    $bin_dir/psql -h $work_dir -U postgres"
    echo "To stop and remove it:"
    echo "    kill -QUIT $(head -n 1 "$data/postmaster.pid") && sleep 1 && rm -r $work_dir"
else
    echo "The server is stopped and removed. To keep one to play with: make demo KEEP=1"
fi
