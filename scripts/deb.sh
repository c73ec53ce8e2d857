#!/usr/bin/env bash
# Builds the Debian packages for the PostgreSQL of PG_CONFIG, and prints the path of the first one:
#
#   target/deb/postgresql-NN-snowflake-id_VERSION_ARCH.deb
#   target/deb/postgresql-NN-snowflake-id-dbgsym_VERSION_ARCH.deb     debug symbols
#
# The build is reproducible: the same commit, compilers and libraries give identical files, in any directory.
# DEB_VERSION overrides the version, DEB_DIR the directory target/deb, and DEBFULLNAME and DEBEMAIL the maintainer.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/release.sh

if ! command -v dpkg-query >/dev/null; then
    echo "packages for Debian are made on Debian, or on a system that comes of it" >&2
    exit 1
fi
install_packages debhelper jq libpq-dev

release=$(release_version)
version=${DEB_VERSION:-${release/-/\~}-1} # A candidate sorts before its release.
maintainer="${DEBFULLNAME:-The developers of snowflake_id} <${DEBEMAIL:-snowflake_id@localhost}>"
deb_dir=$(realpath -m "${DEB_DIR:-target/deb}")
build_release "$deb_dir"

package=postgresql-$PG_MAJOR-snowflake-id
say "packing $package $version"
stage=$deb_dir/$package
rm -rf "$stage" "$deb_dir/$package"_* "$deb_dir/$package"-dbgsym_*
mkdir -p "$stage"
cp -R packaging/debian "$stage/debian"
sed -e "s/@MAJOR@/$PG_MAJOR/g" -e "s/@MAINTAINER@/$maintainer/" "$stage/debian/control.in" >"$stage/debian/control"
rm "$stage/debian/control.in"
cat >"$stage/debian/changelog" <<END
snowflake-id ($version) unstable; urgency=medium

  * Release $release.
    The file changelog.gz beside this one says what is new.

 -- $maintainer  $(LC_ALL=C date --utc --date "@$SOURCE_DATE_EPOCH" -R)
END
collect_docs "$stage"
printf '%s\n' README.md crates.txt docs html monitoring >"$stage/debian/docs"
# Debian's directories, even if the PostgreSQL of PG_CONFIG has others.
install_release "$stage/root" "/usr/lib/postgresql/$PG_MAJOR/lib" "/usr/share/postgresql/$PG_MAJOR/extension"

# Everything is compiled now. The remaining steps must not depend on the user's settings.
quietly env --chdir "$stage" -u CFLAGS -u MAKEFLAGS -u MAKELEVEL LC_ALL=C.UTF-8 TZ=UTC debian/rules binary
echo "$deb_dir/${package}_${version}_$(dpkg --print-architecture).deb"
