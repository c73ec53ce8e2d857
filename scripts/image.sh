#!/usr/bin/env bash
# Builds an extension image, which CloudNativePG mounts into PostgreSQL 18 or later, and prints the path of its
# archive:
#
#   target/image/snowflake-id-VERSION-NN-DISTRIBUTION-ARCH.tar     an OCI image layout, for "skopeo copy oci-archive:.."
#
# The image contains the files of the Debian package, in the directories /lib, /share/extension and /licenses. The
# build needs no daemon, and is reproducible: the same commit, compilers and libraries give identical files. IMAGE_DIR
# overrides the directory target/image.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# Earlier versions look for control files in a single directory.
readonly first_major=18

PG_CONFIG=${PG_CONFIG:-$(scripts/postgresql.sh $first_major)}
export PG_CONFIG
major=$("$PG_CONFIG" --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/')
if [ "$major" -lt "$first_major" ]; then
    echo "extension images are for PostgreSQL $first_major and later, and PG_CONFIG is that of $major" >&2
    exit 1
fi
deb=$(scripts/deb.sh)
install_packages umoci

image_dir=$(realpath -m "${IMAGE_DIR:-target/image}")
architecture=$(dpkg --print-architecture)
release=$(release_version)
# shellcheck source=/dev/null
name=snowflake-id-${release/+/_}-$major-$(. /etc/os-release && echo "$VERSION_CODENAME")
SOURCE_DATE_EPOCH=$(source_date_epoch)
instant=$(date --utc --date "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

say "making the image $name for $architecture"
archive=$image_dir/$name-$architecture.tar
files=$image_dir/files root=$image_dir/root layout=$image_dir/layout
rm -rf "$archive" "$files" "$root" "$layout"
mkdir -p "$image_dir"
dpkg-deb --extract "$deb" "$files"
mkdir -p "$root/share" "$root/licenses"
cp -R "$files/usr/lib/postgresql/$major/lib" "$root/lib"
cp -R "$files/usr/share/postgresql/$major/extension" "$root/share/extension"
licenses=$root/licenses/postgresql-$major-snowflake-id
mkdir -p "$licenses"
cp "$files/usr/share/doc/postgresql-$major-snowflake-id/copyright" "$licenses"
gzip --decompress --stdout "$files/usr/share/doc/postgresql-$major-snowflake-id/crates.txt.gz" >"$licenses/crates.txt"
chmod -R u=rwX,go=rX "$root"
find "$root" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +

umoci init --layout "$layout"
umoci new --image "$layout:$name"
umoci config --image "$layout:$name" --no-history --os linux --architecture "$architecture" --created "$instant" \
    --config.user 65532:65532 \
    --config.label org.opencontainers.image.title=snowflake_id \
    --config.label org.opencontainers.image.description="64-bit IDs for a fleet of PostgreSQL $major servers" \
    --config.label org.opencontainers.image.version="$release" \
    --config.label org.opencontainers.image.licenses=PostgreSQL \
    --config.label org.opencontainers.image.created="$instant"
umoci insert --image "$layout:$name" --uid-map "0:$(id -u):1" --gid-map "0:$(id -g):1" --history.created "$instant" \
    --history.created_by scripts/image.sh "$root" /
umoci gc --layout "$layout"

tar --create --file "$archive" --directory "$layout" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX --mtime "@$SOURCE_DATE_EPOCH" .
rm -rf "$files" "$root" "$layout"
echo "$archive"
