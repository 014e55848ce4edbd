# Every target does its own set-up: python3 (3.11+, with venv), make and a C compiler are enough.
#   make demo    a guided tour          make test    the tests
#   make lint    style and layers       make types   mypy --strict
#   make bench   measurements           make docs    the site, into site/
#   make test-all   make test, and what takes longer (a quarter of an hour)
#   make soak    ten thousand sessions, and what is left after them (minutes)
# VENV=path uses another environment, PYTHON=path another interpreter, ARGS='-k name' narrows the tests.

VENV ?= .venv
# Many tests wait: one more than there are processors.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
ARGS ?=
export PYTHON

BIN = $(VENV)/bin
# The stamp names the checkout, since an editable install belongs to one place.
STAMP := $(VENV)/.installed-$(firstword $(shell pwd -P | cksum))

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow test-all lint types format bench soak docs clean
# Two installs into one environment must not overlap.
.NOTPARALLEL:

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed -n 1,7p

$(STAMP)-%: pyproject.toml scripts/install hatch_build.py $(wildcard src/cloche_guest/jail/native/*.[ch])
	@scripts/install "$(VENV)" $* "$@"

install: $(STAMP)-dev

demo: $(STAMP)-dev
	@$(BIN)/cloche demo

# What fails beside the others runs once more, alone: real time and real signals on a busy machine. It must pass then.
define run_tests
$(BIN)/cloche setup wasm
$(BIN)/python -m pytest -m $(1) -n $(WORKERS) --dist loadgroup --durations=15 $(ARGS) || { \
  code=$$?; [ $$code -eq 1 ] || exit $$code; echo "=== failed beside the others; once more, alone"; \
  $(BIN)/python -m pytest -m $(1) --last-failed --last-failed-no-failures none $(ARGS); }
endef

test: $(STAMP)-dev
	$(call run_tests,"not slow")

test-slow: $(STAMP)-dev
	$(call run_tests,slow)

test-all: test test-slow

lint: $(STAMP)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

format: $(STAMP)-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP)-dev
	$(BIN)/mypy

bench: $(STAMP)-dev $(STAMP)-bench
	@scripts/install-peers
	$(BIN)/python -m benchmarks $(ARGS)

soak: $(STAMP)-dev
	$(BIN)/python -m tests.soak $(ARGS)

docs: $(STAMP)-dev $(STAMP)-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	@if [ -e "$(VENV)/pyvenv.cfg" ]; then rm -rf "$(VENV)"; fi
