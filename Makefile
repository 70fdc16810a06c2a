# Two commands from a fresh clone: `make demo` and `make test`. Both create .venv and install everything themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test longer lint types slow clean

demo: $(VENV)/installed
	$(BIN)/bandana demo

test: $(VENV)/installed
	$(BIN)/pytest -n auto

longer: $(VENV)/installed
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow tests/test_tutorial.py tests/test_examples.py tests/test_demo.py tests/test_cli.py tests/test_workers.py tests/paper

slow: $(VENV)/installed
	$(BIN)/pytest -m slow

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed
	$(BIN)/mypy

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist
