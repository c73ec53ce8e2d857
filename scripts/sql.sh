#!/usr/bin/env bash
# Generates the script of CREATE EXTENSION from the sources: sql/snowflake_id--VERSION.sql. With --check it only compares,
# and fails if the script or one of the places that name the version is not what it should be.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh
# shellcheck source=/dev/null
. target/environment
library=${PACKAGE_DIR:-target/package}/$PG_MAJOR$("$PG_CONFIG" --pkglibdir)/snowflake_id.so
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
script=sql/snowflake_id--$version.sql
cargo run --quiet --locked -p snowflake-id-assemble -- "$library" >target/script.sql
if [ "${1:-}" != --check ]; then
    mv target/script.sql "$script"
elif ! diff "$script" target/script.sql; then
    echo "$script is not what the sources say: run \"make sql\"" >&2
    exit 1
elif ! grep -qx "default_version = '$version'" snowflake_id.control ||
    ! grep -qx "default_version = '$version'" sql/registry/snowflake_id_registry.control ||
    [ "$(grep -c "\"version\": \"$version\"" META.json)" != 3 ] || [ ! -e "sql/registry/snowflake_id_registry--$version.sql" ]; then
    echo "control files, META.json and the registry's script have to name version $version, as Cargo.toml does" >&2
    exit 1
fi
