#!/usr/bin/env bash
# Installs what the programs of docs/apps need below target/clients, in the versions that tests/clients
# pins. Called by scripts/test.sh, which then runs the programs. Writes the languages that it could install to
# target/clients/languages.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

readonly clients=target/clients
mkdir -p "$clients"
cp -Rp tests/clients/. "$clients"

# The tests of tools need only what PostgreSQL contains.
languages=(tools)
readarray -t python_packages <tests/clients/python/requirements.txt
if install_python clients/venv "${python_packages[@]}" && install_packages jq; then
    languages+=(python)
else
    skip "Python: what tests/clients/python/requirements.txt names, or jq, cannot be installed"
fi
if install_node "$clients/javascript"; then
    languages+=(javascript)
else
    skip "Node.js: what tests/clients/javascript/package-lock.json names cannot be installed, or npm is missing"
fi
if CARGO_TARGET_DIR=$clients/rust/target quietly cargo build --locked --manifest-path "$clients/rust/Cargo.toml"; then
    languages+=(rust)
else
    skip "Rust: tests/clients/rust cannot be built"
fi
compile_java() { (cd "$clients/java" && javac @classpath -d classes ./*.java); }
if install_packages default-jdk-headless libpostgresql-jdbc-java libspring-jdbc-java libhibernate3-java libeclipselink-java \
    libslf4j-java libjavassist-java && compile_java; then
    languages+=(java)
else
    skip "Java: its Debian packages cannot be installed"
fi
if install_packages golang-go golang-github-jackc-pgx-v4-dev \
    ruby-activerecord ruby-pg ruby-sequel php-cli php-pgsql php-doctrine-orm php-symfony-cache; then
    languages+=(other)
else
    skip "Go, Ruby and PHP: their Debian packages cannot be installed"
fi
printf '%s\n' "${languages[@]}" >"$clients/languages"
