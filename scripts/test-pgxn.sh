#!/usr/bin/env bash
# Tests the archive for PGXN: META.json is valid, the archive contains the committed files and its version, and PGXN's client
# installs from it into a copy of PostgreSQL, where the SQL tests pass.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh
# shellcheck source=/dev/null
. target/environment
. scripts/packages.sh

readonly validator_version=0.7.0
readonly client_version=1.3.2

if ! cargo install --list --root target/tools | grep -q "^pgxn_meta v$validator_version:"; then
    say "installing pgxn_meta $validator_version, which validates META.json"
    quietly cargo install --quiet --locked pgxn_meta --version "=$validator_version" --root target/tools
fi
# pip would reuse a package that it has built for another clone, with the path of that clone in its scripts.
PIP_NO_CACHE_DIR=1 install_python pgxn "pgxnclient==$client_version" setuptools
need unzip=unzip

target/tools/bin/pgxn_meta META.json
archive=$(scripts/dist.sh)
diff <((echo packaging/version && in_clone ls-tree -r --name-only HEAD) | sort) <(unzip -Z1 "$archive" | grep -v '/$' | cut -d / -f 2- | sort)

# Install into a copy of an installation that can be moved, so that other tests are not affected.
PG_CONFIG=$(env -u PG_CONFIG scripts/postgresql.sh 16)
copy_it=1 . scripts/throwaway.sh

# Optimizing across all crates takes minutes, and is tested elsewhere.
export CARGO_TARGET_DIR=$PWD/target/pgxn-build CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
older=$("$PG_CONFIG" --sharedir)/extension/snowflake_id--0.0.1.sql
touch "$older"
target/pgxn/bin/pgxn install --nosudo --pg_config "$PG_CONFIG" "$PWD/$archive"
[ ! -e "$older" ] || failed "the script of an earlier version is still there"

start_server <tests/regress/regress.conf
PGHOST=$work_dir PGUSER=postgres target/pgxn/bin/pgxn check --pg_config "$PG_CONFIG" "$PWD/$archive"
