#!/usr/bin/env bash
# Tests the packages:
#
#   scripts/test-packages.sh           all of them; with FULL=1 compiled as for users, and twice, in two directories
#   scripts/test-packages.sh pgxn      the archive for PGXN, installed by PGXN's client
#   scripts/test-packages.sh deb       Debian packages: installed, used, upgraded, removed in a system without compilers
#   scripts/test-packages.sh deb13     the same on Debian 13, with its own PostgreSQL 17
#   scripts/test-packages.sh rpm       the RPM package: its contents and requirements
#   scripts/test-packages.sh image     the extension image, on PostgreSQL 18
#   scripts/test-packages.sh crates    the crates, as other projects get them
#   scripts/test-packages.sh forge     the workflow file that builds the packages on a forge
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
    set -- forge crates pgxn deb deb13 rpm image
fi
if [ -z "${FULL:-}" ]; then
    # Optimizing across all crates takes minutes, and is tested elsewhere.
    export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
fi
for which in "$@"; do
    case $which in
        pgxn | deb | deb13 | rpm | image | crates | forge) ;;
        *)
            sed -n 's/^#   //p' "$0" >&2
            exit 2
            ;;
    esac
    echo
    echo "==> packages: $which"
    start=$SECONDS
    case $which in
        deb13) scripts/test-deb.sh trixie ;;
        *) "scripts/test-$which.sh" ;;
    esac
    echo "It took $((SECONDS - start)) s."
done

echo
echo "All packages are well."
