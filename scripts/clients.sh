#!/usr/bin/env bash
# Runs the programs of docs/clients.md against throw-away servers. Called by scripts/test.sh, which prepares the rest.
#
# What they need is installed below target/clients, in the versions that tests/clients pins. If that cannot be had, for
# want of a network for example, the programs that need it are skipped; in CI that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

readonly clients=target/clients
mkdir -p "$clients"
cp -Rp tests/clients/. "$clients"

# Does nothing as long as the file with the versions is the one that was installed.
install_pinned() {
    local versions=$clients/$1
    shift
    if cmp -s "$versions" "$versions.installed"; then
        return
    fi
    say "installing for the client programs: $versions"
    "$@" && cp "$versions" "$versions.installed"
}

debian_packages() {
    command -v dpkg-query >/dev/null && install_packages "$@"
}

python_packages() {
    python_environment "$clients/venv" &&
        quietly "$clients/venv/bin/pip" install --quiet --disable-pip-version-check -r "$clients/requirements.txt"
}

node_packages() {
    if ! command -v npm >/dev/null; then
        debian_packages nodejs npm || return
    fi
    quietly npm ci --prefix "$clients" --no-audit --no-fund
}

skip() {
    echo "skipped: $1, as what it needs cannot be installed" >&2
    [ -z "${CI:-}" ]
}

programs=()
if install_pinned requirements.txt python_packages; then
    programs+=(django sqlalchemy)
else
    skip "Django, SQLAlchemy"
fi
if install_pinned package-lock.json node_packages; then
    programs+=(node_postgres)
else
    skip "node-postgres"
fi
if CARGO_TARGET_DIR=$clients/sqlx/target quietly cargo build --locked --manifest-path "$clients/sqlx/Cargo.toml"; then
    programs+=(sqlx)
else
    skip "sqlx"
fi
if [ ${#programs[@]} -gt 0 ]; then
    cargo test --quiet -p snowflake-id-cluster-tests -- \
        --ignored --exact --test-threads=2 "${programs[@]/#/book::clients::}"
fi
