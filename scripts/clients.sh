#!/usr/bin/env bash
# Runs the programs of docs/how-to/clients.md and numbers-over-http.md on throw-away servers. Called by
# scripts/test.sh, which prepares everything else.
#
# Installs their dependencies below target/clients, in the versions that tests/clients pins.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

readonly clients=target/clients
mkdir -p "$clients"
cp -Rp tests/clients/. "$clients"

programs=()
readarray -t python_packages <tests/clients/requirements.txt
if install_python clients/venv "${python_packages[@]}"; then
    programs+=(django sqlalchemy number_service)
else
    skip "Django, SQLAlchemy and the service of numbers: what tests/clients/requirements.txt names cannot be installed"
fi
if install_node "$clients"; then
    programs+=(node_postgres)
else
    skip "node-postgres: what tests/clients/package-lock.json names cannot be installed, or npm is missing"
fi
if CARGO_TARGET_DIR=$clients/sqlx/target quietly cargo build --locked --manifest-path "$clients/sqlx/Cargo.toml"; then
    programs+=(sqlx)
else
    skip "sqlx: tests/clients/sqlx cannot be built"
fi
if [ ${#programs[@]} -gt 0 ]; then
    cargo test --quiet -p snowflake-id-cluster-tests -- --ignored --exact --test-threads=2 "${programs[@]/#/book::clients::}" |
        tee target/clients.out
    grep -q "ok. ${#programs[@]} passed" target/clients.out
fi
