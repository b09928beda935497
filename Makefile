# Two commands for a start: `make demo` and `make test`. Both set up what they need.
#
#   PYTHON=python3.12   the Python to set up with (default: the first on the PATH that is new enough)
#   MODEL=name          for `make demo`: a real model instead of the playbook
#   ARGS='-k thread'    for `make test`, `make bench` and `make chaos`: passed on
#   SEED= SCENARIO= MINUTES=  for `make chaos`
VENV := .venv
BIN := $(VENV)/bin
# Most tests wait for a server or a process: more of them than cores.
PYTEST := $(BIN)/pytest -n 4 --dist loadfile
SAY := @printf '\n==> %s\n'

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint fix bench attacks chaos fuzz up docs clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup:  ## Create .venv and install threadbus with everything that its tests need
	@VENV='$(VENV)' PYTHON='$(PYTHON)' sh ops/setup.sh

demo: setup  ## Run a team of agents on real files (MODEL=… for a real model)
	@$(BIN)/bus demo $(if $(MODEL),--model '$(MODEL)')

test: setup  ## Run every test and every example of the documentation
	@$(PYTEST) $(ARGS)

check: lint  ## Run everything that CI wants: format, lint, types, imports, generated files, tests
	$(SAY) 'tests and executed documentation: pytest'
	@$(PYTEST)

lint: setup  ## Run the same without the tests
	$(SAY) 'format and lint: ruff'
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	$(SAY) 'types: mypy'
	@$(BIN)/mypy
	$(SAY) 'types: pyright'
	@$(BIN)/pyright
	$(SAY) 'who may import whom: import-linter'
	@$(BIN)/lint-imports
	$(SAY) 'generated files are up to date'
	@$(BIN)/python -m docs.generators --check

fix: setup  ## Repair what can be repaired: lint, format, generated files
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .
	@$(BIN)/python -m docs.generators

bench: setup  ## Measure against plain nats-py and print the ratios
	@$(BIN)/python -m benchmarks $(ARGS)

attacks: setup  ## Attack secured servers with an agent's key and print what came of it (FORMS=…)
	@$(BIN)/python -m benchmarks.attacks $(FORMS)

chaos: setup  ## Break things under agents at work and check what is left (SEED=… SCENARIO=… MINUTES=…)
	@$(BIN)/python -m tests.chaos $(if $(SEED),--seed '$(SEED)') $(if $(SCENARIO),--scenario '$(SCENARIO)') \
		$(if $(MINUTES),--minutes '$(MINUTES)') $(ARGS)

fuzz: setup  ## Fuzz what reads foreign bytes, with coverage as the guide (MINUTES=…)
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/pip install -q --constraint constraints.txt --group fuzz || true
	@$(BIN)/python -m tests.fuzz $(if $(MINUTES),--minutes '$(MINUTES)') $(ARGS)

up: setup  ## Keep a server running in this terminal
	@$(BIN)/bus up

docs: setup  ## Write the generated files again: indexes, schemas, lists of public names
	@$(BIN)/python -m docs.generators

clean:  ## Remove .venv, caches and build results; data of a bus stays
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
