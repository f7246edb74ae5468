# `make help` lists what there is. Everything is kept inside this folder: `.tools/` (uv) and `.venv/`.
SHELL := /bin/sh
.DEFAULT_GOAL := help
ARGS ?=

PYTHON_VERSION := $(shell cat .python-version)
UV := $(shell command -v uv 2>/dev/null || echo .tools/uv/bin/uv)
VENV := .venv
PY := $(VENV)/bin/python
STAMPS := $(VENV)/.stamps
export UV_PROJECT_ENVIRONMENT := $(VENV)
export UV_PYTHON_DOWNLOADS := never

.PHONY: help setup demo test browser soak trainer check docs bench format lock clean

help: ## this list
	@grep -E '^[a-z]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 10

.tools/uv/bin/uv:
	@echo "stepwell: installing uv into .tools/ (about 60 MB) ..."
	@python3 -m venv .tools/uv
	@.tools/uv/bin/python -m pip install --quiet --disable-pip-version-check uv

$(VENV)/bin/python: $(if $(findstring /,$(firstword $(UV))),$(UV)) .python-version
	@echo "stepwell: making $(VENV) with Python $(PYTHON_VERSION) ..."
	@$(UV) venv --quiet --allow-existing --python $(PYTHON_VERSION) $(VENV) || \
	 { echo "stepwell: no Python $(PYTHON_VERSION) found; install one (pyenv install $(PYTHON_VERSION)), then run make again"; exit 1; }
	@touch $@

# One stamp per set of packages: the second run finds it and needs no network.
$(STAMPS)/run: requirements/run.txt pyproject.toml $(PY)
	@echo "stepwell: installing what it needs to run (about 950 MB on disk; a few minutes on a slow line) ..."
	@$(UV) pip install --compile-bytecode --python $(PY) --requirement requirements/run.txt
	@$(UV) pip install --quiet --python $(PY) --no-deps --editable .
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dev: requirements/dev.txt pyproject.toml $(PY)
	@echo "stepwell: installing what tests and checks need as well (about 1.1 GB on disk) ..."
	@$(UV) pip install --compile-bytecode --python $(PY) --requirement requirements/dev.txt
	@$(UV) pip install --quiet --python $(PY) --no-deps --editable .
	@mkdir -p $(STAMPS) && touch $@ $(STAMPS)/run

setup: $(STAMPS)/dev ## make .venv with everything for development

demo: $(STAMPS)/run ## run the main job once, on your machine (ARGS="--json", "--data DIR")
	@$(VENV)/bin/stepwell demo $(ARGS)

test: $(STAMPS)/dev ## run the tests (ARGS="-k proxy")
	@$(PY) -m pytest --numprocesses auto --dist loadfile $(ARGS)

browser: ## have Chromium for the dashboard's tests: what is there (STEPWELL_TEST_CHROMIUM), else Debian's, as root
	@if command -v "$${STEPWELL_TEST_CHROMIUM:-chromium}" >/dev/null; then echo "stepwell: $$(command -v "$${STEPWELL_TEST_CHROMIUM:-chromium}")"; \
	 elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { apt-get update -qq; \
	   DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core </dev/null; } >/dev/null 2>&1; \
	 then echo "stepwell: installed $$(command -v chromium)"; \
	 else echo "stepwell: no Chromium here and none could be installed: the dashboard's tests in a browser are skipped"; fi

soak: $(STAMPS)/dev ## kill and pause the warehouse's processes a thousand times (ARGS="--rounds 100 --seed 1 --store s3")
	@$(PY) -m tests.soak $(ARGS)

trainer: ## run the tests with PyTorch in an environment of their own, .tools/trainer (ARGS="-k packed")
	@.ci/trainer $(ARGS)

check: $(STAMPS)/dev ## ruff, mypy --strict, pyright
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/pyright

format: $(STAMPS)/dev ## format and sort imports
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

docs: $(STAMPS)/dev ## write docs/schema.md and docs/openapi.json anew
	@$(PY) -m stepwell.warehouse._schema_page docs/schema.md
	@$(PY) -m stepwell.gateway._openapi docs/openapi.json

bench: $(STAMPS)/dev ## run the benchmarks (ARGS="--json")
	@for file in benchmarks/*.py; do echo "== $$file"; $(PY) $$file $(ARGS) || exit 1; done

lock: $(PY) ## write requirements/*.txt anew from pyproject.toml
	$(UV) pip compile --quiet --universal --python-version $(PYTHON_VERSION) --all-extras pyproject.toml -o requirements/run.txt
	$(UV) pip compile --quiet --universal --python-version $(PYTHON_VERSION) --all-extras --group dev -c requirements/run.txt pyproject.toml -o requirements/dev.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --extra warehouse --group trainer pyproject.toml -o requirements/trainer.txt

clean: ## remove .venv, .tools and caches; data stays
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
