#!/usr/bin/env bash
# Builds the book of docs/ into target/book, and checks its links.
#
# mdBook is installed below target/tools. Neither building nor reading the book needs a network.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

readonly version=0.5.4
readonly mdbook=target/tools/bin/mdbook book=target/book

if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
    say "installing mdBook $version"
    # Beside the crates of the extension, which need other features of the same dependencies.
    quietly env CARGO_TARGET_DIR=target/mdbook cargo install --root target/tools --locked \
        --no-default-features --features search --version "=$version" mdbook
fi
if ! command -v python3 >/dev/null; then
    install_packages python3-minimal
fi

"$mdbook" build docs
# mdBook copies all that is no page.
find "$book" \( -name '*.rs' -o -name '*.toml' -o -name 'Cargo.lock' -o -name '.gitignore' \) -delete
find "$book" -type d -empty -delete
scripts/book_check.py "$book"
say "the book: $book/index.html"
