# Every target sets up what it needs. `make` alone lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CODE   := bench functory handlers journal runner scheduler store tests

.DEFAULT_GOAL := help
.PHONY: help setup system runtime mongo format check lint types imports test crash demo serve bench screenshots lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## virtual environment in .venv with the locked dependencies

$(STAMP): requirements-dev.lock pyproject.toml
	@sh deploy/preflight.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

system: ## Debian packages for the sandbox and the tests: installs as root, otherwise tells what is missing
	@sh deploy/system-packages.sh

runtime:
	@sh deploy/system-packages.sh run

mongo: ## a server for the MongoDB tests, built once into .cache/mongo (FUNCTORY_TEST_MONGODB_URL or mongod: not needed)
	@bash tests/servers/mongo/build.sh .cache/mongo

format: setup ## rewrite the code in the house format
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

lint: setup
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports --cache-dir .cache/importlinter

check: lint types imports ## the fast loop: format, lint, types, import direction, fast tests
	$(BIN)/pytest -q -m "not slow"

test: setup system ## all tests
	@$(MAKE) --no-print-directory mongo || echo "mongo: no server, its tests are skipped (or fail, if CI is set)" >&2
	$(BIN)/pytest

crash: setup ## the journal's crash model over 100,000 seeded states (`make test` runs 3,000)
	FUNCTORY_CRASH_STATES=100000 $(BIN)/pytest -q --timeout=0 tests/crash/test_crash_model.py

demo: setup runtime ## the whole service at work: tenants, handlers, thousands of jobs, their results
	@$(BIN)/functory demo

serve: setup runtime ## a daemon that stays up, on http://127.0.0.1:8484 with its data in functory-data/
	@$(BIN)/functory serve

bench: setup ## all benchmarks, each beside its limit in the same run
	$(BIN)/python -m bench

screenshots: setup system ## pictures of every page in .cache/screenshots; those of the documentation in docs/images
	$(BIN)/python -m tests.browser.screenshots .cache/screenshots

lock: setup ## pin runtime and development dependencies with hashes
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --custom-compile-command "make lock" pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --custom-compile-command "make lock" pyproject.toml --group dev -o requirements-dev.lock

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) .cache .hypothesis bench/results
