# Everything a user types. Each target does all of its set-up itself: see scripts/setup.sh. What
# cannot be installed is a failure; with ALLOW_SKIP=1 it is skipped, and counted.
#
#   make                 builds the extension, for the PostgreSQL of PG_CONFIG
#   make install         installs it, below DESTDIR if that is set; what is not built is built
#   make installcheck    the SQL tests, against a server that is running  (PGHOST=.. PGPORT=..)
#   make demo            a table filled by eight clients, decoded, counted      (KEEP=1 leaves the server up)
#   make fleet-demo      servers that lease their worker IDs, crashes and failovers, all IDs compared
#   make test            all tests, on one version of PostgreSQL
#   make test-all        the same, and on 15 to 18 what may depend on the version         (VERSIONS="16 18")
#   make soak            rounds of crashes and clock steps            (ROUNDS=200)
#   make fleet-patroni   registry and shard under Patroni, switched over and killed under load
#   make clients         the programs of docs/how-to/clients.md, against a throw-away server
#   make test-monitoring what Prometheus and its exporter see of a fleet, and each alert
#   make verify          models of the protocols, in every state
#   make simulate        simulated fleets with faults, each run from a seed      (SECONDS=60, SEED=.. VERBOSE=1, MUTATIONS=1)
#   make bench           the benchmark, as Markdown tables          (TABLES="throughput latency")
#   make figures         the same, and its figures as CSV files in docs/figures and as tables in docs/explanation/costs.md
#   make instructions    instructions of one ID, compared with those in git           (RECORD=1 writes them)
#   make pictures        the pictures of the book, drawn from these
#   make book            the book of docs/, into target/book; and all links, also those of the Markdown files
#   make dist            the archive for PGXN, of what is committed
#   make deb             Debian's packages, for the PostgreSQL of PG_CONFIG
#   make image           an extension image for CloudNativePG, for PostgreSQL 18
#   make test-packages   all of these: installed, used, upgraded, purged      (FULL=1 compiles them as for users)
#   make check-19        compiles the extension for PostgreSQL 19, which is not supported yet
#   make lint            formatting and lints
#   make sql             assembles the scripts of CREATE EXTENSION from the sources, also that of the registry
#
# PG_CONFIG=/path/to/pg_config picks another PostgreSQL than Debian's version 15. "make test-all" gets its own, and keeps
# them below target/: see scripts/postgresql.sh.

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
