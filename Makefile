# make demo    a real model, trained on an emulated board with an SD card, checked to the bit
# make test    everything: lint, types, layers, size limits, all tests
# make setup   what the two above install by themselves
# make lint    the checks without the tests
# make slow    the tests that are too long for every day
# make bench   counts instructions of kernels and networks anew; rewrites figures, tables, pages
# make clean   removes what was made

SHELL := bash
PYTHON := .venv/bin/python
WORKERS ?= 2

.PHONY: demo test slow bench setup lint clean

demo:
	@tools/setup.sh demo
	@$(PYTHON) tools/demo.py

setup:
	@tools/setup.sh test

lint: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	.venv/bin/lint-imports
	$(PYTHON) tools/check_limits.py

# The summary of pytest comes last.
test: lint
	$(PYTHON) -m pytest -n $(WORKERS) -m "not slow and not hil"

slow: setup
	$(PYTHON) -m pytest -n $(WORKERS) -m "slow and not hil"

# Kernels first: networks are compared with the cost tables fitted to them.
bench: setup
	$(PYTHON) tools/make_zoo.py --out out/zoo resnet8 ds_cnn mobilenet autoencoder
	$(PYTHON) tools/bench_kernels.py --update --sizes
	$(PYTHON) tools/fit_costs.py
	$(PYTHON) tools/estimate_costs.py
	$(PYTHON) tools/bench_networks.py --zoo out/zoo --update
	$(PYTHON) tools/bench_page.py

clean:
	rm -rf build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
