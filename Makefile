# Everything a user types. Each target does all of its set-up itself: see scripts/setup.sh.
#
#   make demo            a table filled by eight clients, decoded, counted      (KEEP=1 leaves the server up)
#   make test            all tests
#   make soak            rounds of crashes and clock steps            (ROUNDS=200)
#   make clients         the programs of docs/clients.md, against a throw-away server
#   make verify          a model of the protocol, in every state
#   make bench           the benchmark, as a Markdown table
#   make install         build and install into the PostgreSQL of PG_CONFIG
#   make lint            formatting and lints
#
# PG_CONFIG=/path/to/pg_config picks another PostgreSQL than Debian's version 15.

.PHONY: help demo test soak clients verify bench install lint clean

help:
	@sed -n '/^#   make/s/^#   //p' Makefile

demo:
	@scripts/demo.sh

test:
	@scripts/test.sh

soak:
	@scripts/test.sh soak

clients:
	@scripts/test.sh clients

verify:
	@cd docs/model && CARGO_TARGET_DIR=../../target/model cargo run --quiet --release

bench:
	@scripts/bench.sh

install:
	@scripts/setup.sh

lint:
	@scripts/lint.sh

clean:
	cargo clean
