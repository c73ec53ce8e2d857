#!/usr/bin/env bash
# Tests the files of monitoring/. promtool checks and tests the alerts. Then postgres_exporter and Prometheus watch
# the servers of a fleet, and every query of the dashboard and of the alerts is run. All of them listen on loopback
# only, and are stopped at the end. The Debian packages are unpacked below target/.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/setup.sh

unpacked=$PWD/target/monitoring
if ! unpack_packages "$unpacked" prometheus prometheus-postgres-exporter; then
    skip "monitoring: Debian's packages prometheus and prometheus-postgres-exporter cannot be had"
    exit
fi

. scripts/throwaway.sh
export SNOWFLAKE_ID_PROMETHEUS=$unpacked/root/usr/bin

"$SNOWFLAKE_ID_PROMETHEUS/promtool" check rules monitoring/alerts.yml
"$SNOWFLAKE_ID_PROMETHEUS/promtool" test rules monitoring/alerts_test.yml
cargo test --quiet -p snowflake-id-cluster-tests -- --include-ignored book::monitoring:: | tee target/monitoring.out
grep -q "ok. [1-9]" target/monitoring.out
