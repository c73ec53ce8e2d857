#!/usr/bin/env bash
# Tests the RPM package: what it contains and requires, what rpmlint reports, that it has the files of the Debian
# package, and that rpm installs and removes it. No system of Red Hat is needed, so the test does not show that the
# library runs there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# With the PostgreSQL and the directory of scripts/test-deb.sh, so that the library is compiled once.
export DEB_DIR=$PWD/target/test-deb RELEASE_DIR=$PWD/target/test-deb RPM_DIR=$PWD/target/test-rpm
PG_CONFIG=$(env -u PG_CONFIG scripts/postgresql.sh 17)
export PG_CONFIG
install_packages binutils cpio rpm rpm2cpio rpmlint
deb=$(scripts/deb.sh)
rpm=$(scripts/rpm.sh)
name=snowflake_id_17 prefix=/usr/pgsql-17
version=$(release_version)
query() { rpm --query --package "$@" "$rpm"; }

say "packing again, with other settings"
before=$(sha256sum "$rpm")
(
    umask 077
    TZ=Pacific/Chatham LC_ALL=C scripts/rpm.sh >/dev/null
)
[ "$(sha256sum "$rpm")" = "$before" ] || failed "the package differs when it is packed again"

say "what is in the package"
# These are fields of rpm.
query --queryformat '%{NAME} %{VERSION} %{LICENSE} %{ARCH}\n' | tee /dev/stderr |
    grep >/dev/null -x "$name ${version/-/\~} PostgreSQL $(uname -m)" || failed "the fields of the package"
# Directories that only this package has belong to it, so that they are removed with it.
diff - <(query --queryformat '[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\n]' |
    sed '/^d.* \/usr\/share\/doc\//d' | LC_ALL=C sort -k 4) <<END || failed "these are not the files of the package"
-rwxr-xr-x root root $prefix/lib/snowflake_id.so
-rw-r--r-- root root $prefix/share/extension/snowflake_id--$(extension_version).sql
-rw-r--r-- root root $prefix/share/extension/snowflake_id.control
-rw-r--r-- root root $prefix/share/extension/snowflake_id_registry--$(extension_version).sql
-rw-r--r-- root root $prefix/share/extension/snowflake_id_registry.control
-rw-r--r-- root root /usr/share/doc/$name/CHANGELOG.md
-rw-r--r-- root root /usr/share/doc/$name/README.md
-rw-r--r-- root root /usr/share/doc/$name/crates.txt
$(in_clone ls-files 'docs/*.md' 'docs/*.svg' 'docs/*.csv' 'docs/*.txt' docs/examples ':!docs/design' | LC_ALL=C sort |
        sed "s|^|-rw-r--r-- root root /usr/share/doc/$name/|")
$(cd target/book && find . -type f -printf "-rw-r--r-- root root /usr/share/doc/$name/html/%P\n" | LC_ALL=C sort)
-rw-r--r-- root root /usr/share/doc/$name/monitoring/alerts.yml
-rw-r--r-- root root /usr/share/doc/$name/monitoring/dashboard.json
-rw-r--r-- root root /usr/share/doc/$name/monitoring/postgres_exporter.yml
-rw-r--r-- root root /usr/share/doc/$name/monitoring/postgres_exporter_registry.yml
drwxr-xr-x root root /usr/share/licenses/$name
-rw-r--r-- root root /usr/share/licenses/$name/LICENSE
END
[ -z "$(query --scripts --triggers)" ] || failed "the package runs scripts: $(query --scripts --triggers)"
query --provides | sed 's/[ (].*//' | sort -u | diff <(echo "$name") - || failed "the package provides these"
requires=$(query --requires)
for wanted in postgresql17-server "libpq.so.5()(64bit)" "libc.so.6(GLIBC_2.34)(64bit)"; do
    grep >/dev/null -Fx "$wanted" <<<"$requires" || failed "it does not require $wanted"
done
# Red Hat Enterprise Linux 9 has glibc 2.34.
newest=$(grep -oP 'GLIBC_\K[0-9.]+' <<<"$requires" | sort --version-sort | tail -n 1)
dpkg --compare-versions "$newest" le 2.34 || failed "it requires glibc $newest"
rpmlint --strict --rpmlintrc packaging/rpm/rpmlintrc packaging/rpm/snowflake_id.spec "$rpm"

say "the same files as in the Debian package"
rm -rf "$RPM_DIR/files" "$RPM_DIR/deb"
mkdir "$RPM_DIR/files"
rpm2cpio "$rpm" | cpio --extract --quiet --make-directories --directory "$RPM_DIR/files"
dpkg-deb --extract "$deb" "$RPM_DIR/deb"
diff -r "$RPM_DIR/files$prefix/share/extension" "$RPM_DIR/deb/usr/share/postgresql/17/extension"
for documents in docs html; do
    diff -r "$RPM_DIR/files/usr/share/doc/$name/$documents" "$RPM_DIR/deb/usr/share/doc/postgresql-17-snowflake-id/$documents"
done
library=$RPM_DIR/files$prefix/lib/snowflake_id.so
build_id() { readelf --notes "$1" | sed -n 's/.*Build ID: //p' | grep .; }
[ "$(build_id "$library")" = "$(build_id "$RPM_DIR/deb/usr/lib/postgresql/17/lib/snowflake_id.so")" ] || failed "it is another library"
! readelf --sections "$library" | grep >/dev/null '\.debug_' || failed "the library has debug symbols"
runbooks=$(sed -n 's|.*runbook_url: "https://BOOK/\([^#]*\)#.*|\1|p' "$RPM_DIR/files/usr/share/doc/$name/monitoring/alerts.yml" | sort -u)
[ -s "$RPM_DIR/files/usr/share/doc/$name/html/$runbooks" ] || failed "the alerts link to a page that is not in the package: $runbooks"
for path in "$PWD" "${CARGO_HOME:-$HOME/.cargo}" "$(rustc --print sysroot)"; do
    ! grep -rF "$path" "$RPM_DIR/files" || failed "a path of this machine is in the package"
done

say "installed and removed by rpm, in an empty directory"
root=$RPM_DIR/root
rm -rf "$root"
mkdir -p "$root/usr"
in_root() { as_root rpm --root "$root" "$@"; }
in_root --initdb
in_root --install --nodeps "$rpm"
in_root --verify --nodeps "$name"
in_root --erase "$name"
left=$(find "$root/usr" -type f -o -name "$name")
[ -z "$left" ] || failed "files are left: $left"
as_root rm -rf "$root" "$RPM_DIR/files" "$RPM_DIR/deb"
