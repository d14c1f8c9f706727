# `make` lists the targets. No logic here: each target is one command of the tools set up in pyproject.toml.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MAXTEXT_VENV ?= .venv-maxtext
MAXTEXT_PYTHON ?= python3.12
MAXTEXT_VERSION ?= 0.2.5
DOCS := README.md $(wildcard docs/*.md)
COG := -I docs -I tests -I .
CASE ?= model_configs/cases/llama3.1-70b-8k.yaml

.DEFAULT_GOAL := help
.PHONY: help setup demo quick test check lint types contracts pytest docs format wheel bench accuracy verify-corpus calibrate ranks \
        mutants maxtext-env maxtext-acceptance clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 22

setup: $(READY) ## Create .venv with shardplan and the tools of development

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m compileall -q shardplan
	@touch $@

demo: $(READY) ## Set up and print the plan of a shipped case (CASE=path for another)
	$(BIN)/shardplan recommend $(CASE)

quick: lint types contracts ## Run everything but the slow oracles, without coverage (a minute)
	$(BIN)/pytest -q -m 'not slow'

test: check ## Set up and run everything (what .ci/run calls)

check: lint types contracts pytest docs wheel ## Run every check

lint: $(READY) ## Format and lint (ruff)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY) ## Check the types (mypy --strict)
	$(BIN)/mypy

contracts: $(READY) ## Check the direction of imports (import-linter)
	$(BIN)/lint-imports

pytest: $(READY) ## Run the tests with branch coverage
	$(BIN)/pytest --cov --cov-fail-under=95

docs: $(READY) ## Check that generated parts of the docs are current
	$(BIN)/cog --check $(COG) $(DOCS)

format: $(READY) ## Format, mend what ruff can, and regenerate the docs
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/cog -r $(COG) $(DOCS)

wheel: $(READY) ## Build the wheel and run it in a clean environment
	$(BIN)/python tests/smoke_wheel.py

bench: $(READY) ## Measure speed as ratios to importing numpy, rows a second and memory, with the machine
	$(BIN)/python -m benchmarks

accuracy: $(READY) ## Print predicted beside compiled memory, by dimension
	$(BIN)/python -m benchmarks.accuracy

calibrate: $(READY) ## Fit the efficiencies in rules/calibration/ to published runs
	$(BIN)/python -m benchmarks.calibrate

ranks: $(READY) ## Find where the search ranks each published plan, for docs/accuracy.md
	$(BIN)/python -m benchmarks.ranks --write

maxtext-env: $(MAXTEXT_VENV)/.ready ## Create the environment with MaxText that verify compiles in (Python 3.12)

$(MAXTEXT_VENV)/.ready:
	$(MAXTEXT_PYTHON) -m venv $(MAXTEXT_VENV)
	$(MAXTEXT_VENV)/bin/python -m pip install --quiet 'maxtext[tpu]==$(MAXTEXT_VERSION)'
	@touch $@

$(MAXTEXT_VENV)-%/.ready: ## Create the environment of an older release, such as .venv-maxtext-0.2.1
	$(MAXTEXT_PYTHON) -m venv $(MAXTEXT_VENV)-$*
	$(MAXTEXT_VENV)-$*/bin/python -m pip install --quiet 'maxtext[tpu]==$*'
	@touch $@

maxtext-acceptance-%: $(READY) $(MAXTEXT_VENV)-%/.ready ## The same for an older release, such as maxtext-acceptance-0.2.1
	$(BIN)/python -m benchmarks.acceptance --python $(MAXTEXT_VENV)-$*/bin/python --release $*

mutants: $(READY) ## Count the small faults that the tests notice: a seeded sample of the physics and the ranking
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	$(BIN)/python -m benchmarks.mutants --write

verify-corpus: $(READY) $(MAXTEXT_VENV)/.ready ## Compile the corpus of configurations again (hours)
	$(BIN)/python -m benchmarks.corpus --python $(MAXTEXT_VENV)/bin/python

maxtext-acceptance: $(READY) $(MAXTEXT_VENV)/.ready ## Feed emitted flags to MaxText's own configuration and tracing (minutes)
	$(BIN)/python -m benchmarks.acceptance --python $(MAXTEXT_VENV)/bin/python
	$(BIN)/python -m benchmarks.trace --python $(MAXTEXT_VENV)/bin/python

clean: ## Remove everything that was built
	rm -rf $(VENV) dist build .coverage htmlcov .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
