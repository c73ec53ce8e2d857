# Installing what is missing, to be sourced.
# shellcheck shell=bash

say() { echo "==> $*" >&2; }

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

# Makes a Python environment in a directory, in place of one that is there.
python_environment() {
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        command -v dpkg-query >/dev/null && install_packages python3-venv || return
    fi
    quietly python3 -m venv --clear "$1"
}

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
    say "installing Debian packages: ${missing[*]}"
    local no_cluster=/etc/postgresql-common/createcluster.d/snowflake_id_setup.conf
    as_root mkdir -p "$(dirname "$no_cluster")"
    echo 'create_main_cluster = false' | as_root tee "$no_cluster" >/dev/null
    # shellcheck disable=SC2064 # The path is known now.
    trap "as_root rm -f $no_cluster" EXIT
    local status=0
    quietly as_root apt-get update -qq &&
        quietly as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
        status=$?
    as_root rm -f "$no_cluster"
    trap - EXIT
    return "$status"
}

# The instant of the commit, for everything in a package that bears a time: the same sources give the same bytes. What was not
# cloned, such as the archive for PGXN, has the commit's time on its files.
source_date_epoch() {
    echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat --format=%Y META.json)}"
}

# The version of the extension.
extension_version() { sed -n 's/^    "version": "\(.*\)",$/\1/p' META.json; }

# Unpacks Debian packages below a directory, and does not install them: nobody asked for their services. What was unpacked
# before is left as it is.
unpack_packages() {
    local to=$1
    shift
    if [ -d "$to/root" ]; then
        return
    fi
    command -v apt-get >/dev/null || return
    say "fetching Debian packages: $*"
    rm -rf "$to"
    mkdir -p "$to/packages" "$to/root.new"
    quietly as_root apt-get update -qq || return
    (cd "$to/packages" && apt-get -q -q -o APT::Sandbox::User=root download "$@") || return
    local package
    for package in "$to"/packages/*.deb; do
        dpkg-deb --extract "$package" "$to/root.new" || return
    done
    mv "$to/root.new" "$to/root"
}
