# Everything a person types. `make` alone prints this list; the work is done by `inquest`.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
SHELL := /bin/bash

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
RUN ?= results/latest
# Which share of sampled tests runs: by the date; PART= runs them all.
PART ?= $(shell date +%j | sed 's/^0*//')
# Clusters side by side: they wait for time-outs more than for processors.
DOCKER_JOBS ?= 2
# Python keeps what it compiled, whatever the environment says: tests start hundreds of processes.
ONE = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --durations=15 $(if $(PART),--part $(PART))
# A process more than processors: tests that start processes wait for a part of their time.
PYTEST = $(ONE) -n $$(($$(nproc) + 1)) --dist worksteal
REAL := tests/browser tests/docker
KAFKA_OPTION := $(if $(KAFKA),--kafka $(KAFKA))

# What the command line may give. Any other variable is a misspelt one: the run would have other settings than
# were meant.
VARIABLES := NEMESIS SCHEDULE WORKLOAD PRESET SUT KAFKA UPGRADE SEED DURATION BROKERS RATE MASTER RUN BUDGET MATRIX \
	REQUESTS HELD VERSIONS PART DOCKER_JOBS COMMAND PYTHON BIN INSTALLED SHELL MAKEFLAGS
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command line,$(origin $(name))),$(name)))
UNKNOWN := $(sort $(filter-out $(VARIABLES),$(GIVEN)))
$(if $(UNKNOWN),$(error unknown variable $(UNKNOWN): make knows $(VARIABLES)))

JAVA_CLIENT := java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -jar examples/clients/java/target/client.jar
STREAMS := java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m -jar examples/applications/streams/target/streams.jar

# Options of `make test-run`, passed on only where they are given.
RUN_OPTIONS = $(foreach name,NEMESIS SCHEDULE WORKLOAD PRESET SUT KAFKA UPGRADE SEED DURATION BROKERS RATE MASTER,\
	$(if $($(name)),--$(shell echo $(name) | tr A-Z a-z) '$($(name))'))

# make knows failure only as 2: say inquest's own exit code, and end with it.
define with_exit_code
	@$(1); code=$$?; [ $$code -eq 0 ] || echo "make: inquest's exit code is $$code"; exit $$code
endef

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(INSTALLED) ## virtual environment, Docker engine, images; quick if complete
	@$(BIN)/inquest setup $(KAFKA_OPTION) $(if $(UPGRADE),--upgrade '$(UPGRADE)')

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is too old or missing: give make PYTHON=python3.11 or later" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
		|| { [ "$$(id -u)" = 0 ] && apt-get update -q && apt-get install -y -q python3-venv; } \
		|| { echo "$(PYTHON) cannot make virtual environments: install python3-venv" >&2; exit 1; }
	@echo "installing the libraries, 1.5 GB: some minutes"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

.PHONY: test-run
test-run: $(if $(filter-out kafka,$(SUT)),$(INSTALLED),setup) ## one run, its check and report: NEMESIS= SCHEDULE= WORKLOAD= PRESET= SUT= KAFKA= UPGRADE= SEED= DURATION= BROKERS= RATE= MASTER=
	$(call with_exit_code,$(BIN)/inquest run $(RUN_OPTIONS))

.PHONY: demo
demo: $(INSTALLED) ## a loss found and explained in 20 seconds, without Docker and Kafka
	$(call with_exit_code,$(BIN)/inquest demo)

.PHONY: soak
soak: setup ## run after run within BUDGET= (30m), then results/index.html: MATRIX= SEED=
	$(call with_exit_code,$(BIN)/inquest soak $(if $(BUDGET),--budget '$(BUDGET)') \
		$(if $(MATRIX),--matrix '$(MATRIX)') $(if $(SEED),--seed '$(SEED)'))

.PHONY: contract
contract: setup ## the model against a real broker, by scenarios and random requests: KAFKA= REQUESTS= SEED= HELD=
	$(call with_exit_code,$(BIN)/inquest model contract $(KAFKA_OPTION) \
		$(if $(REQUESTS),--requests '$(REQUESTS)') $(if $(SEED),--seed '$(SEED)') \
		$(if $(HELD),--held --no-scenarios))

.PHONY: check
check: $(INSTALLED) ## judge a recorded run again: RUN=results/… or a URL, MASTER=
	$(call with_exit_code,$(BIN)/inquest check '$(RUN)' $(if $(MASTER),--master '$(MASTER)'))

.PHONY: spark-cluster
spark-cluster: $(INSTALLED) ## a Spark master and two workers on this machine; make check MASTER=… uses them
	@$(BIN)/python -m harness.cli.spark_cluster start

.PHONY: spark-cluster-stop
spark-cluster-stop: $(INSTALLED) ## stop them
	@$(BIN)/python -m harness.cli.spark_cluster stop

.PHONY: report
report: $(INSTALLED) ## build the report of a checked run again: RUN=results/…
	$(call with_exit_code,$(BIN)/inquest report '$(RUN)')

.PHONY: pictures
pictures: $(INSTALLED) ## docs/images: the first screen of RUN=results/… and the index of its folder, in Chromium
	$(BIN)/python -m tests.browser.picture '$(RUN)/report.html' docs/images/report.png 1250
	$(BIN)/python -m tests.browser.picture '$(dir $(RUN:/=))index.html' docs/images/index.png 1000

.PHONY: catalogue
catalogue: $(INSTALLED) ## write the generated parts of docs/
	$(BIN)/python -m harness.cli.catalogue docs

.PHONY: doctor
doctor: $(INSTALLED) ## this machine's prerequisites
	$(call with_exit_code,$(BIN)/inquest doctor)

.PHONY: test
test: $(INSTALLED) ## everything: lint, types, imports, all tests; of long series the share of the day
	@$(MAKE) -j 2 --output-sync=line types setup-tests lint imports compiled
	@$(MAKE) test-fast
	@$(MAKE) test-browser
	@$(MAKE) test-docker

.PHONY: test-all
test-all: ## make test with every case of every series; the nightly job runs it
	@$(MAKE) test PART=

.PHONY: test-quick
test-quick: $(INSTALLED) ## two minutes: no Docker, no browser, no Spark, no whole runs
	$(PYTEST) $(addprefix --ignore=,$(REAL)) -m 'not spark and not faults and not slow'

.PHONY: test-versions
test-versions: $(INSTALLED) ## test-quick with the lowest versions of the libraries below, or the newest: VERSIONS=lowest|highest
	@case '$(VERSIONS)' in lowest|highest) ;; *) echo "give VERSIONS=lowest or VERSIONS=highest" >&2; exit 1;; esac
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-$(VERSIONS)
	$(BIN)/uv pip install --quiet --python .venv-$(VERSIONS)/bin/python --resolution $(VERSIONS:lowest=lowest-direct) -e '.[test]'
	$(MAKE) test-quick BIN=.venv-$(VERSIONS)/bin INSTALLED=

.PHONY: setup-tests
setup-tests: $(INSTALLED)
	@$(BIN)/python -c 'from harness.cli.doctor import setup; setup(tests=True)'

.PHONY: lint
lint: $(INSTALLED) ## ruff; plain words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.words

.PHONY: types
types: $(INSTALLED) ## mypy --strict
	$(BIN)/mypy

.PHONY: imports
imports: $(INSTALLED) ## who may import whom
	$(BIN)/lint-imports

.PHONY: compiled
compiled: $(INSTALLED) # pytest compiles each test once here, and not in each of its processes
	@found=$$($(ONE) --collect-only --quiet tests 2>&1) || { tail -n 40 <<< "$$found"; exit 1; }

.PHONY: test-fast
test-fast: $(INSTALLED) ## tests without browser and Docker
	$(PYTEST) $(addprefix --ignore=,$(REAL))

.PHONY: test-browser
test-browser: $(INSTALLED) ## the report in headless Chromium
	$(ONE) -n 2 --dist worksteal tests/browser

.PHONY: test-docker
test-docker: $(INSTALLED) ## tests on a real cluster, two side by side; DOCKER_JOBS=1: one after the other
	$(ONE) -n $(DOCKER_JOBS) --dist loadfile --no-loadscope-reorder tests/docker

.PHONY: test-findings
test-findings: ## the JUnit tests of docs/findings against Kafka's published jars (Maven): each has to fail as it says
	$(BIN)/python -m tests.junit docs/findings/junit

.PHONY: test-clients
test-clients: $(INSTALLED) ## the Java, Go and aiokafka clients of examples/ keep their protocol, and make a run on brokers of the model
	mvn -q -B -f examples/clients/java/pom.xml package
	go build -C examples/clients/go -o client .
	@$(MAKE) test-client COMMAND='$(JAVA_CLIENT)'
	@$(MAKE) test-client COMMAND=examples/clients/go/client
	@$(MAKE) test-client COMMAND='$(BIN)/python examples/clients/aiokafka_client.py'

.PHONY: test-streams
test-streams: $(INSTALLED) ## the Kafka Streams application of examples/ is built, and exactly once on brokers of Kafka; at least once it is found
	mvn -q -B -f examples/applications/streams/pom.xml package
	$(BIN)/inquest run --duration 30 --app '$(STREAMS) copy'
	$(BIN)/inquest run --duration 30 --app '$(STREAMS) count' --set 'app={"shape":"aggregate"}'
	$(BIN)/inquest run --duration 30 --app '$(STREAMS) copy at_least_once' --set 'expect=["eos-duplicate"]' --set commit=after

.PHONY: test-client
test-client:
	$(BIN)/inquest client-test '$(COMMAND)'
	$(BIN)/inquest run --sut model --workload copier --nemesis kill,client --duration 20 --client '$(COMMAND)'
	$(BIN)/inquest run --sut model --workload transactions --nemesis kill,client --duration 20 --client '$(COMMAND)'

.PHONY: bench
bench: setup ## repeatable measurements
	$(BIN)/python -m benchmarks.throughput
	$(BIN)/python -m benchmarks.check_scale

.PHONY: clean
clean: ## remove the virtual environment and tools' caches; run folders and images stay
	rm -rf .venv .venv-lowest .venv-highest .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
