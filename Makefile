# A newcomer needs two commands: make run, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help run stop test test-rest test-all lint man docs pictures demo e2e faults fuzz soak bench scores desktop-bundle clean

help:
	@echo "make run    install into .venv, start the daemon in the background, show its status"
	@echo "make stop   end it"
	@echo "make demo   watch a scripted session become a handoff (10 s, in a temporary HOME)"
	@echo "make test   lint, types and the quick tests, against the built wheel (under 5 min on two cores)"
	@echo "make test-all  and the slow ones: real Claude Code, real bd, faults (at most 25 min)"
	@echo "make test-rest only what test-all has more than test"
	@echo "make man    docs/man, from what --help is made from"
	@echo "make docs   the documents as a site, in build/site"
	@echo "make e2e    every test with the real Claude Code, with both versions of it"
	@echo "make faults every promise of bench/promises.md, measured, the longest tests too (ROWS=WORD: some)"
	@echo "make fuzz   inputs that nobody would write (SECONDS=60, SEED=N, TARGET=WORD)"
	@echo "make soak   a day of work in 200 projects, at 100 times its pace (16 min; MINUTES=N: that and one more)"
	@echo "make bench  measure, beside floors and other programs, into bench/results.md (ONLY=PART, QUICK=1)"
	@echo "make scores how well secrets are found (EXAMPLES=FILE: a labelled set, too)"
	@echo "make desktop-bundle   dist/handoffd.mcpb, for Claude Desktop"

# Said before an environment is made that nothing could be installed into.
require_python = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "handoffd needs Python 3.11 or newer; try: make PYTHON=python3.12 $(1)"; exit 1; }

PACKED := $(shell find client/bin client/plugin .claude-plugin -type f)

$(VENV)/installed: pyproject.toml $(shell find client daemon -name '*.py') $(PACKED) Makefile
	@$(call require_python,run)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) ..."
	@test ! -x $(BIN)/handoff || $(BIN)/handoff down >/dev/null 2>&1 || true
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --force-reinstall --no-deps .
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check .
	@ln -sf handoff $(BIN)/flow
	@touch $@

run: $(VENV)/installed
	@$(BIN)/handoff up
	@echo
	@$(BIN)/handoff status

demo: $(VENV)/installed
	@$(BIN)/python docs/demo.py

stop:
	@test ! -x $(BIN)/handoff || $(BIN)/handoff down || test $$? -eq 3

# The tests run against the built wheel, never against the checkout.
TEST := .venv-test
PIP := $(TEST)/bin/python -m pip --disable-pip-version-check --quiet

$(TEST)/installed: $(shell find client daemon docs/man docs/troubleshooting.md systemd launchd -type f -not -name '*.pyc') $(PACKED) pyproject.toml Makefile
	@$(call require_python,test)
	@test -x $(TEST)/bin/python || $(PYTHON) -m venv $(TEST)
	@echo "Building the wheel and installing it into $(TEST) ..."
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --group test --group lint
	@rm -rf dist && $(PIP) wheel --no-deps --wheel-dir dist .
	@$(PIP) install dist/*.whl
	@$(PIP) install --force-reinstall --no-deps dist/*.whl
	@touch $@

# From the checkout, so that a new command is in it before the wheel is built anew.
man: $(TEST)/installed
	@for name in handoff handoffd; do \
		PYTHONPATH=client:daemon $(TEST)/bin/python docs/man_pages.py $$name >docs/man/$$name.1 || exit 1; \
	done

# The documents as a site; a link or an anchor that leads nowhere is an error.
DOCS := .venv-docs

$(DOCS)/installed: pyproject.toml
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install --upgrade 'pip>=25.1'
	@$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install --group docs
	@touch $@

docs: $(DOCS)/installed
	@$(DOCS)/bin/mkdocs build --strict
	@echo "build/site/index.html"

# The terminals show the programs of the built wheel.
pictures: $(TEST)/installed
	@$(TEST)/bin/python docs/pictures.py
	@$(TEST)/bin/python docs/packages.py

lint: $(TEST)/installed
	$(TEST)/bin/ruff check .
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/mypy

# Three tiers, by markers that pyproject.toml explains: neither slow nor long; slow; long.
# Without programs such as Claude Code and bd, whose paths .ci/mcp and .ci/beads print, tests of them
# are skipped, and say so. WORKERS: how many tests at a time. PYTEST: see .ci/pytest-once-more.
WORKERS ?= 3
PYTEST ?= $(TEST)/bin/pytest

test: lint
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not slow and not long"

test-rest: $(TEST)/installed
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "slow and not long"

test-all: test test-rest

# Claude Code as .ci/mcp installs it; test-all tries the older version only where it matters most.
e2e: $(TEST)/installed
	$(TEST)/bin/pytest -m "" -n 3 --dist worksteal tests/e2e

faults: $(TEST)/installed
	$(TEST)/bin/python bench/promises.py $(ROWS)

# SEED=N repeats a run; RECORD=1 enters the counts in bench/promises.md.
SECONDS ?= 60
fuzz: $(TEST)/installed
	$(TEST)/bin/python tests/fuzz/run.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) \
		$(if $(TARGET),--target $(TARGET)) $(if $(RECORD),--record)

# RECORD=1: enter the figures in bench/promises.md.
soak: $(TEST)/installed
	$(TEST)/bin/python bench/soak.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RECORD),--record)

# ONLY=freshness,start: some parts; QUICK=1: a try that writes nothing down. EXAMPLES, FIDELITY and CORPUS are what
# bench/README.md says they are.
bench: $(TEST)/installed
	@$(if $(EXAMPLES),HANDOFFD_BENCH_EXAMPLES='$(EXAMPLES)') $(if $(FIDELITY),HANDOFFD_BENCH_FIDELITY='$(FIDELITY)') \
		$(if $(CORPUS),HANDOFFD_BENCH_CORPUS='$(CORPUS)') \
		$(TEST)/bin/python bench/core.py $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

scores: $(TEST)/installed
	$(TEST)/bin/python bench/redaction.py $(if $(EXAMPLES),--examples $(EXAMPLES))

# MCPB=PROGRAM: a packer that is installed; otherwise npm fetches it.
BUNDLE ?= dist/handoffd.mcpb
export MCPB

desktop-bundle:
	@$(PYTHON) desktop/bundle.py $(BUNDLE)

clean:
	rm -rf $(VENV) $(TEST) $(DOCS) dist build/site .mypy_cache .ruff_cache .pytest_cache .hypothesis
