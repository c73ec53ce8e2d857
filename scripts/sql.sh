#!/usr/bin/env bash
# Assembles the scripts of CREATE EXTENSION from the sources: sql/snowflake_id--VERSION.sql, and the script of the
# registry. A released script is not replaced. With --check, only compares: fails if a script is out of date.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

scripts/build.sh
# shellcheck source=/dev/null
. target/environment
library=${PACKAGE_DIR:-target/package}/$PG_MAJOR$("$PG_CONFIG" --pkglibdir)/snowflake_id.so
version=$(extension_version)

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
