# `make` alone lists the targets. Every target first sets up what it needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# SPARK=4.1 runs any target on that version of Spark, in a separate environment.
NEWEST := 4.3
SPARK := $(NEWEST)
VENV := $(if $(filter $(NEWEST),$(SPARK)),.venv,build/spark-$(SPARK))
BIN := $(VENV)/bin
CLICKS := build/clicks
PICTURE := build/state.svg

# The number of parallel test processes, on two cores: one of them is mostly busy with Spark, and
# tests of real processes often wait.
TESTERS := 3
LONG_TESTERS := 2

# Java is located on use, after setup. Spark's workers run the same Python.
WITH_JAVA = JAVA_HOME="$$(scripts/java.sh)" PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python"

# Tests start hundreds of processes, which would all compile what they import.
export PYTHONDONTWRITEBYTECODE :=

PYTEST = $(WITH_JAVA) $(BIN)/pytest --dist worksteal --durations 20

# Tests of pages are skipped where there is no browser.
BROWSER = scripts/browser.sh --install build/page-tools

.PHONY: help setup run test test-all check unit bench bench-state bench-sidecar bench-test observe oracle variants fuzz laws mutants crash crash-sidecar crash-backend crash-definition soak page-test schema dashboards lock clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## create .venv with the locked dependencies, and find or install Java (SPARK=4.3)
	@scripts/setup.sh $(VENV) $(SPARK)

run: setup ## run the main job on a generated click stream, from scratch (ARGS="--source PATH")
	@$(BIN)/idlestate generate clicks --out $(CLICKS) --overwrite # keeps a complete folder
	@$(WITH_JAVA) $(BIN)/idlestate run config/clicks.yaml --afresh --picture $(PICTURE) $(ARGS)

# Lint and type checks run on the newest Spark only. Type checks use one core for as long as the
# test processes take to start, so they run beside the tests; what they say comes last.
LINT = $(BIN)/ruff check && $(BIN)/ruff format --check
TYPES = $(BIN)/mypy
SAID = build/types.txt
ON_NEWEST = $(if $(filter .venv,$(VENV)),$(1),true)

test: setup ## run lint, type checks and the short form of every test (ARGS="-k name", SPARK=4.1)
	@mkdir -p build; $(BROWSER) >/dev/null & $(call ON_NEWEST,$(LINT)) && wait
	@echo "test: every test but the long ones"
	@$(call ON_NEWEST,$(TYPES)) >$(SAID) 2>&1 & types=$$!; \
	$(PYTEST) -n $(TESTERS) -m "not long" $(ARGS); tests=$$?; \
	wait $$types || tests=1; cat $(SAID); exit $$tests

# The classes of JVMs are saved while the first long tests run: one that starts before that loads
# its classes itself.
test-all: test ## run make test, then the long tests (kills, soak, clusters, S3, long random tests)
	@echo "test-all: the long tests"
	@$(WITH_JAVA) $(BIN)/python tests/share_classes.py & classes=$$!; \
	$(PYTEST) -n $(LONG_TESTERS) -m "long and not variant" $(ARGS); tests=$$?; \
	wait $$classes || tests=1; exit $$tests

check: setup ## run lint, format and type checks only
	@$(LINT) && $(TYPES)

unit: setup ## run the tests that need no JVM (ARGS="-k name")
	@$(BIN)/pytest -m "not spark and not long" $(ARGS)

bench: bench-state ## measure keyed state, the pipeline against Spark's own operators, and a sidecar (ARGS)
	@$(WITH_JAVA) $(BIN)/python benchmarks/main.py $(ARGS)

bench-state: setup ## measure keyed state against dict, rocksdict and Redis (STATE="--quick")
	@scripts/redis.sh
	@$(BIN)/python benchmarks/state.py $(STATE)

bench-test: setup ## run the quick form of every benchmark, to see that it works
	@scripts/redis.sh
	@IDLESTATE_BENCH_SMOKE=1 $(WITH_JAVA) $(BIN)/pytest tests/benchmarks $(ARGS)

observe: setup ## run a demo job, a sidecar and Prometheus with the alerts, until Ctrl-C
	@$(WITH_JAVA) $(BIN)/python scripts/observe.py build/observe $(ARGS)

oracle: setup ## run whole real data sets and compare with an oracle (IDLESTATE_DATA_DIR)
	@$(WITH_JAVA) $(BIN)/python tests/oracle/main.py $(ARGS)

variants: setup ## run what make test and make test-all run in one form in all others: other backends, rules, numbers
	@$(WITH_JAVA) $(BIN)/python tests/share_classes.py
	@$(PYTEST) -n $(LONG_TESTERS) -m variant $(ARGS)

fuzz: setup ## run a million random steps of keyed state on heap, RocksDB and a model (N=1000000)
	@IDLESTATE_FUZZ_STEPS=$(or $(N),1000000) $(BIN)/pytest -m "not long" tests/state/test_state_machine.py $(ARGS)

laws: setup ## try N times the random cases that make test tries, new ones on every run (N=30)
	@IDLESTATE_LAW_TIMES=$(or $(N),30) $(PYTEST) -n $(LONG_TESTERS) -m law $(ARGS)

mutants: setup ## mutate the rules of retention and of operators; each mutant must make a test fail
	@$(BIN)/python tests/mutants/main.py $(ARGS)

crash: setup ## kill a running query N times and compare the results (N=20, BACKEND=spark|rocksdb|heap)
	@$(WITH_JAVA) $(BIN)/python tests/share_classes.py
	@$(WITH_JAVA) $(BIN)/python tests/crash/main.py $(or $(N),20) --backend $(or $(BACKEND),spark) $(ARGS)

crash-sidecar: setup ## kill a sidecar N times during exchanges and writes, without a JVM (N=100, BACKEND=rocksdb|heap)
	@$(BIN)/python tests/crash/exchange_suite.py --kills $(or $(N),100) --backend $(or $(BACKEND),rocksdb) $(ARGS)

bench-sidecar: setup ## measure a sidecar against Redis: writes, look-ups, sweeps, startup
	@scripts/redis.sh
	@$(BIN)/python benchmarks/sidecar.py $(ARGS)

soak: setup ## run a query for an hour on a compressed clock; nothing may grow (MINUTES=60)
	@$(WITH_JAVA) $(BIN)/python tests/soak/main.py $(or $(MINUTES),60) $(ARGS)

crash-backend: setup ## kill a process that writes keyed state N times and check what is left (N=200)
	@IDLESTATE_BACKEND_CRASHES=$(or $(N),200) $(BIN)/pytest -m long tests/crash/test_crash_backend.py $(ARGS)

crash-definition: setup ## change a query's definition twice over a million keys, killing it N times (N=12)
	@$(WITH_JAVA) $(BIN)/python tests/crash/definition_suite.py $(or $(N),12) $(ARGS)

page-test: setup ## test the status page and the advice page in a headless browser, which is installed where allowed
	@$(BROWSER) >/dev/null
	@$(BIN)/pytest tests/page $(ARGS)

schema: setup ## generate the JSON Schema of the configuration files
	@$(BIN)/idlestate schema --out config/idlestate.schema.json

dashboards: setup ## generate the Grafana dashboards, and check them against Grafana's types
	@$(BIN)/python -m idlestate.metrics.dashboards.generate
	@$(BIN)/pytest -q tests/metrics/test_dashboards.py tests/metrics/test_dashboard_types.py

lock: ## resolve the dependencies again (needs uv; ARGS=--upgrade)
	@scripts/lock.sh $(ARGS)

clean: ## remove all build and run output, including .venv
	rm -rf .venv build dist src/*.egg-info spark-warehouse metastore_db derby.log
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
