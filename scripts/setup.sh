#!/usr/bin/env bash
# Sets up whatever is missing for a throw-away server, then builds and installs the extension. Safe to run again: what is there is
# skipped.
#
# Leaves in target/environment the settings that the other scripts go on with.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

need ip=iproute2 openssl=openssl ps=procps
scripts/build.sh
unset DESTDIR
# shellcheck source=/dev/null
. target/environment
scripts/install.sh
