# Every command sets up what it needs in .venv first; nothing else has to be installed or activated.

PY := .venv/bin/python

# Keep what Python compiles: pytest rewrites the assertions of the tests, of hypothesis and of its plugins, which takes
# each of its processes five seconds.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help run test test-quick test-all demo bench fuzz soak lint setup clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup ## open JupyterLab on the quickstart, in a fresh folder of examples
	@scripts/run.sh

test: lint ## lint, then run every test that needs no large download
	@scripts/setup.sh test
	@$(PY) -m pytest -n 3 --dist worksteal -m "not download"

test-quick: lint ## lint, then run the tests that start no server, kernel, browser or sandbox
	@WAP_PROFILE=quick $(PY) -m pytest -n 2 --dist worksteal -m "not slow and not download"

# One after the other: other people's programs have time limits of their own.
test-all: test ## run every test, also with large downloads
	@$(PY) -m pytest -m download

demo: setup ## run the quickstart without a browser and print what it did
	@$(PY) scripts/demo.py

bench: ## measure against ripgrep, fd, find, Jupyter's contents API and the MCP filesystem server
	@scripts/setup.sh bench
	@$(PY) -m benchmarks

fuzz: setup ## two minutes of requests made from the OpenAPI document
	@WAP_FUZZ_SECONDS=120 $(PY) -m pytest -m fuzz

soak: setup ## the tests of races and crashes, with large budgets
	@WAP_SOAK=1 $(PY) -m pytest -m soak

lint: setup ## ruff, mypy and the import contracts
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy
	@.venv/bin/lint-imports

setup:
	@scripts/setup.sh

clean: ## remove .venv and everything that the commands made
	rm -rf .venv .venv-hub .venv-peers benchmarks/node_modules tests/node_modules build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .schemathesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
