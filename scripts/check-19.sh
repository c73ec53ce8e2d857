#!/usr/bin/env bash
# Compiles the extension for PostgreSQL 19, which is not supported yet. Uses a copy of the sources and a newer pgrx.
# No server is needed, because that pgrx contains the declarations of version 19. It requests a newer Rust, but
# compiles with the installed one.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly pgrx_version=0.19.3
# Packages that this pgrx needs and our Cargo.lock lacks. All other packages have the versions in Cargo.lock.
readonly additions=(thiserror@2.0.21 thiserror-impl@2.0.21 toml@1.2.1+spec-1.1.0 toml_datetime@1.1.3+spec-1.1.0)

readonly copy=target/check-19
rm -rf "$copy"/{core,sql,src}
mkdir -p "$copy"
cp -R Cargo.toml Cargo.lock build.rs core sql src snowflake_id.control "$copy"
sed -i -e "/^pgrx = /s/=[0-9.]\+/=$pgrx_version/" -e 's/^pg18 = .*/&\npg19 = ["pgrx\/pg19"]/' \
    -e 's/^members = .*/members = ["core"]/' -e '/^default-members = /d' "$copy/Cargo.toml"

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

# With DOCS_RS, pgrx uses the declarations that it contains, and does not generate them from the headers of a server.
# The macros of the current pgrx need imports that those of the newer pgrx do not need.
DOCS_RS=1 RUSTFLAGS="--allow unused_imports" cargo check --locked --ignore-rust-version --target-dir "$copy/target" \
    -p snowflake_id --no-default-features --features pg19
echo "The extension compiles for PostgreSQL 19, with pgrx $pgrx_version."
