# Installing what is missing, and what else the scripts have in common, to be sourced.
# shellcheck shell=bash

say() { echo "==> $*" >&2; }

failed() {
    echo "FAILED: $*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# What a command prints matters only when it fails.
quietly() {
    mkdir -p target
    "$@" >target/setup.log 2>&1 || {
        cat target/setup.log >&2
        return 1
    }
}

# What cannot be had is a failure. With ALLOW_SKIP=1 the run goes on without it, and counts it: in a variable, and with a line of a
# file for the tests that started this script.
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

# Debian installs a server together with a first cluster, and starts it. Nobody asked for one here.
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
    # shellcheck disable=SC2064 # The path is known now.
    trap "as_root rm -f $no_cluster" EXIT
    quietly apt_get update && quietly apt_get install --yes --no-install-recommends "${missing[@]}" || status=$?
    as_root rm -f "$no_cluster"
    trap - EXIT
    return "$status"
}

# Installs the Debian packages of programs that are missing: PROGRAM=PACKAGE for each.
need() {
    local each missing=()
    for each in "$@"; do
        command -v "${each%=*}" >/dev/null || missing+=("${each#*=}")
    done
    install_packages "${missing[@]}"
}

# Unpacks Debian packages below a directory, and does not install them: nobody asked for their services. What was unpacked
# before is left as it is.
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

# Prints this machine's own sources of Debian's packages, as lines of apt's: "deb", or "deb-src" for another suite of Debian.
debian_sources() {
    local type=$1 suite=${2:-} release
    # shellcheck source=/dev/null
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    quietly apt_get update || return
    # shellcheck disable=SC2016 # Fields of apt's.
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' "Created-By: Packages" "Origin: Debian" |
        awk -v type="$type [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" -v suite="$suite" -v release="$release" '
            suite == "" || $2 == release { print type, $1, suite == "" ? $2 : suite, $3 }' | sort -u | grep .
}

# Installs Python packages, as pip names them, into an environment of their own: target/NAME. What is there is left as it is.
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

# The instant of the commit, for everything in a package that bears a time: the same sources give the same bytes. What was not
# cloned, such as the archive for PGXN, has the commit's time on its files.
source_date_epoch() {
    echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat --format=%Y META.json)}"
}

# The version of the extension.
extension_version() { sed -n 's/^    "version": "\(.*\)",$/\1/p' META.json; }
