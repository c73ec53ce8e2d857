# Creates a directory for throw-away clusters. To be sourced. When the script ends, whether normally, by an error or
# by Ctrl-C, all processes started in the directory are stopped, and the directory is removed. Other clusters are not
# affected.
#
# Sets work_dir and bin_dir. Needs PG_CONFIG, and changes it to a copy of the installation if the original cannot be
# used or copy_it=1 is set. With keep_work_dir=1, nothing is stopped or removed.
# shellcheck shell=bash

# Runs a command as the server's user: PostgreSQL refuses to run as root, and its programs need a working directory
# that they can enter.
as_server() (
    cd "$work_dir" || exit
    if [ "$(id -u)" -eq 0 ]; then runuser -u "$server_user" -- "$@"; else "$@"; fi
)

# Stops all servers in the directory. Kills other processes of tests first, because Patroni would start its servers
# again.
stop_servers() {
    local pid_file pid process directory
    for process in /proc/[0-9]*; do
        directory=$(readlink "$process/cwd" 2>/dev/null) || continue
        if [[ $directory/ == "$work_dir"/* && ! -e $directory/PG_VERSION ]]; then
            kill -KILL "${process#/proc/}" 2>/dev/null || true
        fi
    done
    while IFS= read -r pid_file; do
        pid=$(head -n 1 "$pid_file" 2>/dev/null) || continue
        # A server that was killed leaves its file behind, and its PID may belong to another process now.
        [ "$(readlink "/proc/$pid/cwd")" = "$(dirname "$pid_file")" ] || continue
        kill -QUIT "$pid" 2>/dev/null || continue
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
    done < <(find "$work_dir" -name postmaster.pid 2>/dev/null)
}

# What the script has started beside, each with a process group of its own.
declare -A beside=()

clean_up() {
    trap '' INT TERM HUP
    if [ "${keep_work_dir:-0}" = 1 ]; then
        return
    fi
    local group
    for group in "${beside[@]}"; do
        kill -KILL -- "-$group" 2>/dev/null || true
        wait "$group" 2>/dev/null || true
    done
    stop_servers
    # An interrupted test may leave its small file system mounted.
    awk -v dir="$work_dir/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | xargs -r -n 1 umount --lazy
    rm -rf "$work_dir"
}

# Prints a pg_config that the server's user can run. Copies the installation if it is in a directory that this user
# cannot enter. The programs of PostgreSQL find everything else relative to their own location.
reachable() {
    local pg_config=$1 root copy
    if [ "${copy_it:-0}" = 0 ] && as_server test -x "$pg_config"; then
        echo "$pg_config"
        return
    fi
    # If the installation has no directory of its own, the copy would include the whole file system.
    if [[ $pg_config != /*/bin/pg_config ]]; then
        echo "PG_CONFIG has to be the path of a pg_config in an installation of its own: \"$pg_config\"" >&2
        return 1
    fi
    case $pg_config in
        "$PWD"/target/postgresql/*)
            root=${pg_config#"$PWD/target/postgresql/"}
            root=$PWD/target/postgresql/${root%%/*}
            ;;
        *) root=${pg_config%/bin/pg_config} ;;
    esac
    copy=$(mktemp -d "$work_dir/postgresql.XXXXXX") && cp -R "$root/." "$copy" && chmod -R a+rX "$copy" || return
    echo "$copy${pg_config#"$root"}"
}

# Starts the server in $data. Its environment contains the variables in the array server_environment.
start_again() {
    as_server env "${server_environment[@]}" "$bin_dir/pg_ctl" --silent --wait --pgdata="$data" --log="$work_dir/log" start
}

# Creates a cluster in $data and starts it. Reads additional settings from standard input. The superuser is postgres,
# and the socket is in $work_dir.
start_server() {
    data=$work_dir/data
    as_server "$bin_dir/initdb" --no-sync --auth=trust --username=postgres --pgdata="$data" >/dev/null
    { printf "listen_addresses = ''\nunix_socket_directories = '%s'\n" "$work_dir" && cat; } |
        as_server tee -a "$data/postgresql.conf" >/dev/null
    start_again || {
        cat "$work_dir/log" >&2
        return 1
    }
}

# Ignore settings that are meant for other clusters.
unset PGHOST PGHOSTADDR PGPORT PGUSER PGDATABASE PGPASSWORD PGSERVICE PGOPTIONS PGDATA PGAPPNAME PGSSLMODE
unset RUST_BACKTRACE # Tests that fail would print long backtraces.

server_user=postgres
if [ "$(id -u)" -eq 0 ] && ! id "$server_user" >/dev/null 2>&1; then
    server_user=nobody
fi
# A data directory has a thousand files. Copying it in memory takes half of the time, if there is enough memory, and if as
# much of it is allowed in /dev/shm.
gigabytes_free=$({
    df --output=avail --block-size=1G /dev/shm || echo 0
    awk '/^MemAvailable:/ { print int($2 / 2 ^ 20) }' /proc/meminfo
} 2>/dev/null | awk '/^ *[0-9]+$/' | sort -n | head -n 1)
if [ "${gigabytes_free:-0}" -ge 8 ] && ! findmnt --noheadings --output OPTIONS /dev/shm | grep -q noexec; then
    work_dir=$(mktemp -d /dev/shm/snowflake_id-tests.XXXXXX)
else
    work_dir=$(mktemp -d "${TMPDIR:-/tmp}/snowflake_id.XXXXXX")
fi
if [ "$(id -u)" -eq 0 ]; then
    chown "$server_user" "$work_dir"
fi
export SNOWFLAKE_ID_WORK_DIR=$work_dir SNOWFLAKE_ID_SERVER_USER=$server_user # For the test harness.
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

PG_CONFIG=$(reachable "$PG_CONFIG")
if [ -n "${SNOWFLAKE_ID_SECOND_PG_CONFIG:-}" ]; then
    SNOWFLAKE_ID_SECOND_PG_CONFIG=$(reachable "$SNOWFLAKE_ID_SECOND_PG_CONFIG")
fi
server_environment=()
# shellcheck disable=SC2034 # For the scripts that source this one.
bin_dir=$("$PG_CONFIG" --bindir)
