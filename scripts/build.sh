#!/usr/bin/env bash
# Installs missing dependencies, then builds the extension for the PostgreSQL of PG_CONFIG. Can be run repeatedly:
# completed steps are skipped.
#
# Writes the files to target/package/VERSION, below the directories where they will be installed, and writes the
# settings for the other scripts to target/environment. PACKAGE_DIR overrides target/package.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly default_major=15

. scripts/packages.sh

if command -v dpkg-query >/dev/null; then
    packages=(gcc libc6-dev make libclang-dev libpq-dev)
    if [ -z "${PG_CONFIG:-}" ]; then
        packages+=("postgresql-$default_major" "postgresql-server-dev-$default_major")
    fi
    install_packages "${packages[@]}"
else
    say "this is no Debian: a C compiler, libclang and PostgreSQL with its headers have to be there already"
fi
PG_CONFIG=${PG_CONFIG:-/usr/lib/postgresql/$default_major/bin/pg_config}
if ! PG_CONFIG=$(realpath -e "$(command -v "$PG_CONFIG")" 2>/dev/null) || ! pg_version=$("$PG_CONFIG" --version); then
    echo "PG_CONFIG does not work: set it to the pg_config of PostgreSQL 15 to 19" >&2
    exit 1
fi
major=$(sed -E 's/^PostgreSQL ([0-9]+).*/\1/' <<<"$pg_version")
case $major in
    15 | 16 | 17 | 18 | 19) ;;
    *)
        echo "$pg_version is not supported: set PG_CONFIG to the pg_config of PostgreSQL 15 to 19" >&2
        exit 1
        ;;
esac

# The other versions share a directory, because they have most crates in common. The library is copied from it at once.
target=${CARGO_TARGET_DIR:-$PWD/target}
if [ "$major" != "$default_major" ]; then
    target=${CARGO_TARGET_DIR:-$PWD/target/versions}
fi
# Otherwise pgrx would look for these settings in its own configuration.
environment=$(printf 'export PG_CONFIG=%q PG_MAJOR=%q PGRX_PG_CONFIG_PATH=%q' "$PG_CONFIG" "$major" "$PG_CONFIG")
eval "$environment"

SNOWFLAKE_ID_VERSION=$(release_version)
export SNOWFLAKE_ID_VERSION

say "building the extension for $pg_version"
package=${PACKAGE_DIR:-$PWD/target/package}/$major
rm -rf "$package"
mkdir -p "${package%/*}"
touch "$package.begun" # scripts/install.sh checks whether a source is newer than this file.
quietly cargo_with_pgrx build --locked --release -p snowflake_id --no-default-features --features "pg$major" --target-dir "$target"
install -D -m 755 "$target/release/libsnowflake_id.so" "$package$("$PG_CONFIG" --pkglibdir)/snowflake_id.so"
install -D -m 644 -t "$package$("$PG_CONFIG" --sharedir)/extension" \
    snowflake_id.control sql/snowflake_id--*.sql sql/registry/snowflake_id_registry*

echo "$environment" >target/environment
