# make demo    install into .venv and see the lake work
# make test    install into .venv and run the tests
# make check   formatting, lint, types, layers
# make bench   peers side by side, as ratios in CPU time
# make slow    the long tests

PYTHON ?= python3
BIN := .venv/bin
DEMO := demo

.PHONY: demo test check bench slow clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[draw]"
	touch $@

.venv/ready-dev: .venv/ready
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: .venv/ready
	@echo "Compiling the solver: about a minute, the first time only."
	$(BIN)/coevolve tasks generate --count 200 --split dev --output $(DEMO)/tasks.jsonl
	$(BIN)/coevolve tasks show $(DEMO)/tasks.jsonl --first 2 --picture $(DEMO)/plan.gif
	$(BIN)/coevolve evaluate --policy all --heatmap $(DEMO)/rates.png
	@echo "Look at $(DEMO)/plan.gif and $(DEMO)/rates.png; then: $(BIN)/coevolve --help"

test: .venv/ready-dev
	$(BIN)/python -m pytest -m "not slow"

slow: .venv/ready-dev
	$(BIN)/python -m pytest -m slow

check: .venv/ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/ready-dev
	$(BIN)/python benchmarks/lake.py

clean:
	rm -rf .venv $(DEMO) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
