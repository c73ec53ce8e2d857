#!/usr/bin/env bash
# Tests on several major versions of PostgreSQL: those that are named, or all. With BRIEF=1 only what "scripts/test.sh brief"
# runs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# Programs of one version cannot start the other's servers: pg_upgrade takes both. This is the older one for 17 and 18.
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
            # The version that is tested in full, and with the build that users get.
            scripts/test.sh ${tests:+"$tests"}
        else
            # Optimisation over all crates takes minutes, and does not depend on the version.
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
