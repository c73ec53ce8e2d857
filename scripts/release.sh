# Functions shared by the scripts that make packages: how the library is compiled for users, and the documentation that
# all packages have. To be sourced, after scripts/packages.sh.
# shellcheck shell=bash

# Compiles the extension for the PostgreSQL of PG_CONFIG. The files are below DIRECTORY/package/MAJOR. Sets PG_CONFIG
# and PG_MAJOR. The build is reproducible: the same commit, compilers and libraries give identical files.
build_release() {
    local directory=$1 cargo_home=${CARGO_HOME:-$HOME/.cargo} commit flags
    export SOURCE_DATE_EPOCH
    SOURCE_DATE_EPOCH=$(source_date_epoch)
    # Keep paths of this machine out of the library, and ignore compiler flags of the user.
    commit=$(rustc --version --verbose | sed -n 's/^commit-hash: //p')
    flags=(
        "--remap-path-prefix=$cargo_home=/usr/src/cargo"
        "--remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$commit"
        "--remap-path-prefix=$PWD=/usr/src/snowflake_id"
        "--remap-path-prefix=$directory=/usr/src/snowflake_id/target/deb"
        "-Clink-arg=-Wl,--build-id=sha1" # The debug symbols are named after it.
    )
    unset RUSTFLAGS CARGO_INCREMENTAL
    # shellcheck disable=SC2155 # printf does not fail.
    export CARGO_ENCODED_RUSTFLAGS=$(printf '%s\037' "${flags[@]}" | sed 's/\x1f$//')
    export CFLAGS="-g -O2 -ffile-prefix-map=$cargo_home=/usr/src/cargo -ffile-prefix-map=$directory=/usr/src/snowflake_id/target/deb"
    # Enough for a backtrace with line numbers, at a tenth of the size of full debug information.
    export CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
    export CARGO_TARGET_DIR=$directory/build PACKAGE_DIR=$directory/package
    env -u DESTDIR scripts/build.sh
    # shellcheck source=/dev/null
    . target/environment
}

# Copies the compiled files below a directory, to the directories of a distribution for libraries and for extensions.
install_release() {
    local root=$1 library_dir=$2 extension_dir=$3 file
    while IFS= read -r file; do
        case $file in
            *.so) install -D -m 644 "$file" "$root$library_dir/${file##*/}" ;;
            *) install -D -m 644 "$file" "$root$extension_dir/${file##*/}" ;;
        esac
    done < <(find "$PACKAGE_DIR/$PG_MAJOR" -type f)
}

# Collects the documentation of a package in a directory: README.md, CHANGELOG.md, crates.txt, docs, monitoring, and the
# book as HTML.
collect_docs() {
    local to=$1
    cp README.md CHANGELOG.md "$to"
    scripts/crates.sh "$PG_MAJOR" >"$to/crates.txt"
    cp -R monitoring "$to/monitoring"
    rm "$to/monitoring/alerts_test.yml"
    # The pages for users, with what they show and link to.
    find docs -path docs/design -prune -o -name target -prune -o \
        \( -name '*.md' -o -name '*.svg' -o -name '*.csv' -o -name '*.txt' -o -path 'docs/examples/*/*' \) \
        -type f -exec cp --parents -t "$to" {} +
    scripts/book.sh build
    cp -R target/book "$to/html"
}
