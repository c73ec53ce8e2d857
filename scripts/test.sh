#!/usr/bin/env bash
# All tests: the core, the model checker, pg_regress, real servers, client programs. With the argument "soak", only many
# rounds of crashes and clock steps; with "clients", only the client programs.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
# shellcheck source=/dev/null
. target/environment
. scripts/throwaway.sh
unset RUST_BACKTRACE # It would add a backtrace to the DETAIL of errors.

step() { echo; echo "==> $*"; }

export SNOWFLAKE_ID_WORK_DIR=$work_dir SNOWFLAKE_ID_SERVER_USER=$server_user
if [ "${1:-}" = soak ]; then
    SNOWFLAKE_ID_ROUNDS=${ROUNDS:-200} cargo test --quiet -p snowflake-id-cluster-tests --test durability \
        -- --nocapture crashes_and_clock_steps
    exit
fi
if [ "${1:-}" = clients ]; then
    scripts/clients.sh
    exit
fi

step "core: unit tests, properties, examples"
cargo test --quiet -p snowflake-id-core

step "core: every interleaving (loom)"
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --quiet --release -p snowflake-id-core --test loom

step "SQL: pg_regress"
# The server's user may not be able to read this directory, or to write here.
cp -R tests/regress "$work_dir/regress"
if [ "$(id -u)" -eq 0 ]; then
    chown -R "$server_user" "$work_dir/regress"
fi
pg_regress=$("$PG_CONFIG" --pkglibdir)/pgxs/src/test/regress/pg_regress
regress=$work_dir/regress
as_server "$pg_regress" --bindir="$bin_dir" --inputdir="$regress" --outputdir="$regress" \
    --schedule="$regress/schedule" --temp-instance="$regress/instance" --temp-config="$regress/regress.conf" \
    --no-locale --encoding=UTF8 || {
    cat "$regress/regression.diffs" 2>/dev/null
    exit 1
}

step "servers: tests/cluster"
cargo test --quiet -p snowflake-id-cluster-tests -- --test-threads=2

step "clients: the programs of docs/clients.md"
scripts/clients.sh

echo
echo "All tests passed."
