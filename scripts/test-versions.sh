#!/usr/bin/env bash
# Runs the tests on several major versions of PostgreSQL: the given ones, or all. PART selects a part of the tests, which
# is an argument of scripts/test.sh: sql, servers or brief. Without it, all tests run on version 15, and the tests that
# may depend on the version on the others. Version 19 is skipped if it cannot be had, because it is not released yet.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# pg_upgrade needs two installations, because the programs of one version cannot start servers of another. Prints the
# version from which a version is upgraded.
upgraded_from() {
    case $1 in
        17 | 18) echo 16 ;;
        19) echo 18 ;;
    esac
}

if [ $# -eq 0 ]; then
    set -- 15 16 17 18 19
fi
tested=()
for major in "$@"; do
    start=$SECONDS
    status=0
    pg_config=$(scripts/postgresql.sh "$major") || status=$?
    if [ "$status" -ne 0 ]; then
        may_skip=${ALLOW_SKIP:-}
        if [ "$major" = 19 ] && [ "$status" -eq 3 ]; then
            may_skip=1
            echo "PostgreSQL 19 was not tested: it cannot be had" >>target/not-tested
        fi
        ALLOW_SKIP=$may_skip skip "PostgreSQL $major: it cannot be had"
        continue
    fi
    (
        export PG_CONFIG=$pg_config
        if [ "$major" = 15 ]; then
            # With the build that users get.
            exec scripts/test.sh "${PART:-all}"
        fi
        # Optimizing across all crates takes minutes, and does not depend on the version.
        export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
        former=$(upgraded_from "$major")
        if [ -n "$former" ] && [ "${PART:-}" != sql ]; then
            SNOWFLAKE_ID_SECOND_PG_CONFIG=$(scripts/postgresql.sh "$former")
            export SNOWFLAKE_ID_SECOND_PG_CONFIG
            PG_CONFIG=$SNOWFLAKE_ID_SECOND_PG_CONFIG scripts/install.sh
        fi
        scripts/test.sh "${PART:-versions}"
        scripts/sql.sh --check # The script is the same for all versions.
    )
    tested+=("$major")
    echo "It took $((SECONDS - start)) s."
done

echo
echo "Tested on PostgreSQL: ${tested[*]:-none}. Versions skipped: $skips."
[ ${#tested[@]} -gt 0 ] || [ "$*" = 19 ]
