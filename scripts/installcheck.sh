#!/usr/bin/env bash
# Runs the SQL tests on a running server, as "make installcheck" does for other extensions. PGHOST, PGPORT and PGUSER
# select the server, which may be on another machine. The tests drop and create a database "regression", and need the
# settings of tests/regress/regress.conf. Restart the server before you run them again: until then, the layouts of the
# last run keep their slots. SCHEDULE selects another schedule of tests.
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

# The keeper is connected to this database, and pg_regress would fail to drop it.
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
