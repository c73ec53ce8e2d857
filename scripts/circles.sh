#!/usr/bin/env bash
# Fails if modules of a crate import each other, directly or in a circle. A parent that only declares a child does not
# import it.
set -euo pipefail
cd "$(dirname "$0")/.."

# Prints one line for each import: the importing module and the imported one. A module is named by its path below the
# directory, without the extension.
imports() {
    find "$1" -name '*.rs' | awk -v top="$1/" '
        function module(path) { sub(top, "", path); sub(/\.rs$/, "", path); sub(/(^|\/)mod$/, "", path); return path }
        { files[++count] = $0; known[module($0)] = 1 }
        function import(from, path,    n, parts, i, to, found) {
            gsub(/[ \n]/, "", path)
            n = split(path, parts, "::")
            to = ""; i = 1
            if (parts[1] == "super") {
                to = from; i = 0
                while (parts[i + 1] == "super") { if (!sub(/\/[^\/]*$/, "", to)) to = ""; i++ }
                i++
            } else if (parts[1] == "crate") { i = 2 } else { return }
            found = to
            for (; i <= n; i++) {
                to = to == "" ? parts[i] : to "/" parts[i]
                if (to in known) found = to
            }
            if (found != from && found != "") print from, found
        }
        END {
            for (f = 1; f <= count; f++) {
                from = module(files[f]); text = ""
                while ((getline line < files[f]) > 0) { sub(/\/\/.*/, "", line); text = text line "\n" }
                while (match(text, /(^|\n)(pub(\([a-z]*\))? )?use [^;]*;/)) {
                    use = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
                    sub(/^\n?(pub(\([a-z]*\))? )?use /, "", use); sub(/;$/, "", use)
                    if (match(use, /\{.*\}$/)) {
                        prefix = substr(use, 1, RSTART - 1)
                        m = split(substr(use, RSTART + 1, RLENGTH - 2), names, ",")
                        for (k = 1; k <= m; k++) if (names[k] !~ /^[ \n]*$/) { sub(/\{.*/, "", names[k]); import(from, prefix names[k]) }
                    } else import(from, use)
                }
            }
        }' | sort -u
}

for crate in src core/src client/src; do
    if ! imports "$crate" | tsort >/dev/null 2>target/circles; then
        echo "modules of $crate import each other:" >&2
        sed 's/^tsort: //' target/circles >&2
        exit 1
    fi
done
