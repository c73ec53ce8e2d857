#!/usr/bin/env bash
# Sets the version, which is in Cargo.toml, in the files that have to repeat it:
#
#   scripts/version.sh 0.1.0-rc.3    sets the version
#   scripts/version.sh --check       fails if a file has another version than Cargo.toml
#
# The commit that sets a version is the one whose builds have this version: see release_version in scripts/packages.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

# Each of them names the version.
readonly files=(CHANGELOG.md Cargo.toml client/Cargo.toml META.json README.md snowflake_id.control
    sql/registry/snowflake_id_registry.control docs/reference/releases.md docs/run/{install,registry,platforms}.md
    docs/examples/platforms/kubernetes{,-one-cluster}.yaml)
readonly spec=packaging/rpm/snowflake_id.spec # The versions of RPM packages have "~" instead of "-".
readonly scripts=(sql/snowflake_id sql/registry/snowflake_id_registry)

version=$(extension_version)
case ${1:-} in
    --check)
        wrong=$(
            for file in "${files[@]}"; do
                grep -qwF "$version" "$file" || echo "$file"
            done
            grep -qF "release_version ${version/-/\~}}" "$spec" || echo "$spec"
            # No page or example names another candidate.
            grep -rnE '[0-9]+\.[0-9]+\.[0-9]+-rc\.[0-9]+' ./*.md docs packaging | grep -vF "$version" || true
        )
        if [ -n "$wrong" ]; then
            echo "$wrong"
            echo "These files do not have version $version, as Cargo.toml does: set it with scripts/version.sh" >&2
            exit 1
        fi
        ;;
    [0-9]*)
        [[ $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+(-rc\.[0-9]+)?$ ]] || failed "\"$1\" is no version such as 0.1.0 or 0.1.0-rc.1"
        sed -i "s/\b${version//./\\.}\b/$1/g" "${files[@]}"
        sed -i "s/release_version ${version/-/\~}}/release_version ${1/-/\~}}/" "$spec"
        # A script that is released remains, and needs an upgrade script to the new version.
        for script in "${scripts[@]}"; do
            grep -q " $script--$version.sql$" sql/released.sha256 || mv "$script--$version.sql" "$script--$1.sql"
        done
        for workspace in . "${other_workspaces[@]}"; do
            quietly cargo update --offline --workspace --manifest-path "$workspace/Cargo.toml"
        done
        ;;
    *)
        sed -n 's/^#   //p' "$0" >&2
        exit 2
        ;;
esac
