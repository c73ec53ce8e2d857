#!/usr/bin/env bash
# A fleet: a registry with a synchronous standby, three shards that lease their worker IDs from it, and a
# standby of one of them. All take IDs. Meanwhile a shard is killed and its standby promoted, the killed one
# comes back by mistake, and the registry goes away and fails over. Then all IDs of all servers are compared.
# About a minute.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
# shellcheck source=/dev/null
. target/environment
. scripts/throwaway.sh
trap 'rm -f "$work_dir/load"; clean_up' EXIT

# The ports only name the sockets.
readonly registry=6001 registry_standby=6002 shard_1=6011 shard_2=6012 shard_3=6013 shard_1_standby=6021
# A lease this short is for the demo. What it is by default: 10 minutes, renewed every minute.
readonly lease=12 renew_every=2
readonly connection_string="host=$work_dir,$work_dir port=$registry,$registry_standby dbname=postgres user=fleet \
target_session_attrs=read-write"

started=$SECONDS
tell() { printf '\n%3d s  %s\n' $((SECONDS - started)) "$*"; }

fail() {
    echo "$*" >&2
    exit 1
}

# The rest are lines of postgresql.conf.
configure() {
    local name=$1
    shift
    printf '%s\n' "$@" | as_server tee -a "$work_dir/$name/postgresql.conf" >/dev/null
}

start() {
    local name=$1
    as_server "$bin_dir/pg_ctl" --pgdata "$work_dir/$name" --log "$work_dir/$name.log" --wait start >/dev/null ||
        fail "$(cat "$work_dir/$name.log")"
}

# Like kill -9 of all its processes, but that shared memory is removed.
crash() {
    as_server "$bin_dir/pg_ctl" --pgdata "$work_dir/$1" --mode immediate stop >/dev/null
}

promote() {
    as_server "$bin_dir/pg_ctl" --pgdata "$work_dir/$1" --wait promote >/dev/null
}

new_server() {
    local name=$1 port=$2
    shift 2
    as_server "$bin_dir/initdb" --pgdata "$work_dir/$name" --username demo --auth trust --no-sync >"$work_dir/initdb.log"
    configure "$name" "listen_addresses = ''" "unix_socket_directories = '$work_dir'" "max_connections = 40" \
        "shared_buffers = 32MB" "port = $port" "cluster_name = '$name'" "$@"
    start "$name"
}

# A streaming standby of the server on a port.
new_standby() {
    local name=$1 port=$2 of=$3
    as_server "$bin_dir/pg_basebackup" --pgdata "$work_dir/$name" --host "$work_dir" --port "$of" --username demo \
        --checkpoint fast --write-recovery-conf --no-sync
    configure "$name" "port = $port" "cluster_name = '$name'" "wal_retrieve_retry_interval = 200ms"
    start "$name"
}

query() {
    local port=$1
    shift
    as_server "$bin_dir/psql" -X -q -v ON_ERROR_STOP=1 --host "$work_dir" --port "$port" --username demo --dbname postgres "$@"
}

# Tries a query until it returns t.
wait_for() {
    local what=$1 port=$2 condition=$3
    for _ in $(seq 600); do
        if [ "$(query "$port" -A -t -c "$condition" 2>/dev/null)" = t ]; then return; fi
        sleep 0.1
    done
    fail "waited in vain for $what"
}

# Clients that take IDs as long as file "load" is there. All that fails is noted.
load() {
    local name=$1 port=$2
    while [ -e "$work_dir/load" ]; do
        as_server "$bin_dir/pgbench" -n -c 4 -j 1 -R 50 -T 2 -f "$work_dir/insert.sql" --host "$work_dir" --port "$port" \
            --username demo postgres >"$work_dir/pgbench.$name" 2>&1 || {
            grep error "$work_dir/pgbench.$name" >>"$work_dir/failed.$name"
            sleep 0.2
        }
    done
}

fleet() {
    query "$1" -P footer=off -c "
        SELECT worker_id, state, node_name, to_char(time_left, 'SS.MS') AS seconds_left, hands
        FROM snowflake_registry.fleet"
}

worker_of() { query "$1" -A -t -c 'SELECT worker_id FROM snowflake_status LIMIT 1'; }

tell "A registry and its synchronous standby."
new_server registry $registry
query $registry <<END
CREATE EXTENSION snowflake_id_registry;
SELECT snowflake_registry.start_fleet() \\g /dev/null
SELECT snowflake_registry.configure(lease => '${lease}s', renew_every => '${renew_every}s', synchronous => true) \\g /dev/null
CREATE ROLE fleet LOGIN;
GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew TO fleet;
END
new_standby registry_standby $registry_standby $registry
# The standby does not wait for a standby of its own once it is promoted: there is none here.
configure registry "synchronous_standby_names = '*'"
query $registry -c 'SELECT pg_reload_conf()' >/dev/null
wait_for "the registry's standby" $registry "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"

tell "Three shards. None of them has a worker ID in its configuration."
as_server tee "$work_dir/insert.sql" >/dev/null <<END
INSERT INTO orders (client) SELECT :client_id FROM generate_series(1, 10);
END
touch "$work_dir/load"
for shard in 1 2 3; do
    port=shard_$shard
    new_server "shard_$shard" "${!port}" "shared_preload_libraries = 'snowflake_id'" \
        "snowflake_id.registry = '$connection_string'"
    # The token tells whether two rows with one ID are one row and its copy on a standby, or an ID that came
    # twice.
    query "${!port}" <<END
CREATE EXTENSION snowflake_id;
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), client int, token uuid DEFAULT gen_random_uuid());
END
    wait_for "the first ID" "${!port}" 'SELECT snowflake_nextval() > 0'
    load "shard_$shard" "${!port}" &
done
new_standby shard_1_standby $shard_1_standby $shard_1
wait_for "rows on the standby" $shard_1_standby 'SELECT count(*) > 1000 FROM orders'
echo "       Shard 1 has an asynchronous standby. Clients insert on all shards. The fleet, as the registry sees it:"
fleet $registry

sleep 3
tell "Shard 1 crashes, and its standby is promoted."
crash shard_1
promote shard_1_standby
before=$(date +%s%N)
wait_for "an ID of the promoted standby" $shard_1_standby 'SELECT snowflake_nextval() > 0'
echo "       It has worker ID $(worker_of $shard_1_standby), its first ID came after" \
    "$((($(date +%s%N) - before) / 1000000)) ms. It did not wait for the lease of the dead one to end."
load shard_1_standby $shard_1_standby &

sleep 3
tell "The old shard 1 is started again by mistake: two primaries. Both take IDs."
start shard_1
wait_for "an ID of the old primary" $shard_1 'SELECT snowflake_nextval() > 0'
fleet $registry

tell "The registry is away for 5 s. Leases last for ${lease} s; nobody notices."
crash registry
sleep 5
start registry
# That the standby has all commits is believed only right after a renewal.
wait_for "renewals" $registry "
    SELECT count(*) >= 4 FROM snowflake_registry.fleet WHERE renewed_at > pg_postmaster_start_time() AND state = 'held'
    HAVING max(renewed_at) > clock_timestamp() - interval '1 s'"

tell "The registry crashes for good, and its standby is promoted."
crash registry
promote registry_standby
promoted=$(query $registry_standby -A -t -c 'SELECT clock_timestamp()')
wait_for "renewals at the new registry" $registry_standby "
    SELECT count(*) >= 4 FROM snowflake_registry.fleet WHERE renewed_at > '$promoted' AND state = 'held'"
# Until the leases of before are over: what goes on now goes on by the new one.
sleep $((lease + 2))
tell "More than a lease later. The fleet, as the new registry sees it:"
fleet $registry_standby
query $registry_standby -P footer=off -c 'SELECT state, quarantine_reason, live_leases FROM snowflake_registry.status'

rm "$work_dir/load"
wait
tell "All rows of all servers, also those that were lost with the old shard 1:"
for shard in shard_1 shard_1_standby shard_2 shard_3; do
    query "${!shard}" -A -t -F ' ' -c 'SELECT id, token, snowflake_worker(id) FROM orders' >"$work_dir/ids.$shard"
    printf '       %-16s %8d rows, worker IDs %s\n' "$shard" "$(wc -l <"$work_dir/ids.$shard")" \
        "$(cut -d ' ' -f 3 "$work_dir/ids.$shard" | sort -nu | xargs)"
    [ -s "$work_dir/ids.$shard" ] || fail "$shard has no rows"
done
# A row that is on two servers is there twice, with the same token.
sort -u "$work_dir"/ids.* >"$work_dir/all"
ids=$(wc -l <"$work_dir/all")
repeated=$(cut -d ' ' -f 1 "$work_dir/all" | uniq -d | wc -l)
echo
echo "       $ids IDs, $repeated of them came more than once."
[ "$repeated" -eq 0 ] || fail "IDs have come more than once"
for shard in shard_2 shard_3 shard_1_standby; do
    if [ -s "$work_dir/failed.$shard" ]; then
        sort "$work_dir/failed.$shard" | uniq -c >&2
        fail "calls have failed on $shard"
    fi
done
echo "       No call failed on shards 2 and 3, nor on the promoted standby of shard 1."
