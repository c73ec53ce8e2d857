#!/usr/bin/env bash
# Counts the instructions of one ID with Valgrind, and compares them with benches/instructions.txt: those of a step of the
# core, and those of a call of snowflake_nextval() in a server. Unlike times, the counts are the same in each run.
#
#   scripts/instructions.sh             fails if a count is higher than in the file
#   scripts/instructions.sh --record    writes the file
set -euo pipefail
cd "$(dirname "$0")/.."

readonly file=benches/instructions.txt
readonly ids=100
# A tick of the layout "wide", in microseconds.
readonly tick_us=1000

scripts/setup.sh
# shellcheck source=/dev/null
. target/environment
. scripts/packages.sh
command -v valgrind >/dev/null || install_packages valgrind
cargo build --quiet --release -p snowflake-id-bench --bin steps
# Sets a trap of its own, which installing would undo.
. scripts/throwaway.sh

psql=(as_server "$bin_dir/psql" -X -q -A -t -v ON_ERROR_STOP=1 --host "$work_dir" --username bench --dbname postgres)

# The instructions of one ID, out of those of all.
of_one() {
    if [ $(($1 % ids)) -ne 0 ]; then
        echo "$1 instructions for $ids IDs: the IDs took different paths" >&2
        return 1
    fi
    echo $(($1 / ids))
}

# Instructions of a program that takes so many IDs, with a clock that moves by so many microseconds for each.
count_program() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "${CARGO_TARGET_DIR:-target}/release/steps" "$@" 2>&1 |
        sed -n 's/.* Collected : //p'
}

# The beginning and the end of the program are the same for any number of IDs.
count_step() {
    local some more
    some=$(count_program "$ids" "$1")
    more=$(count_program $((ids * 2)) "$1")
    of_one $((more - some))
}

# Has the server's clock stand at an instant, from where each reading moves it by a step. With 0 it is the real one.
set_clock() { perl -e 'print pack "q3", 0, @ARGV' "$@" >"$work_dir/clock"; }

start_server() {
    local _ pg_ctl=(as_server "$bin_dir/pg_ctl" --pgdata "$work_dir/data" --log "$work_dir/log" --wait)
    as_server "$bin_dir/initdb" --pgdata "$work_dir/data" --username bench --auth trust --no-sync >"$work_dir/initdb.log"
    as_server tee -a "$work_dir/data/postgresql.conf" >/dev/null <<END
listen_addresses = ''
unix_socket_directories = '$work_dir'
shared_preload_libraries = 'snowflake_id'
snowflake_id.worker_id = 1
snowflake_id.layout = wide
END
    # This is done without Valgrind, under which all is slow.
    "${pg_ctl[@]}" start >/dev/null
    "${psql[@]}" --command 'CREATE EXTENSION snowflake_id'
    "${pg_ctl[@]}" stop >/dev/null

    cc -shared -fPIC -O1 -o "$work_dir/clock.so" tests/cluster/src/clock.c
    set_clock 0 0
    chmod 644 "$work_dir/clock"
    # Counts within snowflake_nextval(), and begins again at 0 with each call of pg_backend_pid().
    as_server env LD_PRELOAD="$work_dir/clock.so" SNOWFLAKE_ID_CLOCK="$work_dir/clock" \
        valgrind --quiet --tool=callgrind --callgrind-out-file="$work_dir/callgrind.%p" \
        --toggle-collect=snowflake_nextval --zero-before=pg_backend_pid \
        "$bin_dir/postgres" -D "$work_dir/data" >>"$work_dir/log" 2>&1 &
    # The first ID may be ahead of the clock.
    for _ in $(seq 100); do
        if "${psql[@]}" --command 'SELECT pg_sleep_until(snowflake_timestamp(snowflake_nextval()))' >/dev/null 2>&1; then
            return
        fi
        sleep 0.2
    done
    cat "$work_dir/log" >&2
    return 1
}

# Instructions of a call, without those of the clock, which is one of ours. The IDs have to be in so many ticks: that says
# which path they took.
count_call() {
    local instant_us=$1 step_us=$2 expected=$3 answer pid ticks profile _
    set_clock "$instant_us" "$step_us"
    # The first calls set the session up.
    answer=$("${psql[@]}" <<END
SELECT count(snowflake_nextval()) FROM generate_series(1, 10);
SELECT pg_backend_pid();
SELECT count(DISTINCT snowflake_timestamp(snowflake_nextval())) FROM generate_series(1, $ids);
END
    )
    { read -r _ && read -r pid && read -r ticks; } <<<"$answer"
    if [ "$ticks" -ne "$expected" ]; then
        echo "$ids IDs are in $ticks ticks: the clock should have put them into $expected" >&2
        return 1
    fi
    profile=$work_dir/callgrind.$pid
    # It is written when the process ends.
    for _ in $(seq 100); do
        if grep -qs ^totals: "$profile"; then break; fi
        sleep 0.1
    done
    callgrind_annotate --threshold=100 --auto=no "$profile" >"$work_dir/annotated"
    of_one "$(awk '{ gsub(",", "") } /PROGRAM TOTALS/ { all = $1 } /\/clock\.so\]$/ { clock += $1 } END { print all - clock }' \
        "$work_dir/annotated")"
}

step_in_same_tick=$(count_step 0)
step_in_new_tick=$(count_step "$tick_us")
start_server
# A call that finds another horizon does more. The keeper moves it, and has to rest.
keeper=$("${psql[@]}" --command "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_id keeper'")
as_server kill -STOP "$keeper"
now_us=$(date +%s%6N)
call_in_same_tick=$(count_call "$now_us" 0 1)
call_in_new_tick=$(count_call "$now_us" "$tick_us" "$ids")
as_server kill -CONT "$keeper"

counted=$work_dir/instructions.txt
cat >"$counted" <<END
# The instructions of one ID in layout "wide", without those of the clock. "make instructions RECORD=1" writes this file.
# A step of the core, and a call of snowflake_nextval(); within the tick of the ID before it, and in a new tick.
# Compiled by $(rustc -V) for $(rustc -vV | sed -n 's/^host: //p'), with the release profile.
step_in_same_tick $step_in_same_tick
step_in_new_tick $step_in_new_tick
call_in_same_tick $call_in_same_tick
call_in_new_tick $call_in_new_tick
END
if [ "${1:-}" = --record ]; then
    cp "$counted" "$file"
    cat "$file"
    exit
fi
if [ "$(grep '^# Compiled' "$file")" != "$(grep '^# Compiled' "$counted")" ]; then
    echo "The counts in $file are those of another compiler, and cannot be compared:" >&2
    grep -h '^# Compiled' "$file" "$counted" >&2
    exit 1
fi
worse=0 better=0
while read -r name now _ before; do
    printf '%-20s%5d   recorded:%5d\n' "$name" "$now" "$before"
    worse=$((worse + (now > before))) better=$((better + (now < before)))
done < <(paste -d ' ' "$counted" "$file" | grep -v '^#')
if [ "$better" -gt 0 ]; then
    echo "There are fewer instructions than in $file. To record that: make instructions RECORD=1"
fi
if [ "$worse" -gt 0 ]; then
    echo "There are more instructions than in $file. If that is worth it: make instructions RECORD=1" >&2
    exit 1
fi
