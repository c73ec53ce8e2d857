# Functions that install dependencies, and other functions shared by the scripts. To be sourced.
# shellcheck shell=bash

say() { echo "==> $*" >&2; }

failed() {
    echo "FAILED: $*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Shows the output of a command only if the command fails.
quietly() {
    mkdir -p target
    "$@" >target/setup.log 2>&1 || {
        cat target/setup.log >&2
        return 1
    }
}

# Fails because of a missing dependency. With ALLOW_SKIP=1, continues without it and counts it: in a variable, and as
# a line in a file for the tests that started this script.
skips=0
skip() {
    if [ "${ALLOW_SKIP:-}" != 1 ]; then
        echo "$*. ALLOW_SKIP=1 goes on without" >&2
        return 1
    fi
    skips=$((skips + 1))
    echo "skipped: $*" >&2
    if [ -n "${SNOWFLAKE_ID_WORK_DIR:-}" ]; then
        echo "$*" >>"$SNOWFLAKE_ID_WORK_DIR/skipped"
    fi
}

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"; }

# Installs Debian packages. Debian would create and start a first cluster together with a PostgreSQL server; this is
# turned off.
install_packages() {
    local missing=() package
    for package in "$@"; do
        if [ "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" != "install ok installed" ]; then
            missing+=("$package")
        fi
    done
    if [ ${#missing[@]} -eq 0 ]; then
        return
    fi
    if ! command -v apt-get >/dev/null; then
        echo "this is no Debian: install what its packages have by yourself: ${missing[*]}" >&2
        return 1
    fi
    say "installing Debian packages: ${missing[*]}"
    local no_cluster=/etc/postgresql-common/createcluster.d/snowflake_id_setup.conf status=0
    as_root mkdir -p "${no_cluster%/*}"
    echo 'create_main_cluster = false' | as_root tee "$no_cluster" >/dev/null
    # The path is known now.
    # shellcheck disable=SC2064
    trap "as_root rm -f $no_cluster" EXIT
    quietly apt_get update && quietly apt_get install --yes --no-install-recommends "${missing[@]}" || status=$?
    as_root rm -f "$no_cluster"
    trap - EXIT
    return "$status"
}

# Installs the Debian packages of missing programs. Each argument is PROGRAM=PACKAGE.
need() {
    local each missing=()
    for each in "$@"; do
        command -v "${each%=*}" >/dev/null || missing+=("${each#*=}")
    done
    install_packages "${missing[@]}"
}

# Unpacks Debian packages below a directory, without installing them, so that their services are not started. Does
# nothing if the directory exists.
unpack_packages() {
    local to=$1 package
    shift
    if [ -d "$to/root" ]; then
        return
    fi
    command -v apt-get >/dev/null || return
    say "fetching Debian packages: $*"
    rm -rf "$to"
    mkdir -p "$to/packages" "$to/root.new"
    quietly apt_get update || return
    (cd "$to/packages" && apt-get -qq -o APT::Sandbox::User=root download "$@") || return
    for package in "$to"/packages/*.deb; do
        dpkg-deb --extract "$package" "$to/root.new" || return
    done
    mv "$to/root.new" "$to/root"
}

# Prints this machine's sources of Debian packages, as lines for apt. With a suite, prints those of this suite of
# Debian instead.
debian_sources() {
    local suite=${1:-} release
    # shellcheck source=/dev/null
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    quietly apt_get update || return
    # These are fields of apt.
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' "Created-By: Packages" "Origin: Debian" |
        awk -v type="deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" -v suite="$suite" -v release="$release" '
            suite == "" || $2 == release { print type, $1, suite == "" ? $2 : suite, $3 }' | sort -u | grep .
}

# Unpacks a package of another suite of Debian below a directory, together with the libraries that it needs and with
# more packages. The suites are given in quotes, the one to prefer at the end. The sources and the packages of this
# machine are not changed. Does nothing if the directory exists.
unpack_from_suite() {
    local to=$1 suites=$2 package=$3 suite apt libraries
    shift 3
    if [ -d "$to/root" ]; then
        return
    fi
    command -v apt-get >/dev/null || return
    say "fetching packages of Debian ($suites): $package $*"
    rm -rf "$to"
    mkdir -p "$to/lists/partial" "$to/packages" "$to/root.new"
    for suite in $suites; do
        debian_sources "$suite" >>"$to/sources.list" || return
    done
    # Take from experimental only the packages that are built from the source of $package, and only while unstable has no
    # newer ones. Others may not work together.
    if [ "${suites##* }" = experimental ]; then
        printf 'Package: src:%s\nPin: release a=experimental\nPin-Priority: 500\n' "$package" >"$to/preferences"
    else
        printf 'Package: *\nPin: release n=%s\nPin-Priority: 990\n' "${suites##* }" >"$to/preferences"
    fi
    apt=(apt-get -q -o Dir::Etc::preferences="$to/preferences" -o Dir::Etc::preferencesparts=/dev/null
        -o Dir::Etc::sourcelist="$to/sources.list"
        -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$to/lists" -o Dir::State::status=/dev/null
        -o Dir::Cache="$to" -o APT::Sandbox::User=root -o APT::Install-Recommends=false
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
    if [[ "$*" == *:arm64* ]]; then
        apt+=(-o APT::Architectures::="$(dpkg --print-architecture)" -o APT::Architectures::=arm64)
    fi
    quietly "${apt[@]}" update || return
    libraries=$("${apt[@]}" --simulate install "$package" | awk '/^Inst (lib|zlib)/ && $2 !~ /-dev$|perl/ { print $2 }') || return
    # shellcheck disable=SC2086 # Names of packages.
    quietly env --chdir="$to/packages" "${apt[@]}" download "$package" "$@" $libraries || return
    for package in "$to"/packages/*.deb; do
        dpkg-deb --extract "$package" "$to/root.new" || return
    done
    rm -rf "$to/packages" "$to/lists"
    mv "$to/root.new" "$to/root"
}

# Replaces a program of another release of Debian by a script that runs it with the loader and the libraries of that
# release, which are in a directory. The program is moved there.
run_with_libraries() {
    local program=$1 libraries=$2
    mv "$program" "$libraries"
    ln -sf "$(basename "$(echo "$libraries"/ld-linux*.so.*)")" "$libraries/ld.so"
    cat >"$program" <<END
#!/bin/sh
libraries=\$(dirname "\$0")/$(realpath --relative-to "${program%/*}" "$libraries")
exec "\$libraries/ld.so" --argv0 "\$0" --library-path "\$libraries" "\$libraries/${program##*/}" "\$@"
END
    chmod 755 "$program"
}

# Installs Python packages, named as for pip, into a virtual environment target/NAME. Does nothing if they are
# installed already.
install_python() {
    local name=$1
    shift
    if [ "$(cat "target/$name/packages" 2>/dev/null)" = "$*" ]; then
        return
    fi
    say "installing Python packages: $*"
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        install_packages python3-venv || return
    fi
    quietly python3 -m venv --clear "target/$name" &&
        quietly "target/$name/bin/pip" install --quiet --disable-pip-version-check "$@" || return
    echo "$*" >"target/$name/packages"
}

# Installs Node.js packages in a directory, in the versions of its package-lock.json. Does not run their install
# scripts, because some of them download programs. Does nothing if these versions are already installed.
install_node() {
    local versions=$1/package-lock.json
    if cmp -s "$versions" "$versions.installed"; then
        return
    fi
    command -v npm >/dev/null || install_packages nodejs npm || return
    say "installing Node.js packages: $versions"
    quietly npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund && cp "$versions" "$versions.installed"
}

# Runs cargo for packages that use pgrx, which requires rustc 1.96 and also compiles with 1.95. With an older compiler,
# cargo says which version is required.
cargo_with_pgrx() {
    local flags=()
    if [[ $("${RUSTC:-rustc}" --version 2>/dev/null) == "rustc 1.95."* ]]; then
        flags=(--ignore-rust-version)
    fi
    cargo "$1" "${flags[@]}" "${@:2}"
}

# Runs git in this clone, even if the clone belongs to another user.
in_clone() { git -c safe.directory="$PWD" "$@"; }

# Prints the time of the commit, which is used for all times in a package, so that builds are reproducible. In an
# archive, which is not a clone, the files have the time of the commit.
source_date_epoch() {
    if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
        echo "$SOURCE_DATE_EPOCH"
    elif [ -e .git ] && command -v git >/dev/null; then
        in_clone log -1 --format=%ct
    else
        stat --format=%Y META.json
    fi
}

# The directories with a Cargo workspace of their own that compile crates of this one.
# shellcheck disable=SC2034 # Used by the scripts that source this file.
readonly other_workspaces=(docs/design/model tests/simulation tests/fuzz/libfuzzer)

# Prints the version in the tree, which is that of both extensions and of the crates.
extension_version() { sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml; }

# Prints the version of this build. The commit that last set the version in Cargo.toml is this version, such as 0.1.0.
# A build of another commit says which: 0.1.0+3.g0123456789 is three commits later, and sorts before the next version. Where
# the commit that set the version is unknown, as in a shallow clone and in an archive of a forge, the version is
# 0.1.0+g0123456789. Changes that are not committed add "dirty". The digits of the commit have a fixed number, so that each
# clone gives the same version. SNOWFLAKE_ID_VERSION overrides the version.
release_version() {
    local head origin shallow later=''
    if [ -n "${SNOWFLAKE_ID_VERSION:-}" ]; then
        echo "$SNOWFLAKE_ID_VERSION"
        return
    fi
    if [ -e .git ] && command -v git >/dev/null; then
        head=$(in_clone rev-parse HEAD) &&
            origin=$(in_clone log -1 --format=%H -G '^version = ' -- Cargo.toml) &&
            shallow=$(in_clone rev-parse --git-path shallow) || return
        # The oldest commit of a shallow clone seems to have set everything.
        if [ -z "$origin" ] || grep -qsx "$origin" "$shallow"; then
            later=g${head:0:10}
        elif [ "$origin" != "$head" ]; then
            later=$(in_clone rev-list --count "$origin..HEAD").g${head:0:10}
        fi
        if [ -n "$(in_clone status --porcelain --untracked-files=no)" ]; then
            later=${later:+$later.}dirty
        fi
    elif [ -e packaging/version ]; then
        # scripts/dist.sh has added this file to the archive for PGXN.
        cat packaging/version
        return
    else
        # "git archive" has replaced the contents of the file by the commit.
        later=$(sed -nE 's/^([0-9a-f]{10})[0-9a-f]*$/g\1/p' packaging/archived-version)
    fi
    echo "$(extension_version)${later:++$later}"
}
