#!/usr/bin/env bash
# Tests the files of monitoring/. promtool checks and tests the alerts. Then postgres_exporter and Prometheus watch
# the servers of a fleet, and every query of the dashboard and of the alerts is run. All of them listen on loopback
# only, and are stopped at the end. The Debian packages are unpacked below target/.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/packages.sh

unpacked=$PWD/target/monitoring
if ! unpack_packages "$unpacked" prometheus prometheus-postgres-exporter; then
    skip "monitoring: Debian's packages prometheus and prometheus-postgres-exporter are not available"
    exit
fi

export SNOWFLAKE_ID_PROMETHEUS=$unpacked/root/usr/bin

"$SNOWFLAKE_ID_PROMETHEUS/promtool" check rules monitoring/alerts.yml
"$SNOWFLAKE_ID_PROMETHEUS/promtool" test rules monitoring/alerts_test.yml

# The command with which users set where their book is, at the top of the file and on the page.
set_book=$(sed -n 's/^# *\(sed .*\) alerts\.yml > .*/\1/p' monitoring/alerts.yml)
grep -qF "$set_book alerts.yml > /etc/prometheus/snowflake_id_alerts.yml" docs/run/monitoring.md
eval "$set_book" <monitoring/alerts.yml >target/monitoring-alerts.yml
"$SNOWFLAKE_ID_PROMETHEUS/promtool" check rules target/monitoring-alerts.yml
page=https://wiki.example.com/snowflake_id/run/when-it-fails.html
diff <(grep -c "alert: " monitoring/alerts.yml) <(grep -c "runbook_url: \"$page#" target/monitoring-alerts.yml)

scripts/test.sh monitoring
