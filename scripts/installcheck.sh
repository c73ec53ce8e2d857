#!/usr/bin/env bash
# The SQL tests against a server that is running, as "make installcheck" does for other extensions: on this machine or not, by
# PGHOST, PGPORT and PGUSER. They make a database "regression" anew, and need the settings of tests/regress/regress.conf. Restart
# the server before another run: the layouts of the last one keep their places until then. SCHEDULE names another choice of tests.
set -euo pipefail
cd "$(dirname "$0")/.."

PG_CONFIG=${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}
bin_dir=$("$PG_CONFIG" --bindir)
ask() { "$bin_dir/psql" -X -q -A -t -v ON_ERROR_STOP=1 -d postgres -c "$1"; }

ask "SELECT 1" >/dev/null
wrong=
while IFS='= ' read -r name value; do
    case $name in
        shared_preload_libraries | snowflake_id.*)
            is=$(ask "SELECT current_setting('$name', true)")
            wanted=${value//\'/}
            [[ ", $is," == *" $wanted,"* ]] || wrong+="    $name = $value"$'\n'
            ;;
    esac
done <tests/regress/regress.conf
if [ -n "$wrong" ]; then
    printf 'The tests need a server with these settings, and a restart:\n%s' "$wrong" >&2
    exit 1
fi

# The keeper is connected to that database, which pg_regress is going to drop.
ask "DROP DATABASE IF EXISTS regression WITH (FORCE)"
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
if "$("$PG_CONFIG" --pkglibdir)/pgxs/src/test/regress/pg_regress" --bindir="$bin_dir" --inputdir=tests/regress \
    --outputdir="$results" --schedule="${SCHEDULE:-tests/regress/schedule}" \
    --no-locale --encoding=UTF8; then
    exit
fi
cat "$results/regression.diffs"
exit 1
