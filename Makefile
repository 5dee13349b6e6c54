# Everything starts here and needs only Python 3.11 or newer, a C compiler and make.
# The environment in .venv is made when it is first needed, and again when pyproject.toml changes.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
TEST_JOBS ?= 2

# What `make bench` compares with. Each is installed alone, and an index that does not answer is not
# waited for: one that cannot be installed is reported absent.
BENCH := .venv-bench
PEERS ?= torch==2.13.0+cpu jax onnx onnxruntime openvino tensorflow-cpu pytensor numba
PEER_INDEX := https://download.pytorch.org/whl/cpu

.DEFAULT_GOAL := help
.PHONY: help demo test quick check format bench judge judge-cuda clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.installed ## train a digit classifier, compile it to a program, measure the program
	$(BIN)/python examples/digits/demo.py

test: check ## every check: format, lint, types, imports, then all tests
	$(BIN)/python -m pytest -q -n $(TEST_JOBS) --ignore=tests/torch --ignore=tests/cuda $(ARGS)

quick: $(VENV)/.installed-dev ## what a change of one pass or operation needs, in half a minute
	$(BIN)/python -m pytest -q -n $(TEST_JOBS) -m "not slow" tests/golden tests/unit/ir tests/unit/passes $(ARGS)

check: $(VENV)/.installed-dev ## what `test` does before the tests, in under a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-cache --no-logo

format: $(VENV)/.installed-dev ## rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH)/.installed ## measure the workloads next to other packages, all in an environment of their own
	$(BENCH)/bin/python -m bench --json bench/results/latest.json --plot bench/results/latest.png $(ARGS)

judge: $(VENV)/.installed-judge ## compare values and gradients with PyTorch, and print how many
	$(BIN)/python -m pytest -q tests/torch

judge-cuda: $(VENV)/.installed-cuda ## compile and check CUDA code in depth, without a GPU: minutes
	$(BIN)/python -m pytest -q -n $(TEST_JOBS) tests/cuda $(ARGS)

clean: ## remove the environment and everything made by these commands
	rm -rf $(VENV) $(BENCH) build dist examples/*/out
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no python3 found: install Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; set PYTHON=/path/to/it"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-judge: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,judge]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

$(VENV)/.installed-cuda: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,cuda-tools]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev

$(BENCH)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --timeout 10 --retries 1 \
		-e '.[plot]'
	@for peer in $(PEERS); do \
		case "$$peer" in torch*) index="--extra-index-url $(PEER_INDEX)";; *) index=;; esac; \
		$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --timeout 10 \
			--retries 0 $$index "$$peer" || echo "$$peer cannot be installed: it will be absent"; done
	@touch $@
