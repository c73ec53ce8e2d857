#!/usr/bin/env bash
# The benchmark: SQL against a real server, then the core alone. Takes about a quarter of an hour; nothing else should run.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
# shellcheck source=/dev/null
. target/environment
. scripts/throwaway.sh

export SNOWFLAKE_ID_WORK_DIR=$work_dir SNOWFLAKE_ID_SERVER_USER=$server_user
cargo run --quiet --release -p snowflake-id-bench --bin sql
echo
echo "### The core alone (criterion: lower bound, estimate, upper bound)"
echo
cargo bench --quiet -p snowflake-id-bench --bench core 2>&1 | sed -n '/time:/s/^/    /p'
