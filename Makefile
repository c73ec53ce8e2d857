# The commands of the project. Each target installs its dependencies: see scripts/setup.sh. If a dependency cannot be
# installed, the target fails. With ALLOW_SKIP=1, it skips the parts that need the dependency, and counts them.
#
#   make                 builds the extension for the PostgreSQL of PG_CONFIG
#   make install         installs the extension, below DESTDIR if DESTDIR is set
#   make installcheck    runs the SQL tests against a running server        (PGHOST=.. PGPORT=..)
#   make demo            kills a server and sets its clock back while clients take IDs         (KEEP=1 leaves the server running)
#   make fleet-demo      shows a fleet with leased worker IDs, with crashes and failovers
#   make test            runs all tests on one version of PostgreSQL
#   make test-all        runs all tests, and on PostgreSQL 15 to 19 the tests that depend on the version    (VERSIONS="16 18", PART=sql)
#   make soak            tests crashes and clock steps in many rounds            (ROUNDS=200)
#   make fleet-patroni   tests a registry and a shard under Patroni, with failovers under load
#   make citus           tests distributed tables on a cluster of Citus              (PG_CONFIG=.. names a PostgreSQL with Citus)
#   make clients         runs the programs of docs/apps against a temporary server
#   make test-monitoring tests the alerts, and the metrics of a fleet in Prometheus
#   make rehearsal       runs a fleet from the package for an hour, breaks it once a minute, and follows the runbooks   (MINUTES=60, SEED=..)
#   make verify          checks all states of the models of the protocols
#   make simulate        simulates fleets with faults from random seeds      (SECONDS=60, SEED=.. VERBOSE=1, MUTATIONS=1)
#   make lockstep        compares the registry's SQL with its stand-in, on random schedules of calls     (SECONDS=60, MUTATIONS=1, MUTATION=..)
#   make adoptions       converts the tables of random schemas, and compares everything before and after      (SECONDS=60, SEED=.. BASE=..)
#   make fuzz            feeds random input to everything that parses input  (SECONDS=60, TARGET=layout_text)
#   make bench           runs the benchmark, and prints Markdown tables          (TABLES="throughput latency")
#   make figures         runs the benchmark, and updates docs/figures and docs/concepts/performance.md
#   make instructions    counts the instructions for one ID, and compares the counts with the recorded counts    (RECORD=1 records the counts)
#   make pictures        draws the pictures of the book from the CSV files in docs/figures
#   make messages        writes docs/reference/messages.txt, the list of all messages, from the sources
#   make book            builds the book in target/book, and checks links, contrast and widths
#   make design-book     builds the book for contributors in target/design-book
#   make links           checks the links of the book, without building it
#   make dist            builds the archive for PGXN from the committed files
#   make deb             builds Debian packages for the PostgreSQL of PG_CONFIG in target/deb
#   make rpm             builds an RPM package for the PostgreSQL of PG_CONFIG in target/rpm
#   make image           builds an extension image for CloudNativePG and PostgreSQL 18
#   make test-packages   tests the archive, the packages, the image and the crates        (FULL=1 compiles them as for users, PACKAGES="deb rpm")
#   make test-arm64      runs the tests of the core on 64-bit ARM, in an emulator
#   make lint            checks the formatting, and runs lints
#   make sql             assembles the installation scripts of both extensions from the sources
#   make clean           removes build results
#
# PG_CONFIG=/path/to/pg_config selects another PostgreSQL than Debian's version 15. "make test-all" installs the other
# versions below target/: see scripts/postgresql.sh.

.PHONY: all install installcheck help demo fleet-demo test test-all soak fleet-patroni citus clients test-monitoring rehearsal verify simulate lockstep adoptions fuzz bench figures instructions pictures messages book design-book links dist deb rpm image test-packages test-arm64 lint sql clean

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
	@PART=$(PART) scripts/test-versions.sh $(VERSIONS)

soak:
	@scripts/test.sh soak

fleet-patroni:
	@scripts/test.sh patroni

citus:
	@scripts/test.sh citus

clients:
	@scripts/test.sh clients

test-monitoring:
	@scripts/test-monitoring.sh

rehearsal:
	@MINUTES=$(MINUTES) SEED=$(SEED) scripts/rehearsal.sh

verify:
	@cd docs/design/model && CARGO_TARGET_DIR=../../../target/model cargo run --quiet --release

simulate:
	@cd tests/simulation && CARGO_TARGET_DIR=../../target/model cargo run --quiet --release -- \
	    SECONDS=$(SECONDS) BASE=$(BASE) SEED=$(SEED) VERBOSE=$(VERBOSE) MUTATION=$(MUTATION) MUTATIONS=$(MUTATIONS)

lockstep:
	@SNOWFLAKE_ID_LOCKSTEP_SECONDS=$(or $(SECONDS),60) SNOWFLAKE_ID_LOCKSTEP_MUTATION=$(MUTATION) \
	    scripts/test.sh lockstep $(if $(or $(MUTATIONS),$(MUTATION)),mutations_are_found,sql_and_stand_in_agree)

adoptions:
	@export SNOWFLAKE_ID_ADOPTIONS_SECONDS=$(or $(SECONDS),60) $(if $(BASE),SNOWFLAKE_ID_BASE=$(BASE)) \
	    $(if $(SEED),SNOWFLAKE_ID_SEED=$(SEED)); scripts/test.sh adoptions

fuzz:
	@scripts/fuzz.sh "$(SECONDS)" "$(TARGET)"

bench:
	@scripts/bench.sh $(TABLES)

figures:
	@FIGURES=docs/figures scripts/bench.sh $(TABLES)

instructions:
	@scripts/bench.sh instructions $(if $(RECORD),--record)

book:
	@scripts/book.sh

design-book:
	@scripts/book.sh design

links:
	@scripts/book.sh links

messages:
	@SNOWFLAKE_ID_WRITE_MESSAGES=1 scripts/test.sh servers book::messages::the_list_of_messages_is_current

pictures:
	@cargo run --quiet -p snowflake-id-pictures

dist:
	@scripts/dist.sh

deb:
	@scripts/deb.sh

rpm:
	@scripts/rpm.sh

image:
	@scripts/image.sh

test-packages:
	@scripts/test-packages.sh $(PACKAGES)

test-arm64:
	@scripts/test-arm64.sh

lint:
	@scripts/lint.sh

sql:
	@scripts/sql.sh

clean:
	cargo clean
