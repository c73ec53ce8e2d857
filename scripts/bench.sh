#!/usr/bin/env bash
# Runs the benchmark: SQL on a real server, then the core alone. This takes about ten minutes; run nothing else
# meanwhile.
#
#   scripts/bench.sh                      all tables
#   scripts/bench.sh throughput latency   some of them: calls baseline reading showing filling throughput saturation
#                                         latency program horizon lease registry watermark core
#   scripts/bench.sh instructions         counts instructions with Valgrind, and compares them with benches/instructions.txt;
#                                         with --record, writes that file
#
# If FIGURES is set to a directory, also writes a CSV file for each table there.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/setup.sh
if [ "${1:-}" = instructions ]; then
    install_packages valgrind
fi
. scripts/throwaway.sh

run() { cargo run --quiet --release -p snowflake-id-bench --bin "$@"; }

if [ "${1:-}" = instructions ]; then
    run instructions -- "${@:2}"
    exit
fi
tables=()
core=0
for table in "$@"; do
    if [ "$table" = core ]; then core=1; else tables+=("$table"); fi
done
if [ $# -eq 0 ] || [ ${#tables[@]} -gt 0 ]; then
    run sql -- "${tables[@]}"
fi
if [ $# -eq 0 ] || [ $core = 1 ]; then
    echo
    echo "### The core alone (criterion: lower bound, estimate, upper bound)"
    echo
    cargo bench --quiet -p snowflake-id-bench --bench core 2>&1 | sed -n '/time:/s/^/    /p'
fi
