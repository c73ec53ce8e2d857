# A Debian without compilers, with PostgreSQL, to be sourced. It has processes, mounts and a network of its own, and ends with the
# script.
# shellcheck shell=bash

# Prints the name of the archive with the system for a suite of Debian and a version of PostgreSQL. It is made once, and kept.
guest_system() {
    local suite=$1 major=$2 archive=$PWD/target/guest/$1-$2.tar
    install_packages mmdebstrap iproute2 >&2
    if [ ! -e "$archive" ]; then
        say "making a system: Debian's $suite with PostgreSQL $major"
        mkdir -p "${archive%/*}"
        # How this machine gets packages holds there, too.
        apt-config dump | grep -iE '^Acquire::(http|https|ftp|Retries|Check|ForceIP)' >"$archive.apt" || true
        quietly as_root mmdebstrap --variant=minbase --mode=root --include="postgresql-$major,sudo" \
            --aptopt="$archive.apt" "$suite" "$archive.new.tar" || return
        mv -f "$archive.new.tar" "$archive"
    fi
    echo "$archive"
}

# Unpacks the archive into $work_dir/guest, and starts the system there. Comes after scripts/throwaway.sh.
start_guest() {
    guest=$work_dir/guest
    mkdir "$guest"
    chmod 755 "$work_dir" "$guest"
    as_root tar --extract --file "$1" --directory "$guest" --numeric-owner
    # sudo looks for the name of the machine.
    echo "127.0.0.1 localhost $(hostname)" | as_root tee "$guest/etc/hosts" >/dev/null
    trap 'stop_guest; clean_up' EXIT
    # The network is nothing but the loopback. The first process outlives all others, and buries them.
    # shellcheck disable=SC2016 # To be expanded there.
    as_root unshare --net --ipc --mount --pid --fork --kill-child bash -c '
        ip link set lo up
        mount --rbind /dev "$1/dev"
        mount -t proc proc "$1/proc"
        exec chroot "$1" bash -c "touch /run/up; while :; do sleep 1000 & wait; done"' - "$guest" 2>"$work_dir/guest.log" &
    local started=$!
    until [ -e "$guest/run/up" ]; do
        kill -0 "$started" || cat "$work_dir/guest.log" >&2
        sleep 0.05
    done
    # The first process of the namespace, by its number out here.
    # shellcheck disable=SC2016
    guest_init=$(as_root bash -c 'for process in /proc/[0-9]*; do
        if [ "$(readlink "$process/root")" = "$1" ] && grep -q "^NSpid:.*[^0-9]1$" "$process/status"; then
            echo "${process#/proc/}"
        fi
    done' - "$guest")
}

# All processes of a namespace end with its first one.
stop_guest() {
    if [ -n "${guest_init:-}" ]; then
        as_root kill -KILL "$guest_init" || true
        wait
    fi
}

# Runs a command there, as root, in root's home directory.
in_guest() {
    as_root nsenter --target "$guest_init" --net --ipc --mount --pid --root \
        env -i --chdir=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}
