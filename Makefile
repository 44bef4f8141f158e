# Every target sets up what it needs. `make` alone lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder  # tests mostly wait, so a third process is worth it on two cores
AGAIN  := --reruns 1 -raR  # the summary has each test that passed at its second try as RERUN: a bug of the test, or a race
CODE   := bench functory handlers journal runner scheduler store tests vocabulary
unexport PYTHONDONTWRITEBYTECODE  # hundreds of processes would compile the same code again

.DEFAULT_GOAL := help
.PHONY: help setup system sandbox ready mongo format check lint types imports test crash races storm mutants fresh machine image demo serve bench bench-peers soak screenshots lock editor clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.develop ## virtual environment in .venv with everything for development

# Set if the environment came along from another place, when the checkout was renamed or copied: then it is made anew.
MOVED := $(shell sh deploy/environment.sh moved && echo moved)
.PHONY: moved

$(VENV)/.run: requirements.lock $(MOVED)
	@sh deploy/environment.sh run $(PYTHON)

$(VENV)/.develop: requirements-dev.lock $(MOVED)
	@sh deploy/environment.sh develop $(PYTHON)

system: ## the Debian packages that tests and handlers use: installed as root, otherwise one command is printed
	@sh deploy/system-packages.sh run languages test mongo

sandbox:
	@sh deploy/system-packages.sh run

# What a running service needs. The two halves wait for different servers, so they go side by side.
ready:
	@$(MAKE) --no-print-directory -j2 $(VENV)/.run sandbox

mongo: ## a server for the MongoDB tests, built once into .cache/mongo (FUNCTORY_TEST_MONGODB_URL or mongod: not needed)
	@sh deploy/system-packages.sh mongo
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

check: lint types imports system ## the fast loop: format, lint, types, import direction, fast tests
	$(BIN)/pytest -q -m "not slow" $(PARALLEL) $(AGAIN)

test: setup system ## all tests; TESTS="-m slow" for those that make check leaves out
	@$(MAKE) --no-print-directory mongo || echo "mongo: no server, its tests are skipped (or fail, if CI is set)" >&2
	$(BIN)/pytest $(PARALLEL) $(AGAIN) $(TESTS)

crash: setup ## the journal's crash model over 100,000 seeded states (`make test` runs 2,000)
	FUNCTORY_CRASH_STATES=100000 $(BIN)/pytest -q --timeout=0 tests/crash/test_crash_model.py

races: setup system ## between two steps of a verb of the store any other, all pairs on both stores (`make test`: one in twelve)
	@$(MAKE) --no-print-directory mongo
	FUNCTORY_RACES=all $(BIN)/pytest -q -n 2 --dist load tests/contract/store/test_races.py tests/contract/store/test_family_races.py \
	  tests/contract/store/test_sibling_races.py tests/mongo/test_child_cut.py

storm: setup system ## 200 faults and 1,000,000 jobs on both stores (`make test`: 6 and 6,000), a pipeline of consumers and workers far away beside; FUNCTORY_STORM_SEED replays one
	@$(MAKE) --no-print-directory mongo
	FUNCTORY_STORM_SEED=$${FUNCTORY_STORM_SEED:-$$(date +%s)} FUNCTORY_STORM_FAULTS=$${FUNCTORY_STORM_FAULTS:-200} \
	  FUNCTORY_STORM_JOBS=$${FUNCTORY_STORM_JOBS:-1000000} FUNCTORY_CONSUMER_FAULTS=$${FUNCTORY_CONSUMER_FAULTS:-30} \
	  FUNCTORY_CONSUMER_INDEXES=$${FUNCTORY_CONSUMER_INDEXES:-100000} \
	  FUNCTORY_WORKER_FAULTS=$${FUNCTORY_WORKER_FAULTS:-50} FUNCTORY_WORKER_JOBS=$${FUNCTORY_WORKER_JOBS:-100000} $(BIN)/pytest -q tests/storm

mutants: setup system ## bugs put into a copy of the code one by one: each must fail a test near it; ONLY=area or words of a name
	nice -n 10 $(BIN)/python -m tests.mutants --only "$(ONLY)"

fresh: ## the README's two commands on pristine Debians, in three places, as root and as a user (root); FRESH='demo part' for less
	@sh deploy/system-packages.sh fresh
	@bash tests/machine/fresh.sh $(FRESH)

machine: ## docs/operations.md, "Install", word for word in a fresh Debian with systemd (root, mmdebstrap, systemd-container)
	@sh deploy/system-packages.sh machine
	@bash tests/machine/systemd.sh

image: ## the container image built for real and run with our options (root, mmdebstrap, buildah, runc)
	@sh deploy/system-packages.sh image
	@bash tests/machine/image.sh

demo: ready ## the whole service at work: tenants, handlers, thousands of jobs, their results
	@$(BIN)/functory demo

serve: ready ## a daemon that stays up, on http://127.0.0.1:8484 with its data in functory-data/
	@$(BIN)/functory serve

bench: setup ## all benchmarks, each beside its limit in the same run; under ten minutes
	@sh deploy/system-packages.sh run languages
	$(BIN)/python -m bench

bench-peers: setup ## ours and other queues on the same work (installs them into .cache/peers)
	@sh deploy/system-packages.sh peers
	$(BIN)/python -m bench.peers

soak: setup sandbox ## half an hour at 70 % of the full load: memory, journal lag and open files stay flat
	$(BIN)/python -m bench.service.soak

screenshots: setup sandbox ## pictures of every page in .cache/screenshots; those of the documentation in docs/images
	@sh deploy/system-packages.sh browser
	$(BIN)/python -m tests.browser.screenshots .cache/screenshots

lock: setup ## pin runtime and development dependencies with hashes
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --custom-compile-command "make lock" pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --custom-compile-command "make lock" pyproject.toml --group dev -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --custom-compile-command "make lock" --group build -o requirements-build.lock

editor: ## build the editor component of the pages from npm (functory/web/pages/codemirror has the versions and the licence)
	@rm -rf .cache/codemirror && mkdir -p .cache && cp -r functory/web/pages/codemirror .cache/codemirror
	cd .cache/codemirror && npm install --no-audit --no-fund --no-package-lock
	# Its styles as a constructed sheet: the policy of the pages refuses a <style> element.
	cd .cache/codemirror && sed -i 's/!root.head && root.adopted/root.adopted/w changed' node_modules/style-mod/src/style-mod.js && test -s changed
	cd .cache/codemirror && npx esbuild entry.js --bundle --minify --format=esm --legal-comments=none --outfile=built.js
	@(echo "/* CodeMirror 6 and Lezer, MIT License, Copyright (C) 2018-2021 by Marijn Haverbeke and others:" \
	  "../codemirror/LICENSE. Built by \`make editor\`. */"; cat .cache/codemirror/built.js) > functory/web/pages/static/codemirror.js

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) .cache .hypothesis bench/results
