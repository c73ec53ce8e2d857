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

if ! command -v dpkg-query >/dev/null; then
    echo "packages for Debian are made on Debian, or on a system that comes of it" >&2
    exit 1
fi
install_packages debhelper jq libpq-dev

version=${DEB_VERSION:-$(extension_version)-1}
maintainer="${DEBFULLNAME:-The developers of snowflake_id} <${DEBEMAIL:-snowflake_id@localhost}>"
deb_dir=$(realpath -m "${DEB_DIR:-target/deb}")
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(source_date_epoch)

# Keep paths of this machine out of the library, and ignore compiler flags of the user.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
commit=$(rustc --version --verbose | sed -n 's/^commit-hash: //p')
flags=(
    "--remap-path-prefix=$cargo_home=/usr/src/cargo"
    "--remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$commit"
    "--remap-path-prefix=$PWD=/usr/src/snowflake_id"
    "--remap-path-prefix=$deb_dir=/usr/src/snowflake_id/target/deb"
    "-Clink-arg=-Wl,--build-id=sha1" # dh_strip names the debug symbols after it.
)
unset RUSTFLAGS CARGO_INCREMENTAL
# shellcheck disable=SC2155 # printf does not fail.
export CARGO_ENCODED_RUSTFLAGS=$(printf '%s\037' "${flags[@]}" | sed 's/\x1f$//')
export CFLAGS="-g -O2 -ffile-prefix-map=$cargo_home=/usr/src/cargo -ffile-prefix-map=$deb_dir=/usr/src/snowflake_id/target/deb"
# Enough for a backtrace with line numbers, at a tenth of the size of full debug information.
export CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
export CARGO_TARGET_DIR=$deb_dir/build PACKAGE_DIR=$deb_dir/package
(
    unset DESTDIR
    scripts/build.sh
)
# shellcheck source=/dev/null
. target/environment

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

  * Release $(extension_version). The file changelog.gz beside this one says what is new.

 -- $maintainer  $(LC_ALL=C date --utc --date "@$SOURCE_DATE_EPOCH" -R)
END
cp README.md CHANGELOG.md "$stage"
scripts/crates.sh "$PG_MAJOR" >"$stage/crates.txt"
cp -R monitoring "$stage/monitoring"
rm "$stage/monitoring/alerts_test.yml"
# The alerts link to the runbooks of this package.
sed -i "s|/postgresql-15-snowflake-id/|/$package/|" "$stage/monitoring/alerts.yml"
# The pages of the book, with what they show and link to. Compilers may have left files beside them.
find docs -name target -prune -o \( -name '*.md' -o -name '*.svg' -o -name '*.csv' \) -exec cp --parents -t "$stage" {} +
printf '%s\n' README.md crates.txt docs monitoring >"$stage/debian/docs"

# Use Debian's directories, even if the PostgreSQL of PG_CONFIG has others.
while IFS= read -r file; do
    case $file in
        *.so) install -D -m 644 "$file" "$stage/root/usr/lib/postgresql/$PG_MAJOR/lib/${file##*/}" ;;
        *) install -D -m 644 "$file" "$stage/root/usr/share/postgresql/$PG_MAJOR/extension/${file##*/}" ;;
    esac
done < <(find "$PACKAGE_DIR/$PG_MAJOR" -type f)

# Everything is compiled now. The remaining steps must not depend on the user's settings.
quietly env --chdir "$stage" -u CFLAGS -u MAKEFLAGS -u MAKELEVEL LC_ALL=C.UTF-8 TZ=UTC debian/rules binary
echo "$deb_dir/${package}_${version}_$(dpkg --print-architecture).deb"
