#!/usr/bin/env bash
# A fleet under Patroni: the registry is a cluster of two with strictly synchronous replication, a shard
# another cluster of two. Under load both are switched over, and both lose their primary (kill -9). No ID that
# a client got may have come twice.
#
# The configuration is that of docs/patroni.md. Debian's packages are unpacked below target/, and not
# installed: nobody asked for their services. Called by scripts/test.sh, which prepares the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=/dev/null
. target/environment
. scripts/packages.sh

readonly unpacked=$PWD/target/patroni
readonly packages=(patroni etcd-server python3-etcd python3-dnspython python3-cdiff python3-click python3-colorama
    python3-dateutil python3-pkg-resources python3-prettytable python3-psutil python3-psycopg2 python3-six
    python3-urllib3 python3-wcwidth python3-yaml libyaml-0-2)

if ! unpack_packages "$unpacked" "${packages[@]}" || ! install_packages python3 libpq5; then
    echo "skipped: Patroni, as Debian's packages of it cannot be had" >&2
    [ -z "${CI:-}" ]
    exit
fi

. scripts/throwaway.sh
stop_all() {
    rm -f "$work_dir/load"
    local pid_file
    # Patroni first: it would start servers again.
    for pid_file in "$work_dir"/*.pid; do
        if [ -e "$pid_file" ]; then kill -KILL "$(cat "$pid_file")" 2>/dev/null || true; fi
    done
    clean_up
}
trap stop_all EXIT

# Another user may not be able to enter this directory.
cp -R "$unpacked/root" "$work_dir/root"
readonly root=$work_dir/root
python_path=$root/usr/lib/python3/dist-packages
libraries=$(dirname "$(find "$root/usr/lib" -name 'libyaml-0.so.2' | head -n 1)")

# Each server has a loopback address of its own, and all have the same ports: what nobody listens on.
read -r etcd_port etcd_peer_port rest_port port < <(python3 - <<'END'
import socket
sockets = [socket.create_server(("", 0)) for _ in range(4)]
print(*(each.getsockname()[1] for each in sockets))
END
)

started=$SECONDS
tell() { printf '\n%3d s  %s\n' $((SECONDS - started)) "$*"; }

fail() {
    echo "$*" >&2
    tail -q -n 5 "$work_dir"/{etcd,registry1,registry2,shard1,shard2}.log >&2
    exit 1
}

# Runs a program in the background, with its process ID in a file.
launch() {
    local name=$1
    shift
    # shellcheck disable=SC2016 # Expanded there.
    as_server env PYTHONPATH="$python_path" LD_LIBRARY_PATH="$libraries" bash -c \
        'echo $$ >"$0.pid"; exec "$@" >>"$0.log" 2>&1' "$work_dir/$name" "$@" 2>/dev/null &
    disown # Nobody need be told when it is killed.
}

# The block of the page that begins with a comment about a server, as the file of this server or of its twin.
configuration() {
    local server=$1 cluster=${1%[12]} tens
    case $cluster in registry) tens=1 ;; *) tens=2 ;; esac
    awk -v first="# /etc/patroni/config.yml of ${cluster}1." '
        /^```/ { inside = 0 }
        index($0, first) == 1 { inside = 1 }
        inside' docs/patroni.md |
        sed -e "/^scope:/!s/${cluster}1/$server/" -e "/snowflake_id.registry/!s/10\.0\.0\.${tens}1/10.0.0.$tens${server: -1}/" \
            -e "s/10\.0\.0\./127.0.0./g" -e "s/\b5432\b/$port/g" -e "s/\b8008\b/$rest_port/" -e "s/\b2379\b/$etcd_port/" \
            -e "s#/usr/lib/postgresql/15/bin#$bin_dir#" -e "s#/var/run/postgresql#$work_dir/$server.socket#" \
            -e "s#/var/lib/postgresql/15/$cluster#$work_dir/$server.data#" \
            -e "s#/var/lib/postgresql/$cluster.pgpass#$work_dir/$server.pgpass#" -e "s#/var/lib/postgresql#$work_dir#" |
        as_server tee "$work_dir/$server.yml" >"$work_dir/written"
    as_server mkdir "$work_dir/$server.socket"
    [ -s "$work_dir/written" ] || fail "docs/patroni.md has no configuration of $server"
}

start_patroni() { launch "$1" /usr/bin/python3 -m patroni "$work_dir/$1.yml"; }

patronictl() {
    local cluster=$1
    shift
    as_server env PYTHONPATH="$python_path" LD_LIBRARY_PATH="$libraries" LC_ALL=C.UTF-8 /usr/bin/python3 -c \
        'from patroni.ctl import ctl; ctl()' --config-file "$work_dir/${cluster}1.yml" "$@"
}

# psql on whichever server of a cluster is the primary.
on_primary() {
    local hosts
    case $1 in registry) hosts=127.0.0.11,127.0.0.12 ;; *) hosts=127.0.0.21,127.0.0.22 ;; esac
    shift
    as_server env PGPASSWORD=change-me PGCONNECT_TIMEOUT=3 "$bin_dir/psql" -X -q -v ON_ERROR_STOP=1 -d \
        "host=$hosts port=$port dbname=postgres user=postgres target_session_attrs=read-write" "$@"
}

wait_for() {
    local what=$1 cluster=$2 condition=$3
    for _ in $(seq 300); do
        if [ "$(on_primary "$cluster" -A -t -c "$condition" 2>/dev/null)" = t ]; then return; fi
        sleep 0.2
    done
    patronictl "$cluster" list >&2 || true
    fail "waited in vain for $what"
}

primary_of() { on_primary "$1" -A -t -c "SELECT right(host(inet_server_addr()), 1)"; }

wait_for_other_primary() {
    local cluster=$1 old=$2
    wait_for "another primary of the $cluster" "$cluster" "SELECT right(host(inet_server_addr()), 1) <> '$old'"
}

# Until the standby of a cluster can take over. PostgreSQL has to know that, and Patroni too.
wait_for_standby() {
    local cluster=$1 role=$2
    wait_for "a streaming standby of the $cluster" "$cluster" \
        "SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming'"
    for _ in $(seq 60); do
        if patronictl "$cluster" list 2>/dev/null | grep -q -E "\| $role +\| (running|streaming) "; then return; fi
        sleep 0.5
    done
    patronictl "$cluster" list >&2 || true
    fail "waited in vain for the standby of the $cluster"
}

# A client that writes down every ID that it gets. It connects anew when its server goes.
client() {
    while [ -e "$work_dir/load" ]; do
        while [ -e "$work_dir/load" ]; do
            echo 'INSERT INTO orders (item) SELECT n FROM generate_series(1, 20) AS n RETURNING id;'
            sleep 0.03
        done | on_primary shard -A -t >>"$work_dir/ids.$1" 2>>"$work_dir/client.errors" || sleep 0.1
    done
}

# What happens is noted with the time, for the gaps.
event() {
    tell "$1"
    echo "$(($(date +%s%N) / 1000000)) $1" >>"$work_dir/events"
}

switch_over() {
    local cluster=$1 old
    old=$(primary_of "$cluster")
    patronictl "$cluster" switchover "$cluster" --leader "$cluster$old" --force >"$work_dir/switchover.log" 2>&1 ||
        fail "$(cat "$work_dir/switchover.log")"
    wait_for_other_primary "$cluster" "$old"
}

tell "etcd, and two clusters under Patroni."
launch etcd "$root/usr/bin/etcd" --data-dir "$work_dir/etcd" --log-level error \
    --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
    --listen-peer-urls "http://127.0.0.1:$etcd_peer_port" --initial-advertise-peer-urls "http://127.0.0.1:$etcd_peer_port" \
    --initial-cluster "default=http://127.0.0.1:$etcd_peer_port"
echo '*:*:*:shard:change-me' | as_server bash -c 'umask 077; cat >"$0"' "$work_dir/fleet.pass"
for server in registry1 registry2 shard1 shard2; do
    configuration $server
    start_patroni $server
done
wait_for_standby registry 'Sync Standby'
# The SQL of the page. Renewals are made more often, so that some fall into each part of the test; a failover
# takes less than three times as long.
awk '/^```/ { inside = 0 } inside; /^```sql/ { inside = 1 }' docs/patroni.md |
    on_primary registry >"$work_dir/sql.log"
on_primary registry -c "SELECT snowflake_registry.configure(lease => '3min', renew_every => '20s')" >"$work_dir/sql.log"
wait_for_standby shard Replica
on_primary shard -c 'CREATE EXTENSION snowflake_id' \
    -c 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item int)'
wait_for "the first ID" shard 'SELECT snowflake_nextval() > 0'

touch "$work_dir/load"
for number in 1 2 3; do client $number & done
event "Clients take IDs on the shard."
sleep 3

event "Switchover of the shard."
switch_over shard
wait_for_standby shard Replica
sleep 2

event "Switchover of the registry."
switch_over registry
wait_for_standby registry 'Sync Standby'
sleep 2

old=$(primary_of registry)
event "kill -9 of the registry's primary."
kill -KILL "$(head -n 1 "$work_dir/registry$old.data/postmaster.pid")"
wait_for_other_primary registry "$old"
wait_for_standby registry 'Sync Standby'
sleep 2

old=$(primary_of shard)
event "kill -9 of the shard's primary."
kill -KILL "$(head -n 1 "$work_dir/shard$old.data/postmaster.pid")"
wait_for_other_primary shard "$old"
wait_for "an ID of the new primary" shard 'SELECT snowflake_nextval() > 0'
wait_for_standby shard Replica
sleep 2

old=$(primary_of shard)
event "kill -9 of the shard's primary and of its Patroni, as if the host were gone."
kill -KILL "$(cat "$work_dir/shard$old.pid")" "$(head -n 1 "$work_dir/shard$old.data/postmaster.pid")"
wait_for_other_primary shard "$old"
wait_for "an ID of the new primary" shard 'SELECT snowflake_nextval() > 0'
start_patroni "shard$old"
wait_for_standby shard Replica

event "The end."
rm "$work_dir/load"
wait_for "renewals at the registry of now" registry "
    SELECT count(*) > 0 FROM snowflake_registry.fleet WHERE renewed_at > clock_timestamp() - interval '21 s'"
on_primary registry -P footer=off -c "
    SELECT worker_id, state, node_name, host, hands, time_left FROM snowflake_registry.fleet"
on_primary registry -A -t -c "SELECT 'The registry is ' || state || '.' FROM snowflake_registry.status"

sort -n "$work_dir"/ids.* >"$work_dir/all"
# An answer that was cut short is no ID.
grep -v -x -E '[0-9]{18}' "$work_dir/all" >&2 && fail "what clients got are no IDs"
ids=$(wc -l <"$work_dir/all")
repeated=$(uniq -d "$work_dir/all" | wc -l)
workers=$(awk '{ print int($1 / 4096) % 1024 }' "$work_dir/all" | sort -nu | xargs)
echo
echo "How long IDs were away, at most, by the times in them:"
awk -v epoch=1704067200000 '
    FNR == NR { at[++events] = $1; sub(/^[0-9]+ /, ""); what[events] = $0; next }
    { now = int($1 / 4194304) + epoch
      if (last) for (i = events - 1; i >= 1; i--)
          if (last < at[i + 1] && now >= at[i]) { if (now - last > gap[i]) gap[i] = now - last; break }
      last = now }
    END { for (i = 1; i < events; i++) printf "%8.1f s  %s\n", gap[i] / 1000, what[i] }' "$work_dir/events" "$work_dir/all"
echo
echo "$ids IDs under the worker IDs $workers, $repeated of them came more than once."
[ "$repeated" -eq 0 ] || fail "IDs have come more than once"
# One for each server; a server that comes back may hold another one.
[ "$(wc -w <<<"$workers")" -ge 2 ] || fail "the standby that was promoted had no worker ID of its own"
[ "$ids" -gt 10000 ] || fail "that is too few to say anything"
