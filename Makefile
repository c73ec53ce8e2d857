# The commands of the project. Each target installs its dependencies: see scripts/setup.sh. If a dependency cannot be
# installed, the target fails. With ALLOW_SKIP=1, it skips the parts that need the dependency, and counts them.
#
#   make                 builds the extension, for the PostgreSQL of PG_CONFIG
#   make install         installs it, below DESTDIR if that is set; builds it first if necessary
#   make installcheck    runs the SQL tests against a running server        (PGHOST=.. PGPORT=..)
#   make demo            eight clients, kill -9, a clock set back; counts and decodes the IDs     (KEEP=1 leaves the server running)
#   make fleet-demo      servers that lease their worker IDs, crash and fail over; compares all IDs
#   make test            runs all tests, on one version of PostgreSQL
#   make test-all        the same, and on 15 to 18 all tests that may depend on the version      (VERSIONS="16 18")
#   make soak            rounds of crashes and clock steps            (ROUNDS=200)
#   make fleet-patroni   registry and shard under Patroni, switched over and killed under load
#   make clients         runs the programs of docs/how-to/clients.md against a throw-away server
#   make test-monitoring tests the metrics of a fleet in Prometheus and its exporter, and each alert
#   make verify          checks models of the protocols, in every state
#   make simulate        simulated fleets with faults, each run from a seed      (SECONDS=60, SEED=.. VERBOSE=1, MUTATIONS=1)
#   make bench           runs the benchmark, prints Markdown tables          (TABLES="throughput latency")
#   make figures         the same; writes CSV files in docs/figures, and tables in docs/explanation/costs.md
#   make instructions    counts the instructions of one ID, compares them with those in git    (RECORD=1 writes them)
#   make pictures        draws the pictures of the book from the CSV files
#   make book            builds the book of docs/ into target/book; checks links, contrast and widths    (BRIEF=1: only links)
#   make dist            builds the archive for PGXN, from the committed files
#   make deb             builds Debian packages in target/deb, for the PostgreSQL of PG_CONFIG
#   make image           builds an extension image for CloudNativePG, for PostgreSQL 18
#   make test-packages   installs, uses, upgrades and purges all of these        (FULL=1 compiles them as for users)
#   make check-19        compiles the extension for PostgreSQL 19, which is not supported yet
#   make lint            checks formatting, runs lints
#   make sql             assembles the scripts of CREATE EXTENSION from the sources, also that of the registry
#   make clean           removes build results
#
# PG_CONFIG=/path/to/pg_config selects another PostgreSQL than Debian's version 15. "make test-all" installs the other
# versions below target/: see scripts/postgresql.sh.

.PHONY: all install installcheck help demo fleet-demo test test-all soak fleet-patroni clients test-monitoring verify simulate bench figures instructions pictures book dist deb image test-packages check-19 lint sql clean

all:
	@scripts/build.sh

install:
	@scripts/install.sh

installcheck:
	@scripts/installcheck.sh

help:
	@sed -n '/^#   make/s/^#   //p' Makefile

demo:
	@scripts/demo.sh

fleet-demo:
	@scripts/test.sh fleet-demo

test:
	@scripts/test.sh

test-all:
	@scripts/test-versions.sh $(VERSIONS)

soak:
	@scripts/test.sh soak

fleet-patroni:
	@scripts/test.sh patroni

clients:
	@scripts/test.sh clients

test-monitoring:
	@scripts/test-monitoring.sh

verify:
	@cd docs/design/model && CARGO_TARGET_DIR=../../../target/model cargo run --quiet --release

simulate:
	@cd tests/simulation && CARGO_TARGET_DIR=../../target/model cargo run --quiet --release -- \
	    SECONDS=$(SECONDS) BASE=$(BASE) SEED=$(SEED) VERBOSE=$(VERBOSE) MUTATION=$(MUTATION) MUTATIONS=$(MUTATIONS)

bench:
	@scripts/bench.sh $(TABLES)

figures:
	@FIGURES=docs/figures scripts/bench.sh $(TABLES)

instructions:
	@scripts/bench.sh instructions $(if $(RECORD),--record)

book:
	@scripts/book.sh

pictures:
	@cargo run --quiet -p snowflake-id-pictures

dist:
	@scripts/dist.sh

deb:
	@scripts/deb.sh

image:
	@scripts/image.sh

test-packages:
	@scripts/test-packages.sh

check-19:
	@scripts/check-19.sh

lint:
	@scripts/lint.sh

sql:
	@scripts/sql.sh

clean:
	cargo clean
