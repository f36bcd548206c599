# Two commands on a fresh machine with Python 3.11+: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALL = $(BIN)/python -m pip install --quiet --constraint constraints.txt
BASE := .venv/base
READY := .venv/ready
SITE := .venv/site

.PHONY: demo test quick check test-slow chaos benchmark docs dist browser clean

demo: $(BASE)
	$(BIN)/python -m runs.demo

# Python may keep what it compiles, even where the environment forbids it: tests start many processes.
export PYTHONDONTWRITEBYTECODE =

# Two workers have a core each: libraries that make threads of their own would wait for each other.
test quick: export OMP_NUM_THREADS = 1

test: $(READY) check
	rm -f .coverage.json
	$(BIN)/python -m slipcover --json --out .coverage.json -m pytest -n 2 --dist loadfile
	$(BIN)/python -m slipcover --merge .coverage.json --out .coverage.json --skip-covered --fail-under 98

# While working: the model, text and vectors, in under a minute.
quick: $(READY)
	$(BIN)/pytest -q -n 2 --dist loadfile tests/model tests/text tests/inference

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test-slow: $(READY)
	$(INSTALL) --editable \
		".[dev,hub,ray,sentence-transformers,spacy]" accelerate datasets duckdb langchain-huggingface polars
	$(BIN)/pytest -m slow

# Changed files, random kills, full disks and clients that stall: half an hour beside other work.
# The head of the run shows the seed; ELMO_CHAOS_SEED=N repeats it.
chaos: $(READY)
	ELMO_CHAOS=1 $(BIN)/pytest -n 2 --dist load -m "chaos or not chaos" -rA --show-capture=stdout tests/chaos

benchmark: $(READY)
	$(BIN)/python -m benchmarks.embedding

# The wheel and the source package, in dist/, and whether these very files install and work offline.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	ELMO_DIST="$(CURDIR)/dist" $(BIN)/pytest -q -m "slow or not slow" tests/test_distribution.py

# The site, in site/: the tutorials are run, every warning is an error, and nothing is fetched.
# Outputs of a tutorial are compared up to its first training; later ones only have to be there.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(SITE)
	$(BIN)/python -m runs.tutorials --verify
	$(BIN)/python -m mkdocs build --strict --quiet

# For the tests of the explorer page, on Debian and Ubuntu; without it they are skipped.
browser:
	apt-get install --yes --no-install-recommends chromium chromium-driver fonts-nanum

# What the demo shows: the package, and Kiwi for Korean.
$(BASE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "elmokit needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(INSTALL) torch
	$(INSTALL) --editable ".[korean]"
	touch $@

$(READY): $(BASE)
	$(INSTALL) --editable ".[dev]"
	touch $@

$(SITE): $(READY)
	$(INSTALL) --editable ".[docs]"
	touch $@

clean:
	rm -rf .venv build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage.json demo
