#!/usr/bin/env bash
# Lets eight clients fill a table with snowflake IDs, then shows the result. KEEP=1 leaves the server running.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/setup.sh
. scripts/throwaway.sh

clients=8
seconds=${SECONDS_TO_RUN:-5}
start_server <<END
shared_preload_libraries = 'snowflake_id'
snowflake_id.worker_id = 1
END
connection=(--host "$work_dir" --username postgres)
psql=(as_server "$bin_dir/psql" -X -q -v ON_ERROR_STOP=1 "${connection[@]}" --dbname postgres)
"${psql[@]}" <<END
CREATE EXTENSION snowflake_id;
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), client int);
END

# Ten rows per transaction, so that making IDs is a larger part of the work than commits.
as_server tee "$work_dir/insert.sql" >/dev/null <<END
INSERT INTO orders (client) SELECT :client_id FROM generate_series(1, 10);
END
echo
echo "$clients clients insert into a table with DEFAULT snowflake_nextval() for $seconds s ..."
as_server "$bin_dir/pgbench" -n -c "$clients" -j 2 -T "$seconds" -f "$work_dir/insert.sql" "${connection[@]}" postgres \
    >"$work_dir/pgbench.log" 2>&1 || { cat "$work_dir/pgbench.log" >&2; exit 1; }

"${psql[@]}" <<END
\\pset footer off
\\pset expanded on
SELECT count(*) AS rows,
       count(DISTINCT id) AS distinct_ids,
       count(DISTINCT client) AS clients,
       round(count(*) / $seconds::numeric) AS ids_per_second
FROM orders;
\\pset expanded off
SELECT which, id, decoded.*
FROM (SELECT 'first' AS which, min(id) AS id FROM orders
      UNION ALL
      SELECT 'last', max(id) FROM orders) AS ends,
     snowflake_decode(id) AS decoded;
END
if [ "$("${psql[@]}" -A -t -c 'SELECT count(*) > 0 AND count(*) = count(DISTINCT id) FROM orders')" != t ]; then
    echo "there are no rows, or IDs that came more than once" >&2
    exit 1
fi

if [ "${KEEP:-0}" = 1 ]; then
    keep_work_dir=1
    echo "The server is up. To play on:"
    echo "    $bin_dir/psql -h $work_dir -U postgres"
    echo "To stop and remove it:"
    echo "    kill -QUIT $(head -n 1 "$data/postmaster.pid") && sleep 1 && rm -r $work_dir"
else
    echo "Done; the server is stopped and removed. To keep one to play with: make demo KEEP=1"
    echo "(it then prints: $bin_dir/psql -h DIRECTORY -U postgres)"
fi
