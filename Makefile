# Everything a person types: demo, test, check, bench. Environments live in .venv*, made on demand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-browser test-engine test-engines test-deploy test-dashboards check format bench bench-live bench-fleet docs dashboards previews manifests golden clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

DEMO := .venv-demo
$(DEMO)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

demo: $(DEMO)/.installed ## run the daemon on the bundled recording, at http://localhost:10411/live
	@echo "Open http://localhost:10411/live (Ctrl-C ends it)"
	@$(DEMO)/bin/vllm-memory-exporter demo

test: $(STAMP) ## set up and run the test suite
	$(BIN)/pytest --ignore=tests/browser

test-browser: $(STAMP) ## the live page in Debian's chromium
	$(BIN)/pytest tests/browser

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

DEPLOY_BIN := .venv-deploy/bin
DEPLOY_STAMP := .venv-deploy/.installed

$(DEPLOY_STAMP): pyproject.toml tests/deploy/fetch_tools.sh
	$(PYTHON) -m venv .venv-deploy
	$(DEPLOY_BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,deploy]'
	tests/deploy/fetch_tools.sh $(DEPLOY_BIN)
	@touch $@

test-deploy: $(DEPLOY_STAMP) ## image, manifests, chart and compose files against their validators (needs Debian)
	REQUIRE_DEPLOY=1 $(DEPLOY_BIN)/pytest -p no:cloudcoil tests/deploy

GRAFANA_TYPES := .npm-dashboards
$(GRAFANA_TYPES)/.installed: tests/dashboards/schema/package.json
	mkdir -p $(GRAFANA_TYPES) && cp $< $(GRAFANA_TYPES)
	npm install --prefix $(GRAFANA_TYPES) --no-package-lock --no-audit --no-fund --silent
	@touch $@

test-dashboards: $(STAMP) $(GRAFANA_TYPES)/.installed ## the boards, also against Grafana's own types (needs npm)
	REQUIRE_TYPES=1 $(BIN)/pytest tests/dashboards

check: $(STAMP) ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## rewrite files to the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

BENCH := .venv-bench
$(BENCH)/.installed:
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install --quiet --disable-pip-version-check nvitop-exporter==1.7.2
	@touch $@

bench: $(STAMP) $(BENCH)/.installed ## print the budgets' figures; needs gcc, takes 7 minutes
	$(BIN)/python -m tests.bench.bench_lateness
	$(BIN)/python -m tests.bench.bench_trace_reading
	$(BIN)/python -m tests.bench.bench_analysis
	$(BIN)/python -m tests.bench.bench_live_server
	$(BIN)/python -m tests.bench.bench_daemon --peer $(BENCH)/bin/nvitop-exporter

bench-live: $(STAMP) ## the live page in chromium: sample to pixel, frames, heap, bytes; 2 minutes
	$(BIN)/python -m tests.bench.bench_live_page

bench-fleet: $(STAMP) ## the fleet board at 1,000 nodes x 8 GPUs x 6 h; 15 GB of disk, 10 minutes on an idle machine
	$(BIN)/python -m tests.bench.bench_fleet

docs: $(STAMP) ## write docs/metrics.md from the metric table
	$(BIN)/python -m exporter.views.metrics.reference > docs/metrics.md

dashboards: $(STAMP) ## write dashboards/*.json from their generator
	$(BIN)/python -m dashboards.generate

previews: $(STAMP) ## draw docs/images/board-*.png and incident-*.png; needs npm, chromium, prometheus; 4 minutes
	$(BIN)/python -m tests.tools.board_previews

manifests: $(STAMP) ## write the Prometheus operator's rules from deploy/prometheus/rules
	$(BIN)/python -m tests.tools.make_prometheus_rules > deploy/kubernetes/components/prometheus-operator/prometheusrules.yaml

golden: $(STAMP) ## write the golden files anew; read the diff before committing
	$(BIN)/python -m tests.golden.capture

clean: ## remove environments and caches
	rm -rf .venv .venv-demo .venv-engine .venv-deploy .venv-bench .npm-dashboards .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
