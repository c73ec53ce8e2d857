#!/usr/bin/env bash
# Makes dist/snowflake_id-VERSION.zip for PGXN: what is committed, and nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^    "version": "\(.*\)",$/\1/p' META.json)
name=snowflake_id-$version
mkdir -p dist
rm -f "dist/$name.zip"
git archive --format=zip --prefix="$name/" --output="dist/$name.zip" HEAD
echo "dist/$name.zip"
