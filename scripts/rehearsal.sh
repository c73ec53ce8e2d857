#!/usr/bin/env bash
# Rehearses the runbooks on a fleet that is installed from the Debian package: see tests/cluster/examples/rehearsal.
#
# The package is unpacked into a private copy of PostgreSQL, not installed with apt, because other clusters of this
# machine may use the installed version. Writes the report to target/rehearsal/index.html.
#
# DEB=FILE takes this package instead of building one. It must be for the PostgreSQL of PG_CONFIG.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/packages.sh

need ip=iproute2 openssl=openssl ps=procps cc=gcc
unpacked=$PWD/target/monitoring
if ! unpack_packages "$unpacked" prometheus prometheus-postgres-exporter; then
    skip "rehearsal: Debian's packages prometheus and prometheus-postgres-exporter are not available"
    exit
fi
export SNOWFLAKE_ID_PROMETHEUS=$unpacked/root/usr/bin
if [ -n "${DEB:-}" ]; then
    deb=$(realpath -e "$DEB")
    PG_CONFIG=$(realpath -e "${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}")
    PG_MAJOR=$("$PG_CONFIG" --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/')
else
    deb=$(scripts/deb.sh)
    # shellcheck source=/dev/null
    . target/environment
fi

. scripts/throwaway.sh

# PostgreSQL without the extension, in Debian's directories, and the package over it.
root=$work_dir/root
mkdir -p "$root/usr/lib/postgresql/$PG_MAJOR" "$root/usr/share/postgresql"
cp -R "$("$PG_CONFIG" --bindir)" "$root/usr/lib/postgresql/$PG_MAJOR/bin"
cp -R "$("$PG_CONFIG" --pkglibdir)" "$root/usr/lib/postgresql/$PG_MAJOR/lib"
cp -R "$("$PG_CONFIG" --sharedir)" "$root/usr/share/postgresql/$PG_MAJOR"
rm -f "$root/usr/lib/postgresql/$PG_MAJOR/lib"/snowflake_id* "$root/usr/share/postgresql/$PG_MAJOR/extension"/snowflake_id*
dpkg-deb --extract "$deb" "$root"
chmod -R a+rX "$root"
export PG_CONFIG=$root/usr/lib/postgresql/$PG_MAJOR/bin/pg_config SNOWFLAKE_ID_PACKAGE=$root
export SNOWFLAKE_ID_REPORT=$PWD/target/rehearsal
say "installed $(basename "$deb"), for $("$PG_CONFIG" --version)"

cargo run --quiet -p snowflake-id-cluster-tests --example rehearsal
