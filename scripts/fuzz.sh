#!/usr/bin/env bash
# Feeds random input to everything that parses input:
#
#   scripts/fuzz.sh                     all targets, 60 seconds in all
#   scripts/fuzz.sh SECONDS [TARGET]    so many seconds, for all targets together or for one
#
# A target with a directory in tests/fuzz/corpora is a parser of the core. libFuzzer starts from the inputs in that
# directory, and keeps inputs that reach new code in target/fuzz/found. If an input fails, its file is named. Copy the
# file to the directory of the target: "make test" then runs it each time.
#
# All other targets are tests on servers, in tests/cluster/tests/fuzz. If a test fails, it prints the seed for
# SNOWFLAKE_ID_SEED.
set -euo pipefail
cd "$(dirname "$0")/.."

in_all=${1:-60}
[[ $in_all =~ ^[1-9][0-9]*$ ]] || { echo "SECONDS must be a positive number, not \"$in_all\"" >&2 && exit 2; }
targets=(tests/fuzz/corpora/* tests/cluster/tests/fuzz/*.rs)
if [ -n "${2:-}" ]; then
    mapfile -t targets < <(printf '%s\n' "${targets[@]}" | grep -E "/$2(\.rs)?$")
fi
[ ${#targets[@]} -gt 0 ] || { echo "there is no target \"$2\"" >&2 && exit 2; }
each=$((in_all / ${#targets[@]}))
[ $each -gt 0 ] || each=1

. scripts/packages.sh
need c++=g++

# The flags make the compiler count which branches run, and report the operands of comparisons. With more optimization,
# comparisons are merged, and libFuzzer no longer learns which part of an input matches.
coverage="-Cpasses=sancov-module"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    coverage+=" -Cllvm-args=-sanitizer-coverage-$option"
done
host=$(rustc --print host-tuple)
build() {
    # The target is named so that the flags do not apply to build scripts.
    RUSTFLAGS="-Copt-level=1 -Ccodegen-units=16 $coverage" CARGO_TARGET_DIR=$PWD/target/fuzz \
        cargo build --quiet --release --target "$host" --manifest-path tests/fuzz/libfuzzer/Cargo.toml
}

# Prints the number of inputs. Fails if one of them fails, takes more than 20 s, or needs more than 512 MB.
run_in_core() {
    local name=$1 found=target/fuzz/found/$1 log=target/fuzz/$1.log
    mkdir -p "$found"
    SNOWFLAKE_ID_TARGET=$name "target/fuzz/$host/release/snowflake-id-libfuzzer" \
        -max_total_time="$each" -max_len=4096 -timeout=20 -rss_limit_mb=512 -print_final_stats=1 \
        -dict=tests/fuzz/words.dict -artifact_prefix="target/fuzz/$name-" "$found" "tests/fuzz/corpora/$name" \
        >"$log" 2>&1 || { grep -v '^#' "$log" >&2 && return 1; }
    sed -nE "s/^Done ([0-9]+) runs in ([0-9]+) second.*/$name: \1 inputs in \2 s/p" "$log"
}

core=() servers=()
for target in "${targets[@]}"; do
    case $target in
        *.rs) servers+=("fuzz::$(basename "$target" .rs)") ;;
        *) core+=("$(basename "$target")") ;;
    esac
done
if [ ${#core[@]} -gt 0 ]; then
    build
    for name in "${core[@]}"; do run_in_core "$name"; done
fi
if [ ${#servers[@]} -gt 0 ]; then
    SNOWFLAKE_ID_FUZZ_SECONDS=$each scripts/test.sh fuzz "${servers[@]}"
fi
