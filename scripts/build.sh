#!/usr/bin/env bash
# Sets up whatever is missing, then builds the extension for the PostgreSQL of PG_CONFIG. Safe to run again: what is there
# is skipped.
#
# Leaves the files in target/package/VERSION, below the directories where they belong, and in target/environment the
# settings that the other scripts go on with. PACKAGE_DIR names another directory than target/package.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly pgrx_version=0.18.1
readonly default_major=15

. scripts/packages.sh

if command -v dpkg-query >/dev/null; then
    packages=(gcc libc6-dev make libclang-dev)
    if [ -z "${PG_CONFIG:-}" ]; then
        packages+=("postgresql-$default_major" "postgresql-server-dev-$default_major")
    fi
    install_packages "${packages[@]}"
else
    say "this is no Debian: a C compiler, libclang and PostgreSQL with its headers have to be there already"
fi
PG_CONFIG=${PG_CONFIG:-/usr/lib/postgresql/$default_major/bin/pg_config}
if ! PG_CONFIG=$(realpath -e "$(command -v "$PG_CONFIG")" 2>/dev/null) || ! pg_version=$("$PG_CONFIG" --version); then
    echo "PG_CONFIG does not work: set it to the pg_config of PostgreSQL 15 to 18" >&2
    exit 1
fi
major=$(sed -E 's/^PostgreSQL ([0-9]+).*/\1/' <<<"$pg_version")
case $major in
    15 | 16 | 17 | 18) ;;
    *)
        echo "$pg_version is not supported: set PG_CONFIG to the pg_config of PostgreSQL 15 to 18" >&2
        exit 1
        ;;
esac

# A cargo-pgrx of another version belongs to somebody else: leave it alone and take one of our own.
tools=$PWD/target/tools
export PATH="$tools/bin:$PATH"
if [ "$(cargo pgrx --version 2>/dev/null)" != "cargo-pgrx $pgrx_version" ]; then
    say "installing cargo-pgrx $pgrx_version (takes some minutes)"
    if cargo pgrx --version >/dev/null 2>&1; then root=(--root "$tools"); else root=(); fi
    cargo install --quiet --locked cargo-pgrx --version "=$pgrx_version" "${root[@]}"
fi

# pgrx keeps its list of PostgreSQL installations here rather than in the home directory.
export PGRX_HOME=$PWD/target/pgrx
if ! grep -qsxF "pg$major = \"$PG_CONFIG\"" "$PGRX_HOME/config.toml"; then
    mkdir -p "$PGRX_HOME"
    cargo pgrx init "--pg$major" "$PG_CONFIG" >/dev/null
fi

# Builds for several versions in one directory would overwrite each other.
if [ "$major" != "$default_major" ]; then
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/pg$major}
fi

say "building the extension for $pg_version"
package=${PACKAGE_DIR:-$PWD/target/package}/$major
rm -rf "$package"
mkdir -p "${package%/*}"
touch "$package.begun" # scripts/install.sh looks for sources that are newer.
quietly cargo pgrx package --pg-config "$PG_CONFIG" --out-dir "$package" \
    --no-default-features --features "pg$major"
# The registry is plain SQL: there is nothing to build. Its control file does not lie beside ours: cargo pgrx takes the first
# one that it finds in the directory for that of the library.
for file in sql/registry/*; do
    install -m 644 "$file" "$package$("$PG_CONFIG" --sharedir)/extension/${file##*/}"
done

{
    printf 'export PG_CONFIG=%q PG_MAJOR=%q PGRX_HOME=%q\n' "$PG_CONFIG" "$major" "$PGRX_HOME"
    # shellcheck disable=SC2016 # The path is that of whoever reads the file.
    printf 'export PATH=%q:$PATH\n' "$tools/bin"
} >target/environment
