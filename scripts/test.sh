#!/usr/bin/env bash
# Runs tests on the PostgreSQL of PG_CONFIG:
#
#   scripts/test.sh            all: the core, the model checker, pg_regress, real servers, client programs
#   scripts/test.sh versions   the tests that may depend on the version of PostgreSQL: pg_regress, real servers
#   scripts/test.sh brief      pg_regress, and the tests on servers that no ID is repeated
#   scripts/test.sh sql [TOPIC]...       only pg_regress, or some topics of it
#   scripts/test.sh servers [ARGUMENT].. only the tests on servers; arguments are names of tests, or parts of names
#                              (fleet:: or ids::waiting, for example), and options of libtest, such as --nocapture
#   scripts/test.sh soak       many rounds of crashes, clock steps and accidents of all kinds
#   scripts/test.sh clients    the client programs
#   scripts/test.sh fleet-demo the demonstration of "make fleet-demo"
#   scripts/test.sh patroni    registry and shard under Patroni
#   scripts/test.sh fuzz [TARGET]..  the tests with random input: see scripts/fuzz.sh
#   scripts/test.sh citus      a cluster of Citus, which the PostgreSQL of PG_CONFIG must have
set -euo pipefail
cd "$(dirname "$0")/.."

# Checked first, because building the extension takes minutes.
if [ "${1:-}" = citus ]; then
    pg_config=${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}
    # If it does not work, scripts/build.sh says so.
    if libraries=$("$pg_config" --pkglibdir 2>/dev/null) && [ ! -e "$libraries/citus.so" ]; then
        major=$("$pg_config" --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/')
        cat >&2 <<END
"make citus" needs a PostgreSQL with Citus 13: $libraries/citus.so does not exist.
Debian has no package of Citus. Install package postgresql-$major-citus-13.0 of the Citus project, or build Citus from
source (https://github.com/citusdata/citus) with ./configure PG_CONFIG=$pg_config. Then run
    make citus PG_CONFIG=$pg_config
END
        exit 1
    fi
fi

. scripts/setup.sh

# A test puts PgBouncer between servers and their registry. Debian installs it in a directory that is not in the PATH
# of ordinary users, and starts it. The service is not needed here, so it is disabled.
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
# Debian has pg_partman and pglogical for version 15 only.
unpack_partman() {
    [ "$PG_MAJOR" = 15 ] || return 0
    unpack_packages "$PWD/target/partman" postgresql-15-partman || return
    export SNOWFLAKE_ID_PARTMAN=$PWD/target/partman/root
}
unpack_pglogical() {
    [ "$PG_MAJOR" = 15 ] || return 0
    unpack_packages "$PWD/target/pglogical" postgresql-15-pglogical || return
    export SNOWFLAKE_ID_PGLOGICAL=$PWD/target/pglogical/root
}
# Unpacked only: installing etcd would start it.
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
        unpack_pglogical || skip "pglogical cannot be unpacked"
        ;;
    patroni)
        unpack_patroni || say "Patroni cannot be unpacked"
        ;;
esac

# Must come after the installations: it sets an EXIT trap, which they would remove.
. scripts/throwaway.sh

step() { echo; echo "==> $*"; }

test_core() {
    step "core: unit tests, properties, examples"
    cargo test --quiet -p snowflake-id-core

    step "client: unit tests, examples"
    cargo test --quiet -p snowflake-id-client

    step "fuzz: the stored inputs"
    CARGO_TARGET_DIR=target/model cargo test --quiet --release --manifest-path tests/fuzz/Cargo.toml

    step "pictures: those of the figures"
    cargo test --quiet -p snowflake-id-pictures

    step "core: interleavings (loom)"
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
        cargo test --quiet --release -p snowflake-id-core --test loom --test loom_marks
}

# The arguments select topics; without arguments, all topics run. Each topic needs the topic "setup".
test_sql() {
    step "SQL: pg_regress"
    # The server's user may not be able to read or write in this directory.
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

# The number of tests that run at the same time. Most of the time they wait; with more than this, two processors are
# always busy, and clients get little done in the time that a test gives them.
readonly at_a_time=${TESTS_AT_A_TIME:-5}

# Runs the test program with arguments of libtest, and keeps its output. Fails if no test matches. RUSTC_BOOTSTRAP
# makes the option --report-time available, which is otherwise reserved for nightly compilers.
cluster() {
    cargo test --quiet --config "target.'cfg(all())'.runner = ['env', 'RUSTC_BOOTSTRAP=1']" \
        -p snowflake-id-cluster-tests --test cluster -- -Z unstable-options --report-time "$@" 2>&1 |
        tee "$work_dir/last.out" | tee -a "$work_dir/servers.out" || return
    if grep -q '^test result: ok. 0 passed' "$work_dir/last.out"; then
        echo "there are no such tests: $*" >&2
        return 1
    fi
}

# The arguments are names of tests, then options. The tests in "alone" have time limits, so no other tests run next to
# them. At the end, prints the slowest tests and the skipped ones.
test_servers() {
    step "servers: tests/cluster"
    local listed beside alone names=() name failed=0
    while [[ ${1:--} != -* ]]; do
        names+=("$1")
        shift
    done
    if [ "$PG_MAJOR" != 15 ]; then
        set -- "$@" --skip tables::partman:: --skip book::pglogical:: # Debian has them for version 15 only.
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
        step "clients: the programs of docs/how-to/clients-*.md"
        scripts/clients.sh
        ;;
    versions)
        test_sql
        test_servers
        ;;
    brief)
        test_sql
        test_servers ids::uniqueness horizon::durability horizon::floor horizon::replication horizon::restored \
            alone::restarts book::several_writers book::switching
        ;;
    sql) test_sql "${@:2}" ;;
    servers) test_servers "${@:2}" ;;
    soak)
        export SNOWFLAKE_ID_ROUNDS=${ROUNDS:-200} SNOWFLAKE_ID_NAMES=${NAMES:-50000}
        cluster --nocapture --test-threads=1 crashes_and_clock_steps accidents_of_all_kinds accidents_in_a_fleet \
            killed_while_the_file_is_written accidents_of_segments rounds_of_steps_back accidents_of_a_registry \
            many_names programs_come_and_go
        ;;
    # One after the other, because each test runs for a given time.
    fuzz) cluster --nocapture --test-threads=1 "${@:2}" ;;
    clients) scripts/clients.sh ;;
    fleet-demo) cargo run --quiet -p snowflake-id-cluster-tests --example fleet_demo ;;
    patroni) cluster --ignored --nocapture fleet::patroni ;;
    # One after the other, because one of the tests measures CPU time.
    citus) cluster --ignored --nocapture --test-threads=1 fleet::citus ;;
    *)
        sed -n 's/^#   //p' "$0" >&2
        exit 2
        ;;
esac

echo
echo "Passed, on $("$PG_CONFIG" --version)."
