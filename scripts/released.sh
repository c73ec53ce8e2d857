#!/usr/bin/env bash
# Keeps the scripts of released versions as they are. sql/released.sha256 lists them, in the format of sha256sum(1).
#
#   scripts/released.sh check            fails if a listed script was changed or removed
#   scripts/released.sh replace NEW OLD  moves file NEW to script OLD; fails if OLD is listed and would change
set -euo pipefail
cd "$(dirname "$0")/.."

listed() {
    grep -v '^#' sql/released.sha256 || true
}

remedy() {
    echo "A server may have run this script. Raise the version with scripts/version.sh, run" \
        "\"make sql\", and write an upgrade script: see docs/design/versions.md." >&2
    exit 1
}

case ${1:-} in
    check)
        # Before the first release, the list is empty, and sha256sum would fail.
        if [ -n "$(listed)" ] && ! listed | sha256sum --check --strict --quiet -; then
            echo "a released script was changed" >&2
            remedy
        fi
        ;;
    replace)
        if listed | cut -c 67- | grep -qxF "$3" && ! cmp -s "$2" "$3"; then
            echo "$3 is released and must not change" >&2
            remedy
        fi
        mv "$2" "$3"
        ;;
    *)
        sed -n 's/^#   //p' "$0" >&2
        exit 2
        ;;
esac
