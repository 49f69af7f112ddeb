# `make` lists what there is. PYTHON=/path/to/python chooses the interpreter of a new .venv.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
SHELL := /bin/sh

PY := .venv/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --constraint requirements.lock
# the build tools are installed first and used as they are, so that the lock holds for them too
BUILD := hatchling editables
JOBS ?= auto
export PYTHON

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: .venv/.installed ## install into .venv and reproduce the paper's figures
	.venv/bin/driftrank reproduce

.PHONY: test
test: lint ## every check: style, types, imports between rooms, tests with coverage
	@sh scripts/packages.sh
	$(PY) -m pytest -n $(JOBS) --maxprocesses 8 --dist loadgroup --cov --cov-report term --cov-report xml --cov-fail-under 90

.PHONY: lint
lint: .venv/.installed-dev ## style, types, and imports between rooms
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	.venv/bin/lint-imports --no-logo

.PHONY: format
format: .venv/.installed-dev ## bring the code into shape
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

.PHONY: bench
bench: .venv/.installed ## measure how fast simulations are on this machine
	.venv/bin/driftrank bench

.PHONY: lock
lock: ## choose the versions in requirements.lock anew (needs Python 3.11)
	$${PYTHON:-python3.11} scripts/lock.py

.PHONY: clean
clean: ## remove .venv, results and caches of tools
	rm -rf .venv out build dist .coverage coverage.xml .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip says much when it cannot install; this is the last line
NO_INDEX := { echo "driftrank: pip could not install the above; a package index or a folder of wheels must be in reach" >&2; exit 1; }

$(PY):
	@sh scripts/venv.sh

.venv/.installed: pyproject.toml requirements.lock | $(PY)
	@echo 'driftrank: installing into .venv'
	@$(PIP) $(BUILD) || $(NO_INDEX)
	@$(PIP) --no-build-isolation --editable . || $(NO_INDEX)
	@touch $@

.venv/.installed-dev: pyproject.toml requirements.lock | $(PY)
	@echo 'driftrank: installing into .venv'
	@$(PIP) $(BUILD) || $(NO_INDEX)
	@$(PIP) --no-build-isolation --editable '.[dev]' || $(NO_INDEX)
	@touch .venv/.installed $@
