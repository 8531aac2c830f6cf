# Everything a person types: demo, test, check, bench. Environments live in .venv*, made on demand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-engine test-engines check format bench docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

test: $(STAMP) ## set up and run the test suite
	$(BIN)/pytest

ENGINE_BIN := .venv-engine/bin
ENGINE_STAMP := .venv-engine/.installed

$(ENGINE_STAMP): tests/engine/constraints.txt pyproject.toml
	python3.11 -m venv .venv-engine
	$(ENGINE_BIN)/pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	$(ENGINE_BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

test-engine: $(ENGINE_STAMP) ## the plugin inside the real vLLM 0.30.0 on CPU (a second environment, 1.8 GB)
	REQUIRE_ENGINE=1 $(ENGINE_BIN)/pytest -m engine --confcutdir=tests/engine -W default --timeout=300 tests/engine

test-engines: $(ENGINE_STAMP) ## the plugin on the real scheduler of eleven vLLM versions
	$(ENGINE_BIN)/python -m tests.engine.versions

check: $(STAMP) ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## rewrite files to the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove environments and caches
	rm -rf .venv .venv-demo .venv-engine .venv-bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
