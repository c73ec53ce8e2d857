# Everything a user types. Each target does all of its set-up itself: see scripts/setup.sh.
#
#   make demo            a table filled by eight clients, decoded, counted      (KEEP=1 leaves the server up)
#   make test            all tests, on one version of PostgreSQL
#   make test-all        the same, and on 15 to 18 what may depend on the version         (VERSIONS="16 18")
#   make soak            rounds of crashes and clock steps            (ROUNDS=200)
#   make clients         the programs of docs/clients.md, against a throw-away server
#   make verify          a model of the protocol, in every state
#   make bench           the benchmark, as a Markdown table
#   make install         build and install into the PostgreSQL of PG_CONFIG
#   make lint            formatting and lints
#
# PG_CONFIG=/path/to/pg_config picks another PostgreSQL than Debian's version 15. "make test-all" gets its own, and keeps
# them below target/: see scripts/postgresql.sh.

.PHONY: help demo test test-all soak clients verify bench install lint clean

help:
	@sed -n '/^#   make/s/^#   //p' Makefile

demo:
	@scripts/demo.sh

test:
	@scripts/test.sh

test-all:
	@scripts/test-versions.sh $(VERSIONS)

soak:
	@scripts/test.sh soak

clients:
	@scripts/test.sh clients

verify:
	@cd docs/design/model && CARGO_TARGET_DIR=../../../target/model cargo run --quiet --release

bench:
	@scripts/bench.sh

install:
	@scripts/setup.sh

lint:
	@scripts/lint.sh

clean:
	cargo clean
