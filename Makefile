# make up runs railwatch on this machine; make test passes the tests. Both build .venv from requirements.lock.
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: up test soak check bench plots lock format generate clean help
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; set PYTHON to a Python 3.11 or newer" >&2; exit 3; }
	@echo "building .venv from requirements.lock; this takes about a minute" >&2
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

up: $(STAMP) ## everything under one supervisor; a simulated node where NVML finds no GPU
	@exec $(BIN)/railwatch up $(ARGS)

test: $(STAMP) ## all tests that need no GPU; ARGS="tests/rules -k cap" chooses
ifdef ARGS
	$(BIN)/python -m pytest $(ARGS)
else
	$(BIN)/python -m pytest -m "not integration and not soak" --numprocesses auto --dist loadfile
	$(BIN)/python -m pytest -m "integration and not alone and not soak" --numprocesses 3 --dist loadfile
	$(BIN)/python -m pytest -m "alone and not soak"
endif

soak: $(STAMP) ## the slow tests that make test leaves out, and the properties with other examples
	$(BIN)/python -m pytest -m soak --numprocesses auto
	$(BIN)/python -m pytest -m "hypothesis and not soak" --numprocesses auto --hypothesis-profile explore

check: $(STAMP) ## format, lint, types, import contracts, plain words, generated references
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy docs/plots docs/converters
	$(BIN)/lint-imports
	$(BIN)/python -m tests.docs.plain_words
	$(BIN)/python -m railwatch.reference.generate --check

bench: $(STAMP) ## every benchmark, side by side
	$(BIN)/python -m bench all

format: $(STAMP) ## format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: $(STAMP) ## rewrite the generated references
	$(BIN)/python -m railwatch.reference.generate

plots: $(STAMP) ## draw the plots of the documentation
	$(BIN)/python docs/plots/draw_simulator.py
	$(BIN)/python docs/plots/draw_rehearsal.py
	$(BIN)/python docs/plots/draw_coverage.py

lock: ## resolve requirements.lock anew (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --extra dev pyproject.toml -o requirements.lock

clean: ## remove what was built here
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
