#!/usr/bin/env bash
# Debian's packages, in a Debian that has PostgreSQL and none of what they were built with: installed and used by the words of
# the book, the SQL tests, upgraded under a running server, removed. The same sources give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

failed() {
    echo "FAILED: $*" >&2
    exit 1
}

# The packages of this test are none for users: see scripts/test-packages.sh.
export DEB_DIR=$PWD/target/test-deb
# shellcheck source=/dev/null
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
deb=$(scripts/deb.sh)
# shellcheck source=/dev/null
. target/environment
package=postgresql-$PG_MAJOR-snowflake-id
symbols=${deb/$package/$package-dbgsym}

packed=$DEB_DIR/packed
rm -rf "$packed"
mkdir -p "$packed"

say "packing again, with other settings"
mv "$deb" "$symbols" "$packed"
(
    umask 077
    TZ=Pacific/Chatham LC_ALL=C scripts/deb.sh >/dev/null
)
cmp "$deb" "$packed/${deb##*/}" || failed "the package differs when it is packed again"
cmp "$symbols" "$packed/${symbols##*/}" || failed "the debug symbols differ when they are packed again"

if [ -n "${FULL:-}" ]; then
    say "compiling again, in another directory"
    elsewhere=$PWD/target/test-deb-elsewhere/snowflake
    rm -rf "$elsewhere"
    mkdir -p "$elsewhere"
    git ls-files -z | xargs -0 cp --parents --target-directory "$elsewhere"
    SOURCE_DATE_EPOCH=$(source_date_epoch) DEB_DIR=$elsewhere/target/deb "$elsewhere/scripts/deb.sh" >/dev/null
    cmp "$deb" "$elsewhere/target/deb/${deb##*/}" || failed "the package differs when it is compiled elsewhere"
    cmp "$symbols" "$elsewhere/target/deb/${symbols##*/}" || failed "the debug symbols differ when compiled elsewhere"
    rm -rf "${elsewhere%/*}"
fi

say "what is in the packages"
install_packages lintian binutils
dpkg-deb --field "$deb" Package Version Architecture Depends
depends=$(dpkg-deb --field "$deb" Depends)
for wanted in "postgresql-$PG_MAJOR" libpq5 libc6; do
    [[ ", $depends" == *", $wanted"[,\ ]* || ", $depends" == *", $wanted" ]] || failed "it does not depend on $wanted"
done
rm -rf "$packed/files"
dpkg-deb --extract "$deb" "$packed/files"
library=$packed/files/usr/lib/postgresql/$PG_MAJOR/lib/snowflake_id.so
diff - <(cd "$packed/files" && find . -type f -printf '/%P\n' | LC_ALL=C sort) <<END || failed "these are not the files of the package"
/usr/lib/postgresql/$PG_MAJOR/lib/snowflake_id.so
/usr/share/doc/$package/README.md.gz
/usr/share/doc/$package/changelog.Debian.gz
/usr/share/doc/$package/changelog.gz
/usr/share/doc/$package/copyright
/usr/share/doc/$package/crates.txt.gz
/usr/share/doc/$package/monitoring/alerts.yml
/usr/share/doc/$package/monitoring/dashboard.json
/usr/share/doc/$package/monitoring/postgres_exporter.yml
/usr/share/doc/$package/monitoring/postgres_exporter_registry.yml
/usr/share/postgresql/$PG_MAJOR/extension/snowflake_id--$(extension_version).sql
/usr/share/postgresql/$PG_MAJOR/extension/snowflake_id.control
/usr/share/postgresql/$PG_MAJOR/extension/snowflake_id_registry--$(extension_version).sql
/usr/share/postgresql/$PG_MAJOR/extension/snowflake_id_registry.control
END
build_id=$(readelf --notes "$library" | sed -n 's/.*Build ID: //p')
dpkg-deb --contents "$symbols" | grep >/dev/null "/usr/lib/debug/.build-id/${build_id:0:2}/${build_id:2}.debug" ||
    failed "the debug symbols are those of another library"
! readelf --sections "$library" | grep >/dev/null '\.debug_' || failed "the library has its debug symbols itself"
for path in "$PWD" "${CARGO_HOME:-$HOME/.cargo}" "$(rustc --print sysroot)"; do
    ! grep -rqF "$path" "$packed/files" || failed "a path of this machine is in $(grep -rlF "$path" "$packed/files")"
done
# The maintainer has an address of his own only by DEBEMAIL, and these are no uploads to Debian.
lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$deb" "$symbols" \
    --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs

old_version=0.0.9~test
mv "$deb" "$symbols" "$packed"
old=$(DEB_VERSION=$old_version scripts/deb.sh)
mv "$old" "$packed"
rm "$DEB_DIR"/*.deb
deb=$packed/${deb##*/} old=$packed/${old##*/}

. scripts/guest.sh
system=$(guest_system "$suite" "$PG_MAJOR")
. scripts/throwaway.sh
unset RUST_BACKTRACE # It would add a backtrace to the DETAIL of errors.
start_guest "$system"

cluster=("$PG_MAJOR" main)
socket_dir=$guest/run/postgresql
conf_dir=/etc/postgresql/$PG_MAJOR/main/conf.d
extensions=/usr/share/postgresql/$PG_MAJOR/extension
ask() { in_guest env --chdir=/ sudo -u postgres psql -X -q -A -t -v ON_ERROR_STOP=1 "$@"; }
# All that a package may leave behind.
files() { in_guest find /etc /usr /var/lib/postgresql -xdev -not -path '/var/lib/postgresql/*/main/*' | sort; }
# The library that the server has loaded: its inode, and "(deleted)" if it is not the file that is there now.
loaded() {
    in_guest bash -c 'grep -m 1 -h snowflake_id.so /proc/"$(head -n 1 /var/lib/postgresql/'"$PG_MAJOR"'/main/postmaster.pid)"/maps' |
        awk '{ print $5 ($7 ? " " $7 : "") }'
}
in_guest pg_ctlcluster "${cluster[@]}" start
files >"$packed/before"
! in_guest sh -c 'command -v cargo cc gcc clang' || failed "there are compilers"

# The commands of a page, or of a section of it, as one would type them one after the other: in a shell, or in psql as postgres.
commands() {
    awk -v section="${2:-}" '
        BEGIN { on = section == "" }
        section != "" && /^#+ / { on = $0 == section }
        !on { next }
        /^```/ && kind { if (kind == "sql") print "END"; kind = ""; next }
        /^```(sh|sql)$/ { kind = substr($0, 4); if (kind == "sql") print "sudo -u postgres psql <<\047END\047"; next }
        kind' "$1" | sed "s/\b15\b/$PG_MAJOR/g"
}
# Types them, and expects to see an ID that was decoded.
type_commands() {
    commands "$@" >"$packed/typed"
    cat "$packed/typed"
    in_guest bash -euo pipefail -s <"$packed/typed" >"$packed/typed.out" 2>&1 || {
        cat "$packed/typed.out"
        failed "the commands of $1"
    }
    tail -n 4 "$packed/typed.out"
    grep -qE "^ tea +\| $(date --utc +%Y)-[^|]*\| +1$" "$packed/typed.out" || failed "no ID was decoded"
}

say "from the package to the first ID, by the words of the book's first page"
as_root cp "$deb" "$guest/root"
begun=$(date +%s%N)
type_commands docs/README.md
took=$(($(date +%s%N) - begun))
printf 'From the .deb to the first decoded ID: %d.%03d s.\n' $((took / 1000000000)) $((took / 1000000 % 1000))
[ "$took" -lt 60000000000 ] || failed "that is more than a minute"

say "the registry, as an extension and as a file"
ask -c "CREATE EXTENSION snowflake_id_registry" -c "SELECT snowflake_registry.start_fleet()" >/dev/null
ask -c "CREATE DATABASE managed"
ask -d managed --file "$extensions/snowflake_id_registry--$(extension_version).sql" >/dev/null
ask -d managed -c "SELECT snowflake_registry.start_fleet()" -c "SELECT state FROM snowflake_registry.status" | grep -x ready >/dev/null ||
    failed "the registry is not ready"

say "the SQL tests"
in_guest rm "$conf_dir/snowflake_id.conf"
as_root cp tests/regress/regress.conf "$guest$conf_dir/regress.conf"
as_root sed -i '1i local all all trust' "$guest/etc/postgresql/$PG_MAJOR/main/pg_hba.conf"
in_guest pg_ctlcluster "${cluster[@]}" restart
PGHOST=$socket_dir PGUSER=postgres scripts/installcheck.sh
in_guest rm "$conf_dir/regress.conf"

say "removed"
in_guest pg_ctlcluster "${cluster[@]}" restart
in_guest apt-get purge --yes -qq "$package" >/dev/null
diff "$packed/before" <(files) || failed "something was left behind"

say "upgraded from $old_version, under a server that runs"
as_root cp "$old" "$guest/root"
in_guest apt-get install --yes -qq "./${old##*/}" >/dev/null
in_guest bash -c "printf '%s\n' \"shared_preload_libraries = 'snowflake_id'\" 'snowflake_id.worker_id = 1' >$conf_dir/snowflake_id.conf"
in_guest pg_ctlcluster "${cluster[@]}" restart
ask -c "DROP EXTENSION IF EXISTS snowflake_id CASCADE" -c "CREATE EXTENSION snowflake_id" \
    -c "CREATE TABLE seen (n int GENERATED ALWAYS AS IDENTITY, id bigint PRIMARY KEY DEFAULT snowflake_nextval(), at text)"
insert() { ask -c "INSERT INTO seen (at) SELECT '$1' FROM generate_series(1, 1000)"; }
insert "old"
before=$(loaded)
[[ "$before" =~ ^[0-9]+$ ]] || failed "the server has not loaded the library: $before"
# A session that was there before, and one that comes after.
mkfifo "$work_dir/orders"
in_guest env --chdir=/ sudo -u postgres psql -X -q -v ON_ERROR_STOP=1 <"$work_dir/orders" >"$work_dir/answers" 2>&1 &
session=$!
exec 3>"$work_dir/orders"
echo "INSERT INTO seen (at) VALUES ('session, old');" >&3
in_guest apt-get install --yes -qq "./${deb##*/}" >/dev/null
# shellcheck disable=SC2016 # A field of dpkg's.
[ "$(in_guest dpkg-query -W -f '${Version}' "$package")" = "$(dpkg-deb --field "$deb" Version)" ] || failed "not upgraded"
echo "INSERT INTO seen (at) SELECT 'session, upgraded' FROM generate_series(1, 1000); SELECT * FROM snowflake_status;" >&3
exec 3>&-
wait "$session" || {
    cat "$work_dir/answers"
    failed "a session that went on over the upgrade"
}
insert "upgraded"
[ "$(loaded)" = "$before (deleted)" ] || failed "the running server has loaded the new library: $(loaded), was $before"
in_guest pg_ctlcluster "${cluster[@]}" restart
insert "new"
after=$(loaded)
[[ "$after" =~ ^[0-9]+$ && "$after" != "$before" ]] || failed "the restarted server runs the old library: $after, was $before"
ask -c "ALTER EXTENSION snowflake_id UPDATE" 2>/dev/null
[ "$(ask -c "SELECT count(*), count(DISTINCT id), bool_and(id > previous) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS previous FROM seen) AS s")" = "4001|4001|t" ] ||
    failed "IDs over the upgrade: $(ask -c "SELECT at, count(*) FROM seen GROUP BY at")"

say "removed under a server that runs"
in_guest apt-get remove --yes -qq "$package" >/dev/null
! insert "removed" 2>"$work_dir/answers" || failed "a new session makes IDs without the library"
grep -q 'could not access file "snowflake_id"' "$work_dir/answers" || failed "the error does not say what is missing"
in_guest apt-get install --yes -qq "./${deb##*/}" >/dev/null
insert "again"
in_guest apt-get remove --yes -qq "$package" >/dev/null
! in_guest pg_ctlcluster "${cluster[@]}" restart 2>/dev/null || failed "the server starts without the library"
grep -q 'could not access file "snowflake_id"' "$guest/var/log/postgresql/postgresql-$PG_MAJOR-main.log" ||
    failed "the log does not say what is missing"
in_guest rm "$conf_dir/snowflake_id.conf"
in_guest pg_ctlcluster "${cluster[@]}" start
[ "$(ask -c "SELECT count(*) FROM seen")" = 5001 ] || failed "rows are missing"
diff "$packed/before" <(files) || failed "something was left behind"

say "in an image of postgres:$PG_MAJOR, by the words of docs/packages.md"
as_root cp "$deb" "$guest/tmp"
run=$(sed -n 's/^RUN //p' docs/packages.md | sed "s/\b15\b/$PG_MAJOR/g")
[ -n "$run" ] || failed "docs/packages.md has no Dockerfile"
in_guest sh -euc "$run" >/dev/null
in_guest test -e "/usr/lib/postgresql/$PG_MAJOR/lib/snowflake_id.so" || failed "it is not installed"

say "by the words of docs/packages.md"
in_guest rm "${old##*/}"
ask -c "DROP EXTENSION snowflake_id CASCADE" -c "DROP TABLE orders" 2>/dev/null
type_commands docs/packages.md "## Debian and Ubuntu"
