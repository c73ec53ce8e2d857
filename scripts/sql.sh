#!/usr/bin/env bash
# Assembles the scripts of CREATE EXTENSION from the sources: sql/snowflake_id--VERSION.sql, and the script of the
# registry. A released script is not replaced. With --check, only compares: fails if a script is out of date, or if a
# file has another version than Cargo.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

scripts/build.sh
# shellcheck source=/dev/null
. target/environment
library=${PACKAGE_DIR:-target/package}/$PG_MAJOR$("$PG_CONFIG" --pkglibdir)/snowflake_id.so
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)

# assemble SCRIPT ARGUMENT..
assemble() {
    local script=$1 assembled=target/script.sql
    shift
    cargo_with_pgrx run --quiet --locked -p snowflake-id-assemble -- "$@" >"$assembled"
    if [ -z "$check" ]; then
        scripts/released.sh replace "$assembled" "$script"
    elif ! diff "$script" "$assembled"; then
        echo "$script is not what the sources say: run \"make sql\"" >&2
        exit 1
    fi
}

check=${1:-}
assemble "sql/snowflake_id--$version.sql" snowflake_id "$library"
assemble "sql/registry/snowflake_id_registry--$version.sql" snowflake_id_registry

if [ -n "$check" ] && {
    ! grep -qx "default_version = '$version'" snowflake_id.control ||
        ! grep -qx "default_version = '$version'" sql/registry/snowflake_id_registry.control ||
        ! grep -qF "%global release_version $version}" packaging/rpm/snowflake_id.spec ||
        [ "$(grep -c "\"version\": \"$version\"" META.json)" != 3 ]
}; then
    echo "control files, META.json and the spec file have to name version $version, as Cargo.toml does" >&2
    exit 1
fi
