#!/usr/bin/env bash
# Tests the Debian packages: that the build is reproducible, what the packages contain, and what lintian reports. Then
# piuparts installs, upgrades and purges them in a Debian system with PostgreSQL but without build dependencies, and
# looks for files left behind. In the same system, autopkgtest runs packaging/debian/tests.
#
#   scripts/test-deb.sh             on this release of Debian
#   scripts/test-deb.sh trixie      on Debian 13 with its own PostgreSQL 17; the package is built on this machine
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# shellcheck source=/dev/null
suite=${1:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
if [ "$suite" = trixie ]; then
    PG_CONFIG=$(env -u PG_CONFIG scripts/postgresql.sh 17)
    export PG_CONFIG
fi

install_packages autopkgtest binutils dpkg-dev iproute2 lintian mmdebstrap piuparts
# The packages built here are not for users: see scripts/test-packages.sh.
export DEB_DIR=$PWD/target/test-deb
deb=$(scripts/deb.sh)
# shellcheck source=/dev/null
. target/environment
package=postgresql-$PG_MAJOR-snowflake-id
symbols=${deb/$package/$package-dbgsym}

# The input of autopkgtest: the packages, and the files that the tests read.
tree=$DEB_DIR/tree
rm -rf "$tree"
mkdir -p "$tree/new" "$tree/old"
same_bytes() {
    cmp "$1/${deb##*/}" "$tree/new/${deb##*/}" || failed "the package differs when it is $2"
    cmp "$1/${symbols##*/}" "$tree/new/${symbols##*/}" || failed "the debug symbols differ when they are $2"
}

say "packing again, with other settings"
mv "$deb" "$symbols" "$tree/new"
(
    umask 077
    TZ=Pacific/Chatham LC_ALL=C scripts/deb.sh >/dev/null
)
same_bytes "$DEB_DIR" "packed again"

if [ -n "${FULL:-}" ]; then
    say "compiling again, in another directory"
    elsewhere=$PWD/target/test-deb-elsewhere/snowflake
    rm -rf "$elsewhere"
    mkdir -p "$elsewhere"
    in_clone ls-files -z | xargs -0 cp --parents --target-directory "$elsewhere"
    SNOWFLAKE_ID_VERSION=$(release_version) SOURCE_DATE_EPOCH=$(source_date_epoch) DEB_DIR=$elsewhere/target/deb "$elsewhere/scripts/deb.sh" >/dev/null
    same_bytes "$elsewhere/target/deb" "compiled elsewhere"
    rm -rf "${elsewhere%/*}"
fi

say "what is in the packages"
dpkg-deb --field "$deb" Package Version Architecture Depends
depends=", $(dpkg-deb --field "$deb" Depends),"
for wanted in "postgresql-$PG_MAJOR" libpq5 libc6; do
    [[ "$depends" == *", $wanted"[,\ ]* ]] || failed "it does not depend on $wanted"
done
# Ubuntu 22.04 and Red Hat Enterprise Linux 9 have these versions of the libraries, or later ones.
readonly oldest_glibc=2.34 oldest_libpq=13
needed=$(sed -nE 's/.*, libc6 \(>= ([^)]*)\),.*/\1/p' <<<"$depends")
dpkg --compare-versions "${needed:-0}" le "$oldest_glibc" || failed "it requires glibc $needed, later than $oldest_glibc"
needed=$(sed -nE 's/.*, libpq5 \(>= ([^)]*)\),.*/\1/p' <<<"$depends")
dpkg --compare-versions "${needed:-0}" le "$oldest_libpq" || failed "it requires libpq $needed, later than $oldest_libpq"
files=$DEB_DIR/files
rm -rf "$files"
dpkg-deb --extract "$deb" "$files"
diff - <(cd "$files" && find . -type f -printf '/%P\n' | LC_ALL=C sort) <<END || failed "these are not the files of the package"
/usr/lib/postgresql/$PG_MAJOR/lib/snowflake_id.so
/usr/share/doc/$package/README.md.gz
/usr/share/doc/$package/changelog.Debian.gz
/usr/share/doc/$package/changelog.gz
/usr/share/doc/$package/copyright
/usr/share/doc/$package/crates.txt.gz
$(in_clone ls-files 'docs/*.md' 'docs/*.svg' 'docs/*.csv' 'docs/*.txt' docs/examples ':!docs/design' | LC_ALL=C sort | sed "s|^|/usr/share/doc/$package/|")
$(cd target/book && find . -type f -printf "/usr/share/doc/$package/html/%P\n" | LC_ALL=C sort)
/usr/share/doc/$package/monitoring/alerts.yml
/usr/share/doc/$package/monitoring/dashboard.json
/usr/share/doc/$package/monitoring/postgres_exporter.yml
/usr/share/doc/$package/monitoring/postgres_exporter_registry.yml
/usr/share/postgresql/$PG_MAJOR/extension/snowflake_id--$(extension_version).sql
/usr/share/postgresql/$PG_MAJOR/extension/snowflake_id.control
/usr/share/postgresql/$PG_MAJOR/extension/snowflake_id_registry--$(extension_version).sql
/usr/share/postgresql/$PG_MAJOR/extension/snowflake_id_registry.control
END
runbooks=$(sed -n 's|.*runbook_url: "https://BOOK/\([^#]*\)#.*|\1|p' "$files/usr/share/doc/$package/monitoring/alerts.yml" | sort -u)
[ -s "$files/usr/share/doc/$package/html/$runbooks" ] || failed "the alerts link to a page that is not in the package: $runbooks"
library=$files/usr/lib/postgresql/$PG_MAJOR/lib/snowflake_id.so
build_id=$(readelf --notes "$library" | sed -n 's/.*Build ID: //p')
dpkg-deb --contents "$symbols" | grep >/dev/null "/usr/lib/debug/.build-id/${build_id:0:2}/${build_id:2}.debug" ||
    failed "the debug symbols are those of another library"
! readelf --sections "$library" | grep >/dev/null '\.debug_' || failed "the library has its debug symbols itself"
needed=$(objdump --dynamic-syms "$library" | grep -oP '\(GLIBC_\K[0-9.]+' | sort --version-sort | tail -n 1)
dpkg --compare-versions "$needed" le "$oldest_glibc" || failed "the library needs glibc $needed, later than $oldest_glibc"
for path in "$PWD" "${CARGO_HOME:-$HOME/.cargo}" "$(rustc --print sysroot)"; do
    ! grep -rF "$path" "$files" || failed "a path of this machine is in the package"
done
# Without DEBEMAIL, the maintainer has no real address. The packages are not uploads to Debian, so they close no bug
# there.
lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$deb" "$symbols" \
    --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs

mv "$(DEB_VERSION=0.0.9~test scripts/deb.sh)" "$tree/old"
rm "$DEB_DIR"/*.deb
deb=$tree/new/${deb##*/}
(cd "$tree/old" && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)

system=$PWD/target/guest/$suite-$PG_MAJOR.tar.gz
sources=$(debian_sources ${1:+"$1"})
if [ ! -e "$system" ]; then
    say "making a system: Debian's $suite with PostgreSQL $PG_MAJOR"
    mkdir -p "${system%/*}"
    # Use this machine's way to download packages there as well.
    apt-config dump | grep -iE '^Acquire::(http|https|ftp|Retries|Check|ForceIP)' >"$system.apt" || true
    quietly as_root mmdebstrap --variant=minbase --mode=root --include="postgresql-$PG_MAJOR,sudo" \
        --aptopt="$system.apt" "$suite" "$system.new.tar.gz" - <<<"$sources"
    mv -f "$system.new.tar.gz" "$system"
fi

say "piuparts: installed, removed, upgraded, purged"
# The ignored directory is debconf's, on Debian 13.
as_root piuparts --basetgz="$system" --mirror="$(awk -v suite="$suite" '$4 == suite { print $3, $5; exit }' <<<"$sources")" \
    --distribution="$suite" --bindmount="$tree/old" --extra-repo="deb [trusted=yes] file://$tree/old ./" \
    --install-remove-install --log-level=info --ignore-regex="^/var/cache/debconf/tmp[.]ci" "$deb" >"$DEB_DIR/piuparts.log" 2>&1 || {
    cat "$DEB_DIR/piuparts.log"
    failed "piuparts"
}
grep "PASS: Installation, upgrade and purging tests" "$DEB_DIR/piuparts.log" || failed "piuparts did not test the upgrade"

say "autopkgtest: packaging/debian/tests"
mkdir "$tree/debian"
cp -R packaging/debian/tests "$tree/debian"
cp --parents README.md docs/run/install.md docs/start/two-servers.md scripts/installcheck.sh "$tree"
cp -R --parents tests/regress "$tree"
pgxs=lib/postgresql/$PG_MAJOR/lib/pgxs/src/test/regress
pg_regress=$("$PG_CONFIG" --pkglibdir)/pgxs/src/test/regress/pg_regress
if [ "$suite" = trixie ]; then
    pg_regress=$("$PG_CONFIG" --bindir)/elf/pg_regress # The program itself: see scripts/postgresql.sh.
fi

. scripts/throwaway.sh
guest=$work_dir/guest
mkdir "$guest"
chmod 755 "$work_dir" "$guest"
as_root tar --extract --file "$system" --directory "$guest" --numeric-owner
# sudo looks up the name of the host.
echo "127.0.0.1 localhost $(hostname)" | as_root tee "$guest/etc/hosts" >/dev/null
# The guest has only the loopback network, and all its processes end with the first one.
# Expanded in the guest.
as_root unshare --net --ipc --mount --pid --fork --kill-child --mount-proc bash -euc '
    ip link set lo up
    mount --rbind /dev "$1/dev"
    mount -t proc proc "$1/proc"
    guest=$1
    shift
    exec autopkgtest "$@" -- chroot "$guest"' - "$guest" \
    --copy="$pg_regress:/usr/$pgxs/pg_regress" "$tree"
