#!/usr/bin/env bash
# Builds dist/snowflake_id-VERSION.zip for PGXN, from the committed files only.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

name=snowflake_id-$(extension_version)
mkdir -p dist
rm -f "dist/$name.zip"
in_clone archive --format=zip --prefix="$name/" --output="dist/$name.zip" HEAD
echo "dist/$name.zip"
