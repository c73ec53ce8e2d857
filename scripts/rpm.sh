#!/usr/bin/env bash
# Builds the RPM package for the PostgreSQL of PG_CONFIG, and prints its path:
#
#   target/rpm/snowflake_id_NN-VERSION-RELEASE.ARCH.rpm
#
# The files are installed below /usr/pgsql-NN, where the packages of PostgreSQL's own RPM repository are. Runs on Red
# Hat's systems and its relatives, and on Debian with its package "rpm". RPM_DIR overrides the directory target/rpm, and
# RELEASE_DIR the directory in which cargo compiles.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# On Debian, the database of rpm does not know the packages that are needed to build.
options=()
if command -v dpkg-query >/dev/null; then
    install_packages rpm jq libpq-dev
    options=(--nodeps)
fi

PG_CONFIG=$(realpath -e "$(command -v "${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}")")
major=$("$PG_CONFIG" --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/')
rpm_dir=$(realpath -m "${RPM_DIR:-target/rpm}")
RELEASE_DIR=$(realpath -m "${RELEASE_DIR:-$rpm_dir}")
SOURCE_DATE_EPOCH=$(source_date_epoch)
export RELEASE_DIR SOURCE_DATE_EPOCH

release=$(release_version)
version=${release/-/\~} # A candidate sorts before its release.
say "packing snowflake_id_$major $version"
rm -f "$rpm_dir/snowflake_id_$major"-*.rpm
mkdir -p "$rpm_dir"
quietly rpmbuild -bb --build-in-place "${options[@]}" packaging/rpm/snowflake_id.spec \
    --define "pgmajorversion $major" --define "pg_config $PG_CONFIG" --define "release_version $version" \
    --define "_topdir $rpm_dir/work" --define "_rpmdir $rpm_dir" \
    --define "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
    --define "_buildhost localhost" --define "use_source_date_epoch_as_buildtime 1" \
    --define "clamp_mtime_to_source_date_epoch 1" --define "source_date_epoch_from_changelog 0"
rm -rf "$rpm_dir/work"
echo "$rpm_dir/snowflake_id_$major"-*."$(uname -m)".rpm
