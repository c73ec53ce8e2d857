#!/usr/bin/env bash
# Prints the crates that are linked into the library for a major version of PostgreSQL, each with its license and
# authors. Then prints the texts of the licenses, which must be distributed together with the library.
set -euo pipefail
cd "$(dirname "$0")/.."

major=$1

# Name, version, license and directory. The project's own crates have no source and are left out.
crates=$(
    export LC_ALL=C
    join -t '|' \
        <(cargo tree --quiet --locked --package snowflake_id --no-default-features --features "pg$major" \
            --edges normal,no-proc-macro --prefix none --format '{p}' | awk '{ print $1 "-" substr($2, 2) }' | sort -u) \
        <(cargo metadata --quiet --locked --format-version 1 | jq -r '.packages[] | select(.source != null)
            | [.name + "-" + .version, .license // "see the text", (.authors | join(", ")), .manifest_path] | join("|")' | sort)
)

cat <<END
Crates that are linked into snowflake_id
========================================

Where a crate offers several licences, any one of them will do. Texts that are equal stand here once. For the crates at the end,
which come without a text, those of the same licence hold.

END
while IFS='|' read -r crate licence authors manifest; do
    printf '%s: %s\n' "$crate" "$licence"
    # The authors in the crate's manifest, or else the copyright notices in its source.
    if [ -z "$authors" ]; then
        authors=$({ grep -rhioE --include='*.rs' 'copyright (\(c\) )?[0-9]{4}.*' "${manifest%/*}/src" || true; } |
            sort -u | paste -sd ';' | sed 's/;/; /g')
    fi
    if [ -n "$authors" ]; then
        printf '    %s\n' "$authors"
    fi
done <<<"$crates"

texts=$(mktemp -d)
trap 'rm -rf "$texts"' EXIT
while IFS='|' read -r crate licence _ manifest; do
    found=
    for text in "${manifest%/*}"/{LICENSE,LICENCE,COPYING,COPYRIGHT,NOTICE,UNLICENSE,license,copying}* ; do
        [ -f "$text" ] || continue
        found=1
        name=$(sha256sum <"$text")
        name=${name%% *}
        # Keep the order of the crates.
        if [ ! -e "$texts/$name" ]; then
            cp "$text" "$texts/$name"
            echo "$name" >>"$texts/order"
        fi
        echo "$crate" >>"$texts/$name.crates"
    done
    if [ -z "$found" ]; then
        echo "$crate ($licence)" >>"$texts/without"
    fi
done <<<"$crates"

while IFS= read -r name; do
    printf '\n\n%s\n' "$(paste -sd ' ' "$texts/$name.crates" | fold -s -w 110 | sed 's/ $//')"
    printf -- '----------------------------------------\n\n'
    tr -d '\r' <"$texts/$name"
done <"$texts/order"
if [ -e "$texts/without" ]; then
    printf '\n\nWithout a text of their own:\n'
    cat "$texts/without"
fi
