# `make run` runs the demonstration, `make test` runs the tests; both install what is missing first.
export OMP_WAIT_POLICY = PASSIVE
PYTHON ?= python3
BIN = .venv/bin

USED = hf,sklearn,plots,notebook,lm-eval
EXTRAS = hf,sklearn,plots,notebook,arviz,ray,lm-eval,xlsx,dev

.PHONY: setup run paper test test-slow lint docs docs-serve package package-test clean

setup: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) tools/environment.py $(EXTRAS)
	@touch .venv/.used $@

# What README and docs/first_hours.md use, without Ray and the tools of development.
.venv/.used: pyproject.toml constraints.txt
	@$(PYTHON) tools/environment.py $(USED)
	@touch $@

# One thread: two of them would spend their time waiting for each other in networks as small as these.
run: export OMP_NUM_THREADS = 1
run: .venv/.used
	@$(BIN)/python -m paper table-1
	@$(BIN)/python examples/first_run.py

# Every table and figure of the paper in its quick form, about 8 minutes.
paper: setup
	@$(BIN)/python -m paper all --quick --out runs/paper

# The second step checks shapes and types of every call: every model, every command, and the numbers of each design.
CHECKED = tests/house/test_checked_calls.py tests/tables/test_protocol.py tests/golden tests/command/test_cli.py
test: setup
	$(BIN)/python -m pytest -n 2 -q --durations=20 $(CHECKED:%=--ignore=%)
	CHECK_CALLS=1 $(BIN)/python -m pytest -n 2 -q $(CHECKED)

# What takes long and is rarely red.
test-slow: setup
	$(BIN)/python -m pytest -n 2 -q --durations=20 -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site: `make docs` writes it into site/, `make docs-serve` shows it and follows changes of the pages. Notebooks are run.
.venv/.docs: pyproject.toml constraints.txt
	@$(PYTHON) tools/environment.py $(EXTRAS),docs
	@touch $@

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

docs-serve: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# Wheel and sdist into dist/; then the wheel with each extra in a fresh environment of its own.
.venv/.package: pyproject.toml constraints.txt
	@$(PYTHON) tools/environment.py package
	@touch $@

package: .venv/.package
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

package-test:
	$(PYTHON) tools/package_test.py

clean:
	rm -rf .venv runs dist site

# Update the pictures in README, CONTRIBUTING and the gallery.
.PHONY: pictures
pictures: setup
	$(BIN)/python tools/layers.py
	$(BIN)/python tools/two_axes.py
	cd docs/images/gallery && for script in $(CURDIR)/examples/gallery/*.py; do $(CURDIR)/$(BIN)/python $$script || exit 1; done
