# Installs missing dependencies for a throw-away server, then builds and installs the extension. To be sourced. Can be
# run repeatedly: completed steps are skipped.
#
# Sets PG_CONFIG and PG_MAJOR.
# shellcheck shell=bash
. scripts/packages.sh

need ip=iproute2 openssl=openssl ps=procps
scripts/build.sh
unset DESTDIR
# shellcheck source=/dev/null
. target/environment
scripts/install.sh
