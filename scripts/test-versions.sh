#!/usr/bin/env bash
# Runs the tests on several major versions of PostgreSQL: the given ones, or all. With BRIEF=1, runs only the tests of
# "scripts/test.sh brief".
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# pg_upgrade needs two installations, because the programs of one version cannot start servers of another. Versions 17
# and 18 are upgraded from this one.
readonly upgraded_from=16

if [ $# -eq 0 ]; then
    set -- 15 16 17 18
fi
tests=${BRIEF:+brief}
tested=()
for major in "$@"; do
    start=$SECONDS
    if ! pg_config=$(scripts/postgresql.sh "$major"); then
        skip "PostgreSQL $major: it cannot be had"
        continue
    fi
    (
        export PG_CONFIG=$pg_config
        if [ "$major" -gt "$upgraded_from" ] && [[ " ${tested[*]} " == *" $upgraded_from "* ]]; then
            SNOWFLAKE_ID_SECOND_PG_CONFIG=$(scripts/postgresql.sh "$upgraded_from")
            export SNOWFLAKE_ID_SECOND_PG_CONFIG
        fi
        if [ "$major" = 15 ]; then
            # This version runs all tests, with the build that users get.
            scripts/test.sh ${tests:+"$tests"}
        else
            # Optimizing across all crates takes minutes, and does not depend on the version.
            export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
            scripts/test.sh "${tests:-versions}"
        fi
        scripts/sql.sh --check # The script is the same for all versions.
    )
    tested+=("$major")
    echo "It took $((SECONDS - start)) s."
done

echo
echo "Tested on PostgreSQL: ${tested[*]:-none}. Versions skipped: $skips."
[ ${#tested[@]} -gt 0 ]
