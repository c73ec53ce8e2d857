#!/usr/bin/env bash
# Tests the extension image: it has the directories that CloudNativePG expects, PostgreSQL 18 loads the extension from
# it, and its build is reproducible.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# The image built here is not for users: see scripts/test-packages.sh.
export DEB_DIR=$PWD/target/test-deb IMAGE_DIR=$PWD/target/test-image
PG_CONFIG=$(env -u PG_CONFIG scripts/postgresql.sh 18)
export PG_CONFIG # From a Python wheel, which can be moved.
install_packages skopeo umoci
archive=$(scripts/image.sh)
cp "$archive" "$DEB_DIR"

say "packing again, with other settings"
archive=$(
    umask 077
    TZ=Pacific/Chatham LC_ALL=C scripts/image.sh
)
cmp "$archive" "$DEB_DIR/${archive##*/}" || failed "the image differs when it is packed again"

say "what is in the image"
# Copy the image as an image registry would store it, which checks every digest.
rm -rf "$IMAGE_DIR/copy"
skopeo --insecure-policy copy --quiet "oci-archive:$archive" "oci:$IMAGE_DIR/copy:it"
skopeo inspect "oci:$IMAGE_DIR/copy:it" | jq -c '{Architecture, Os, Created, Labels}'

# Use a copy of the installation that does not contain the extension. It finds its own libraries relative to its
# programs.
copy_it=1 . scripts/throwaway.sh
find "$work_dir" -type f -name 'snowflake_id*' -delete
umoci unpack --rootless --image "$IMAGE_DIR/copy:it" "$work_dir/image"
extensions=$work_dir/extensions/snowflake-id
mkdir "${extensions%/*}"
mv "$work_dir/image/rootfs" "$extensions"
chmod -R a+rX "$work_dir/extensions"
diff - <(find "$extensions" -type f -printf '%P\n' | LC_ALL=C sort) <<END || failed "these are not the files of the image"
lib/snowflake_id.so
licenses/postgresql-18-snowflake-id/copyright
licenses/postgresql-18-snowflake-id/crates.txt
share/extension/snowflake_id--$(extension_version).sql
share/extension/snowflake_id.control
share/extension/snowflake_id_registry--$(extension_version).sql
share/extension/snowflake_id_registry.control
END

say "loaded by PostgreSQL 18, as CloudNativePG does it"
start_server < <(
    cat tests/regress/regress.conf
    echo "extension_control_path = '\$system:$extensions/share'"
    echo "dynamic_library_path = '\$libdir:$extensions/lib'"
) || failed "PostgreSQL 18 does not start with the image"
export PGHOST=$work_dir PGUSER=postgres
grep -q "$extensions/lib/snowflake_id.so" "/proc/$(head -n 1 "$data/postmaster.pid")/maps" ||
    failed "the library is not that of the image"

# The keeper's database is that of the SQL tests, which will drop and create it again.
psql=("$bin_dir/psql" -X -q -v ON_ERROR_STOP=1)
"${psql[@]}" -d postgres -c "CREATE DATABASE regression"
"${psql[@]}" -d regression -c "CREATE EXTENSION snowflake_id" -c "CREATE EXTENSION snowflake_id_registry"
# The keeper looks for its database at intervals.
for _ in $(seq 300); do
    state=$("${psql[@]}" -A -t -d regression -c "SELECT state FROM snowflake_status")
    [ "$state" != ready ] || break
    sleep 0.1
done
first=$("${psql[@]}" -A -t -d regression -c "SELECT worker_id, abs(extract(epoch FROM now() - generated_at)) < 60
    FROM snowflake_decode(snowflake_nextval())")
[ "$first" = "7|t" ] || failed "the first ID: $first"
as_server "$bin_dir/pg_ctl" --silent --wait --pgdata="$data" --log="$work_dir/log" restart
# Skip the test that reads the script from the directory where make install puts it.
grep -v '^test: qualified$' tests/regress/schedule >"$work_dir/schedule"
SCHEDULE=$work_dir/schedule scripts/installcheck.sh
