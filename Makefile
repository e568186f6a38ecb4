# make demo    install into .venv and see the lake, and three versions, each with its tasks redesigned
# make test    install into .venv and run the tests
# make check   formatting, lint, types, layers
# make bench   peers side by side, as ratios in CPU time; the engine beside bare TRL;
#              judging together and one by one; diagnostics beside pandas
# make gain    what GRPO gains on two cores, over five seeds (about half an hour)
# make slow    the long tests
# make attack  what models, peers and broken disks may try, as a table: area, tries, held
# make fuzz    coverage-guided fuzzing of the answer parser (needs clang)
# make pictures  the pictures of the README and the docs, from a run of a few minutes
# make soak    runs that are killed, starved and lied to, beside calm twins; MINUTES=120
# make load    every page of the dashboard under load, over a million rollouts

PYTHON ?= python3
BIN := .venv/bin
DEMO := demo
SECONDS := 60
MINUTES := 120

.PHONY: demo test check bench load soak gain slow attack fuzz pictures clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[draw,train]"
	$(BIN)/coevolve tasks generate --count 1 --output .venv/first.jsonl  # compiles the solver
	touch $@

.venv/ready-dev: .venv/ready
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: .venv/ready
	$(BIN)/coevolve tasks generate --count 200 --split dev --output $(DEMO)/tasks.jsonl
	$(BIN)/coevolve tasks show $(DEMO)/tasks.jsonl --first 2 --picture $(DEMO)/plan.gif
	$(BIN)/coevolve evaluate --policy all --heatmap $(DEMO)/rates.png
	$(BIN)/coevolve ask --policy pocket
	$(BIN)/coevolve run --output $(DEMO)/run
	$(BIN)/coevolve report $(DEMO)/run
	@echo "Open $(DEMO)/run/report.html, $(DEMO)/plan.gif and $(DEMO)/rates.png; then: $(BIN)/coevolve --help"

test: .venv/ready-dev
	$(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist loadfile --no-loadscope-reorder

slow: .venv/ready-dev
	$(BIN)/python -m pytest -m slow --timeout 3600

check: .venv/ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

pictures: .venv/ready-dev
	$(BIN)/coevolve tasks generate --count 1 --seed 4 --split dev --output $(DEMO)/one.jsonl \
	    -k size6.data_ratio=1 -k size6.hole_ratio=0.25 -k size6.wait_ratio=1 -k agents4.share=1 \
	    -k path_length.min=4 -k detour.min=2
	$(BIN)/coevolve tasks show $(DEMO)/one.jsonl --picture docs/images/lake.gif
	$(BIN)/coevolve evaluate --policy greedy --policy prioritised --heatmap docs/images/rates.png
	$(BIN)/coevolve run --output $(DEMO)/runs/rounds
	$(BIN)/python docs/pictures.py $(DEMO)/runs docs/images

attack: .venv/ready-dev
	$(BIN)/python -m pytest tests/attack --numprocesses 2 --dist loadfile

fuzz: .venv/ready-dev
	$(BIN)/pip install --quiet atheris==3.0.0
	$(BIN)/python tests/fuzz/answers.py -dict=tests/fuzz/answers.dict -max_total_time=$(SECONDS) -max_len=4096

bench: .venv/ready-dev
	$(BIN)/python benchmarks/lake.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/judging.py
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/diagnostics.py

load: .venv/ready-dev
	$(BIN)/python benchmarks/dashboard.py

soak: .venv/ready-dev
	$(BIN)/python benchmarks/soak.py --minutes $(MINUTES)

gain: .venv/ready
	$(BIN)/python benchmarks/gain.py --processes 2

clean:
	rm -rf .venv $(DEMO) build screenshots .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
