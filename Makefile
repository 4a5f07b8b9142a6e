# The two commands: `make demo` and `make test`. Both set up what they need.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types layers unit venv clean
.PRECIOUS: $(VENV)/.demo $(VENV)/.test

demo: $(VENV)/.demo  ## one federated job on this machine, without any cluster
	@$(BIN)/gm demo

test: venv lint types layers unit  ## lint, types, layers and all tests

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

layers: venv
	$(BIN)/lint-imports

unit: venv
	$(BIN)/python -m pytest -n 2 --dist loadgroup

venv: $(VENV)/.test

$(VENV)/.%: pyproject.toml
	@missing=; command -v git >/dev/null || missing="git is missing"; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || missing="$(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo missing)"; \
	$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || missing="$${missing:-$(PYTHON) has no venv}"; \
	[ -z "$$missing" ] || { echo "$$missing. gm needs git, and Python >= 3.11 with venv. On Debian:  apt-get install -y git make python3-venv" >&2; exit 1; }
	@[ -x $(BIN)/python ] && $(BIN)/python -c 'import pip' 2>/dev/null || { rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); }
	@echo "installing into $(VENV) (the first time: a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@

clean:
	rm -rf $(VENV) gm-demo build dist *.egg-info
