# A newcomer needs two commands: make run, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help run stop test lint demo bench wheel clean

help:
	@echo "make run    install into .venv, start the daemon in the background, show its status"
	@echo "make stop   end it"
	@echo "make demo   watch a scripted session become a handoff (20 s, in a temporary HOME)"
	@echo "make test   lint, types and every test, against the built wheel"
	@echo "make bench  measure, and print ratios"

$(VENV)/installed: pyproject.toml $(shell find client daemon -name '*.py' -o -path 'client/bin/*') Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "handoffd needs Python 3.11 or newer; try: make PYTHON=python3.12 run"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --force-reinstall --no-deps .
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check .
	@ln -sf handoff $(BIN)/flow
	@touch $@

run: $(VENV)/installed
	@$(BIN)/handoff restart
	@echo
	@$(BIN)/handoff status

stop:
	@$(BIN)/handoff down || test $$? -eq 3

wheel: $(VENV)/tools
	@rm -rf dist && $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
