# Sets up whatever is missing for a throw-away server, then builds and installs the extension; to be sourced. Safe to run again:
# what is there is skipped.
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
