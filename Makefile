# Every target sets up what it needs. `make` alone lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PARALLEL := -n 3 --dist loadfile  # tests mostly wait, so a third process is worth it on two cores
CODE   := bench functory handlers journal runner scheduler store tests

.DEFAULT_GOAL := help
.PHONY: help setup system runtime mongo format check lint types imports test crash storm machine image demo serve bench bench-peers soak screenshots lock clean

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
	$(BIN)/pytest -q -m "not slow" $(PARALLEL)

test: setup system ## all tests
	@$(MAKE) --no-print-directory mongo || echo "mongo: no server, its tests are skipped (or fail, if CI is set)" >&2
	$(BIN)/pytest $(PARALLEL)

crash: setup ## the journal's crash model over 100,000 seeded states (`make test` runs 3,000)
	FUNCTORY_CRASH_STATES=100000 $(BIN)/pytest -q --timeout=0 tests/crash/test_crash_model.py

storm: setup system ## 200 faults and 1,000,000 jobs on both stores (`make test`: 20 and 20,000); FUNCTORY_STORM_SEED replays one
	@$(MAKE) --no-print-directory mongo
	FUNCTORY_STORM_SEED=$${FUNCTORY_STORM_SEED:-$$(date +%s)} FUNCTORY_STORM_FAULTS=$${FUNCTORY_STORM_FAULTS:-200} \
	  FUNCTORY_STORM_JOBS=$${FUNCTORY_STORM_JOBS:-1000000} $(BIN)/pytest -q tests/storm

machine: ## docs/operations.md, "Install", word for word in a fresh Debian with systemd (root, mmdebstrap, systemd-container)
	@bash tests/machine/systemd.sh

image: ## the container image built for real and run with our options (root, mmdebstrap, buildah, runc)
	@bash tests/machine/image.sh

demo: setup runtime ## the whole service at work: tenants, handlers, thousands of jobs, their results
	@$(BIN)/functory demo

serve: setup runtime ## a daemon that stays up, on http://127.0.0.1:8484 with its data in functory-data/
	@$(BIN)/functory serve

bench: setup runtime ## all benchmarks, each beside its limit in the same run; under ten minutes
	$(BIN)/python -m bench

bench-peers: setup runtime ## ours and other queues on the same work (installs them into .cache/peers)
	$(BIN)/python -m bench.peers

soak: setup runtime ## half an hour at 70 % of the full load: memory, journal lag and open files stay flat
	$(BIN)/python -m bench.soak

screenshots: setup system ## pictures of every page in .cache/screenshots; those of the documentation in docs/images
	$(BIN)/python -m tests.browser.screenshots .cache/screenshots

lock: setup ## pin runtime and development dependencies with hashes
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --custom-compile-command "make lock" pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --custom-compile-command "make lock" pyproject.toml --group dev -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --custom-compile-command "make lock" --group build -o requirements-build.lock

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) .cache .hypothesis bench/results
