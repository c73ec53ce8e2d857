#!/usr/bin/env bash
# Tests that other projects can use the crates. snowflake-id-core and snowflake-id-client are packed and compiled as on
# crates.io, and a project gets the client by git, with the lines of docs/apps/rust.md.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
quietly in_clone clone --quiet "file://$PWD" "$tree/snowflake_id"
export CARGO_TARGET_DIR=$PWD/target/crates
quietly cargo package --locked --manifest-path "$tree/snowflake_id/Cargo.toml" -p snowflake-id-core -p snowflake-id-client

# The first block of code that begins with a line.
block() { sed -n "/^\`\`\`$1$/,/^\`\`\`$/{/^\`\`\`$/q;/^\`\`\`/!p}" docs/apps/rust.md; }
mkdir -p "$tree/program/src"
{
    printf '[package]\nname = "program"\nedition = "2024"\n\n'
    block toml | sed -E "s|git = \"[^\"]*\", rev = \"[^\"]*\"|git = \"file://$tree/snowflake_id\"|"
} >"$tree/program/Cargo.toml"
block rust,no_run >"$tree/program/src/main.rs"
cp Cargo.lock "$tree/program"
quietly cargo check --manifest-path "$tree/program/Cargo.toml"
# It compiles no ciphers, because it masks no IDs.
crates=$(cargo tree --quiet --manifest-path "$tree/program/Cargo.toml" --edges normal --prefix none --format '{p}')
grep -q '^snowflake-id-core ' <<<"$crates" || failed "the program does not use the core"
if grep -E '^(aes|cast5|cmac|data-encoding|fpe) ' <<<"$crates"; then
    failed "the program compiles crates of features that it does not use"
fi
