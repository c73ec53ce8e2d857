#!/usr/bin/env bash
# Generates the script of CREATE EXTENSION from the sources: sql/snowflake_id--VERSION.sql. With --check it only compares,
# and fails if the script or one of the places that name the version is not what it should be.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh
# shellcheck source=/dev/null
. target/environment
target=target
if [ "$PG_MAJOR" != 15 ]; then target=target/pg$PG_MAJOR; fi

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
script=sql/snowflake_id--$version.sql
cargo run --quiet --locked -p snowflake-id-assemble -- "$target/release/libsnowflake_id.so" >target/script.sql
if [ "${1:-}" != --check ]; then
    mv target/script.sql "$script"
    exit
fi
if ! diff "$script" target/script.sql; then
    echo "$script is not what the sources say: run \"make sql\"" >&2
    exit 1
fi
for file in snowflake_id.control sql/registry/snowflake_id_registry.control META.json; do
    other=$(sed -nE "s/^.*(default_version = '|\"version\": \")(.*)['\"],?$/\2/p" "$file" | grep -vx "$version") || continue
    # The specification has a version, too.
    [ "$file $other" = "META.json 1.0.0" ] || { echo "$file says $other, and Cargo.toml $version" >&2 && exit 1; }
done
