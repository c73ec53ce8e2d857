#!/usr/bin/env bash
# Compiles the extension for PostgreSQL 19, which it does not support yet. This is done in a copy of the sources, with a newer
# pgrx. Its declarations of version 19 are enough to compile: no server is needed. It asks for a newer Rust, but does with ours.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly pgrx_version=0.19.3
# What that pgrx uses and our Cargo.lock does not have. All other packages are those of Cargo.lock.
readonly additions=(thiserror@2.0.21 thiserror-impl@2.0.21 toml@1.2.1+spec-1.1.0 toml_datetime@1.1.3+spec-1.1.0)

readonly copy=target/check-19
rm -rf "$copy"/{core,sql,src}
mkdir -p "$copy"
cp -R Cargo.toml Cargo.lock core sql src snowflake_id.control "$copy"
sed -i -e "/^pgrx = /s/=[0-9.]\+/=$pgrx_version/" -e 's/^pg18 = .*/&\npg19 = ["pgrx\/pg19"]/' \
    -e 's/^members = .*/members = ["core"]/' "$copy/Cargo.toml"

cargo() { command cargo "$1" --quiet --manifest-path "$copy/Cargo.toml" "${@:2}"; }
cargo update pgrx --precise "$pgrx_version"
for package in "${additions[@]}"; do
    version=${package#*@}
    cargo update "${package%@*}@${version%%.*}" --precise "$version"
done
packages() { sed -n '/^name = /{N;s/^name = "\(.*\)"\nversion = "\(.*\)"$/\1@\2/p}' "$1" | grep -v ^pgrx | sort; }
if ! diff <(printf '%s\n' "${additions[@]}" | sort) <(comm -13 <(packages Cargo.lock) <(packages "$copy/Cargo.lock")); then
    echo "pgrx $pgrx_version uses other packages than this script lists as additions: change the list" >&2
    exit 1
fi

# DOCS_RS has pgrx take the declarations that it brings instead of making them from the headers of a server.
# The macros of our pgrx need imports that those of the newer one do not.
DOCS_RS=1 RUSTFLAGS="--allow unused_imports" cargo check --locked --ignore-rust-version --target-dir "$copy/target" \
    -p snowflake_id --no-default-features --features pg19
echo "The extension compiles for PostgreSQL 19, with pgrx $pgrx_version."
