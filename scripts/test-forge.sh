#!/usr/bin/env bash
# Checks the workflow file that builds the packages on a forge: it is valid, well formatted, and grants no unnecessary
# rights. Also checks the format of the Kubernetes examples in the book.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

install_python forge check-jsonschema==0.39.0 yamllint==1.38.0 zizmor==1.32.0
bin=target/forge/bin

readonly rules='{extends: default, rules: {line-length: {max: 130}, document-start: disable, truthy: disable, comments: {min-spaces-from-content: 1}}}'
"$bin/yamllint" --strict --config-data "$rules" .github/workflows docs/examples/platforms
"$bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
"$bin/zizmor" --offline --no-progress .github/workflows
