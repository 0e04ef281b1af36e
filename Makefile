# Everything a newcomer needs. Each target does its own set-up; a second run needs no network.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
SIZE ?= pull-request
TESTS ?= tests
# So many tests at a time, each process with a server of its own; one where the server is given.
WORKERS ?= $(if $(RELEVO_TEST_DSN),0,2)

.DEFAULT_GOAL := help
.PHONY: help setup demo test faults check lint types layers bench soak docs clean

help: ## Say what each target does
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: .venv/.dev ## Prepare the environment for development in .venv
	@echo "ready: $(BIN)/relevo --help"

demo: .venv/.demo ## Run a whole evaluation cycle on an embedded PostgreSQL (ARGS="--people FILE")
	"$(BIN)/relevo" demo $(ARGS)

test: .venv/.dev ## Run the tests on an embedded PostgreSQL (TESTS=tests/engine for a part)
	"$(BIN)/python" -m pytest -q -n $(WORKERS) --dist loadfile $(TESTS) $(ARGS)

faults: .venv/.dev ## Run the fault campaigns (SIZE=nightly ARGS="R1 --seed 1"; minutes, or days)
	PYTHONPATH=tests "$(BIN)/python" -m faults $(SIZE) $(ARGS)

check: lint types layers test ## Check a change: lint, types, layers, tests with the docs' code

lint: .venv/.dev ## Check style and format
	"$(BIN)/ruff" check
	"$(BIN)/ruff" format --check

types: .venv/.dev ## Check types, strictly, twice
	"$(BIN)/mypy"
	"$(BIN)/pyright"

layers: .venv/.dev ## Check that imports go down only
	"$(BIN)/lint-imports" --no-cache

bench: .venv/.dev ## Measure beside raw SQL, with PEERS=1 beside other queues (ARGS="--rounds 1")
	"$(BIN)/python" benchmarks/run.py $(ARGS)

soak: .venv/.dev ## Run a mixed flow for an hour and judge what drifts (ARGS="--minutes 5")
	"$(BIN)/python" benchmarks/soak.py $(ARGS)

docs: .venv/.dev ## Run the code of README and docs
	"$(BIN)/python" -m pytest -q tests/docs

clean: ## Remove the environment and what tools left
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "relevo needs Python 3.11 or newer; set PYTHON=python3.11")'
	"$(PYTHON)" -m venv .venv

.venv/.demo: .venv/bin/python pyproject.toml
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	touch .venv/.demo

.venv/.dev: .venv/bin/python pyproject.toml
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch .venv/.demo .venv/.dev
