# `make` lists the targets. PYTHON=/path/to/python chooses the interpreter of a new .venv.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
SHELL := /bin/sh

PY := .venv/bin/python
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
export PYTHON
# the tests start hundreds of processes: each would compile the package again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: .venv/.installed ## install into .venv and reproduce the paper's figures
	.venv/bin/driftrank reproduce

# in the order of tests/conftest.py: xdist would begin with the largest groups and end with the longest tests
# (processes share the cores: threads of NumPy's linear algebra would only wait for each other, and use them up)
PYTEST := OPENBLAS_NUM_THREADS=1 $(PY) -m pytest -q --maxprocesses 8 --dist loadgroup --no-loadscope-reorder
# kernels as plain Python: no compiler, and they count in coverage
INTERPRETED := NUMBA_DISABLE_JIT=1 $(PYTEST)
# the optimiser is part of the kernels' fingerprint, so users never get what tests compiled in haste
COMPILED := NUMBA_OPT=1 $(PYTEST) -n $(shell expr $(JOBS) + 1) -m '(compiled or not interpreted) and not slow'

.PHONY: test
test: prepared ## every check: style, types, imports, wording, tests
	@$(MAKE) -j2 test-beside test-compiled

# one process more than cores, since some tests wait; printed when done, so that it does not mix with the other tests
.PHONY: test-beside
test-beside:
	@{ $(MAKE) lint && $(MAKE) test-interpreted; } >.venv/beside.log 2>&1; status=$$?; cat .venv/beside.log; exit $$status

.PHONY: test-interpreted
test-interpreted: .venv/.installed-dev
	$(INTERPRETED) -n $(shell expr $(JOBS) / 4) -m 'interpreted and not compiled and not slow'

.PHONY: test-compiled
test-compiled: .venv/.collected
	$(COMPILED)

# at first pytest rewrites every file of tests: once, and not in every process
.venv/.collected: .venv/.installed-dev
	@$(PYTEST) -n 0 --collect-only >.venv/collected.log || { tail -n 50 .venv/collected.log; exit 1; }
	@touch $@

.PHONY: test-all
test-all: prepared ## the same with coverage, then everything fully compiled, with the slow tests
	@$(MAKE) lint
	$(INTERPRETED) -n $(JOBS) -m 'not compiled and not slow' --cov --cov-report= \
		$(foreach package,client policies serve,tests/$(package) driftrank/$(package)) tests/engine/test_identity.py
	$(COMPILED) --cov --cov-append --cov-report term --cov-report xml --cov-fail-under 90
	$(PYTEST) -n $(JOBS)

.PHONY: prepared
prepared: # what the checks need, installed side by side
	@$(MAKE) -j2 .venv/.installed-dev packages

.PHONY: packages
packages:
	@sh scripts/packages.sh

.PHONY: lint
lint: .venv/.installed-dev ## style, types, imports between packages, and wording
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	.venv/bin/lint-imports --no-logo
	$(PY) scripts/language.py
	$(PY) scripts/names.py --check

.PHONY: format
format: .venv/.installed-dev ## format the code and fix what ruff can fix
	$(PY) -m ruff check --fix
	$(PY) -m ruff format
	$(PY) scripts/names.py

.PHONY: bench
bench: .venv/.installed ## measure the speed of simulations on this machine
	.venv/bin/driftrank bench

.PHONY: docs
docs: .venv/.installed-dev ## build the documentation site into site/
	$(PY) -m scripts.docs $(DOCS)

.PHONY: release-check
release-check: .venv/.installed-dev ## build the distributions and the site, and try them as users would
	$(PY) -m scripts.docs
	$(PY) -m scripts.release $(RELEASE)

.PHONY: screenshots
screenshots: .venv/.installed-dev packages ## pictures of the live page for docs, by Chromium
	$(PY) scripts/screenshots.py

.PHONY: lock
lock: ## update the versions in requirements.lock (needs Python 3.11)
	$${PYTHON:-python3.11} scripts/lock.py

.PHONY: clean
clean: ## remove .venv, results and caches of tools
	rm -rf .venv out build dist site .coverage coverage.xml .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@sh scripts/venv.sh

.venv/.installed: pyproject.toml requirements.lock | $(PY)
	@$(PY) scripts/install.py '.[logs,plots]'
	@touch $@

.venv/.installed-dev: pyproject.toml requirements.lock | $(PY)
	@$(PY) scripts/install.py '.[dev]'
	@touch .venv/.installed $@
