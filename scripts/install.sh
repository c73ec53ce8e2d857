#!/usr/bin/env bash
# Installs the files that scripts/build.sh has built for the PostgreSQL of PG_CONFIG, below DESTDIR if that is set.
# Builds them first if they are missing or older than the sources. So the user who runs "make install" after "make"
# needs no compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

pg_config=$(realpath -e "$(command -v "${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}")" 2>/dev/null) || pg_config=
package=
if [ -n "$pg_config" ]; then
    major=$("$pg_config" --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/')
    package=$PWD/target/package/$major
fi
# If the files were built for another installation of the same version, they are below other directories.
if [ -z "$package" ] || [ ! -d "$package$("$pg_config" --pkglibdir)" ] ||
    [ -n "$(find build.rs Cargo.toml Cargo.lock snowflake_id.control src core sql -newer "$package.begun" -type f -print -quit)" ]; then
    scripts/build.sh
    # shellcheck source=/dev/null
    . target/environment
    pg_config=$PG_CONFIG package=$PWD/target/package/$PG_MAJOR
fi

# A running server has the old library mapped. install(1) creates a new file and leaves the old one intact.
as=()
if [ -z "${DESTDIR:-}" ] && [ ! -w "$("$pg_config" --pkglibdir)" ]; then
    as=(sudo)
fi
while IFS= read -r file; do
    case $file in *.so) mode=755 ;; *) mode=644 ;; esac
    "${as[@]}" install -D -m "$mode" "$package$file" "${DESTDIR:-}$file"
done < <(cd "$package" && find . -type f | sed 's/^\.//')
# As the update of a package does, remove the scripts of versions that this one does not have, such as candidates: no
# database could be updated from them.
extensions=$(cd "$package" && dirname "$(find . -name snowflake_id.control | sed 's/^\.//')")
for file in "${DESTDIR:-}$extensions"/snowflake_id{,_registry}--*.sql; do
    if [ -e "$file" ] && [ ! -e "$package$extensions/${file##*/}" ]; then
        "${as[@]}" rm "$file"
    fi
done
