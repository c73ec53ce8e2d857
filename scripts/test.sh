#!/usr/bin/env bash
# Tests, on the PostgreSQL of PG_CONFIG:
#
#   scripts/test.sh            all: the core, the model checker, pg_regress, real servers, client programs
#   scripts/test.sh versions   what may depend on the version of PostgreSQL: pg_regress, real servers
#   scripts/test.sh brief      of these pg_regress, and the servers that are to show that no ID repeats
#   scripts/test.sh sql [TOPIC]...       pg_regress alone, or some topics of it
#   scripts/test.sh servers [ARGUMENT].. the servers alone; arguments are names, or parts of names, of tests, such as
#                              fleet:: or ids::waiting, and options of libtest, such as --nocapture
#   scripts/test.sh soak       many rounds of crashes, clock steps and accidents of all kinds
#   scripts/test.sh clients    the client programs
#   scripts/test.sh fleet-demo what "make fleet-demo" shows
#   scripts/test.sh patroni    registry and shard under Patroni
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/setup.sh

# PgBouncer stands between servers and their registry in a test. Debian puts it where ordinary users do not look, and
# starts it. Nobody asked for that here.
export PATH=$PATH:/usr/sbin
install_pool() {
    if command -v pgbouncer >/dev/null; then
        return
    fi
    install_packages pgbouncer || return
    if [ -d /run/systemd/system ]; then
        quietly as_root systemctl disable --now pgbouncer
    fi
}
# Debian has pg_partman for one version of PostgreSQL.
unpack_partman() {
    [ "$PG_MAJOR" = 15 ] || return 0
    unpack_packages "$PWD/target/partman" postgresql-15-partman || return
    export SNOWFLAKE_ID_PARTMAN=$PWD/target/partman/root
}
# Installed, etcd would be started.
unpack_patroni() {
    install_packages python3 libpq5 && unpack_packages "$PWD/target/patroni" patroni etcd-server python3-etcd \
        python3-dnspython python3-cdiff python3-click python3-colorama python3-dateutil python3-pkg-resources \
        python3-prettytable python3-psutil python3-psycopg2 python3-six python3-urllib3 python3-wcwidth python3-yaml ||
        return
    export SNOWFLAKE_ID_PATRONI=$PWD/target/patroni/root
}
case ${1:-all} in
    all | versions | servers)
        install_pool || skip "PgBouncer cannot be installed"
        unpack_partman || skip "pg_partman cannot be unpacked"
        ;;
    patroni)
        unpack_patroni || say "Patroni cannot be unpacked"
        ;;
esac

# Sets a trap of its own, which installing would undo.
. scripts/throwaway.sh

step() { echo; echo "==> $*"; }

test_core() {
    step "core: unit tests, properties, examples"
    cargo test --quiet -p snowflake-id-core

    step "pictures: those of the figures"
    cargo test --quiet -p snowflake-id-pictures

    step "core: every interleaving (loom)"
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --quiet --release -p snowflake-id-core --test loom
}

# The arguments pick some topics. Each needs the first one.
test_sql() {
    step "SQL: pg_regress"
    # The server's user may not be able to read this directory, or to write here.
    cp -R tests/regress "$work_dir/regress"
    if [ "$(id -u)" -eq 0 ]; then
        chown -R "$server_user" "$work_dir/regress"
    fi
    local pg_regress regress=$work_dir/regress topics
    if [ $# -eq 0 ]; then topics=(--schedule="$regress/schedule"); else topics=(setup "$@"); fi
    pg_regress=$("$PG_CONFIG" --pkglibdir)/pgxs/src/test/regress/pg_regress
    as_server "$pg_regress" --bindir="$bin_dir" --inputdir="$regress" --outputdir="$regress" \
        --temp-instance="$regress/instance" --temp-config="$regress/regress.conf" \
        --no-locale --encoding=UTF8 "${topics[@]}" || {
        cat "$regress/regression.diffs" 2>/dev/null
        exit 1
    }
}

# How many tests run at a time: they wait for most of the time.
readonly at_a_time=${TESTS_AT_A_TIME:-8}

# Runs the program of the tests with arguments of libtest. It tells how long each test takes, which is a secret of nightly
# compilers otherwise. What is printed is kept. A name that fits no test is an error.
cluster() {
    cargo test --quiet --config "target.'cfg(all())'.runner = ['env', 'RUSTC_BOOTSTRAP=1']" \
        -p snowflake-id-cluster-tests --test cluster -- -Z unstable-options --report-time "$@" 2>&1 |
        tee "$work_dir/last.out" | tee -a "$work_dir/servers.out" || return
    if grep -q '^test result: ok. 0 passed' "$work_dir/last.out"; then
        echo "there are no such tests: $*" >&2
        return 1
    fi
}

# The arguments pick some of the tests: names, then options. Those in "alone" have bounds on time that others would break. In
# the end it tells what took longest, and what was not tested.
test_servers() {
    step "servers: tests/cluster"
    local listed beside alone names=() name failed=0
    while [[ ${1:--} != -* ]]; do
        names+=("$1")
        shift
    done
    if [ "$PG_MAJOR" != 15 ]; then
        set -- "$@" --skip tables::partman:: # Debian has pg_partman for 15.
    fi
    listed=$(cargo test --quiet -p snowflake-id-cluster-tests --test cluster -- --list --format terse "${names[@]}")
    for name in "${names[@]}"; do
        grep -qF "$name" <<<"$listed" || { echo "there is no test \"$name\"" >&2 && return 1; }
    done
    mapfile -t beside < <(sed -n '/^alone::/!s/: test$//p' <<<"$listed")
    mapfile -t alone < <(sed -n '/^alone::/s/: test$//p' <<<"$listed")
    if [ ${#beside[@]} -gt 0 ]; then
        cluster --format pretty --test-threads="$at_a_time" --skip alone:: "${names[@]}" "$@" || failed=1
    fi
    if [ ${#alone[@]} -gt 0 ]; then
        cluster --format pretty --test-threads=1 --exact "${alone[@]}" "$@" || failed=1
    fi
    if [ -n "${SNOWFLAKE_ID_SECOND_PG_CONFIG:-}" ]; then
        cluster --format pretty --ignored --exact horizon::restored::pg_upgrade_to_another_major_version || failed=1
    fi
    echo
    echo "The slowest ten, in seconds:"
    sed -nE 's/^test (.*) \.\.\. .*<([0-9.]+)s>$/\2 \1/p' "$work_dir/servers.out" | sort -rn | sed -n 1,10p |
        tee "target/slowest-$PG_MAJOR"
    touch "$work_dir/skipped"
    echo "$(wc -l <"$work_dir/skipped") skipped"
    cat "$work_dir/skipped"
    return "$failed"
}

case ${1:-all} in
    all)
        test_core
        test_sql
        test_servers
        step "clients: the programs of docs/how-to/clients.md"
        scripts/clients.sh
        ;;
    versions)
        test_sql
        test_servers
        ;;
    brief)
        test_sql
        test_servers ids::uniqueness horizon::durability horizon::floor horizon::replication horizon::restored \
            alone::restarts
        ;;
    sql) test_sql "${@:2}" ;;
    servers) test_servers "${@:2}" ;;
    soak)
        export SNOWFLAKE_ID_ROUNDS=${ROUNDS:-200}
        cluster --nocapture --test-threads=1 crashes_and_clock_steps accidents_of_all_kinds accidents_in_a_fleet \
            killed_while_the_file_is_written accidents_of_segments rounds_of_steps_back accidents_of_a_registry
        ;;
    clients) scripts/clients.sh ;;
    fleet-demo) cargo run --quiet -p snowflake-id-cluster-tests --example fleet_demo ;;
    patroni) cluster --ignored --nocapture fleet::patroni ;;
    *)
        sed -n 's/^#   //p' "$0" >&2
        exit 2
        ;;
esac

echo
echo "Passed, on $("$PG_CONFIG" --version)."
