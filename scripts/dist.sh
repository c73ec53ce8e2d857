#!/usr/bin/env bash
# Builds dist/snowflake_id-VERSION.zip for PGXN, from the committed files only. The archive has one more file, which tells
# scripts/packages.sh the version of the build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

name=snowflake_id-$(extension_version)
mkdir -p dist
rm -f "dist/$name.zip"
version=$(release_version)
in_clone archive --format=zip --add-virtual-file="$name/packaging/version:${version%[.+]dirty}" --prefix="$name/" \
    --output="dist/$name.zip" HEAD
echo "dist/$name.zip"
