#!/usr/bin/env bash
# Compiles the core for 64-bit ARM and runs its tests in an emulator: the unit tests, the properties, the tests with
# threads, and the tests with the model checker. The extension is compiled and linked, and does not run.
#
# The emulator runs on x86_64, and an emulated program sees the memory order of x86_64. The tests therefore check the
# code that the compiler makes for ARM, but not every order of accesses that an ARM processor allows. The model checker
# covers these orders on any processor.
#
# Debian has the standard library for ARM only for its own compiler, so this compiler is unpacked below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

[ "$(uname -m)" = x86_64 ] || failed "this test is for x86_64: on ARM, run \"make test\""
need qemu-aarch64=qemu-user aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu
install_packages libc6-dev-arm64-cross libclang-dev postgresql-server-dev-15

rust=$PWD/target/rust-arm64
unpack_from_suite "$rust" "trixie trixie-backports" rustc libstd-rust-dev libstd-rust-dev:arm64
libraries=$rust/root/usr/lib/x86_64-linux-gnu
[ -e "$libraries/ld.so" ] || run_with_libraries "$rust/root/usr/bin/rustc" "$libraries"

export RUSTC=$rust/root/usr/bin/rustc CARGO_TARGET_DIR=$PWD/target/arm64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
# Debug information is not needed, and takes time.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0
test_core() { cargo test --quiet --locked --target aarch64-unknown-linux-gnu -p snowflake-id-core "$@"; }

say "core for aarch64, with $("$RUSTC" --version): unit tests, properties, threads"
test_core --lib --tests
say "core for aarch64: interleavings (loom)"
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/arm64-loom test_core --release --test loom --test loom_marks

# The server's headers and the libraries to link with are those for ARM. pg_config runs on this machine.
postgresql=$PWD/target/postgresql-arm64
# shellcheck source=/dev/null
unpack_from_suite "$postgresql" "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
    libpq5:arm64 libpq-dev:arm64 postgresql-server-dev-15:arm64
cat >"$postgresql/pg_config" <<END
#!/bin/sh
/usr/lib/postgresql/15/bin/pg_config "\$@" | sed "s|/usr/include|$postgresql/root&|g"
END
chmod 755 "$postgresql/pg_config"
export PGRX_PG_CONFIG_PATH=$postgresql/pg_config
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-Lnative=$postgresql/root/usr/lib/aarch64-linux-gnu"
export BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu="-isystem /usr/aarch64-linux-gnu/include"
say "extension for aarch64: compiled and linked"
cargo_with_pgrx build --quiet --locked --target aarch64-unknown-linux-gnu -p snowflake_id --no-default-features --features pg15

# Make sure that the programs were not those of this machine.
built=target/arm64/aarch64-unknown-linux-gnu/debug
for program in "$(find $built/deps -name 'threads-*' -executable -type f | head -n 1)" $built/libsnowflake_id.so; do
    readelf --file-header "$program" | grep "Machine: *AArch64" || failed "$program is not for ARM"
done
