PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --constraint constraints.txt

.PHONY: help setup demo test lint format bench page clean

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

# torch first and exactly, so that nothing else brings a CUDA build. torchvision, which two of the peers want, has no CPU
# build that loads; they live in a folder of their own (tests/peers/path.py), where the product does not see them.
$(VENV)/ready: pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --no-deps --upgrade --target .peers torchvision timm vit-pytorch
	$(PIP) --editable '.[hub,files,tensorboard,sweep,insight,export,powder,refine,translate,jets,serve,dev]'
	@touch $@

setup: $(VENV)/ready  ## make .venv with the package, its tools and the peers

demo: setup  ## show what the package does
	$(BIN)/vitreous demo

# Two processes of one thread each: torch's threads of two processes would wait for one another.
# -rs lists skipped tests with what they need, e.g. Chromium for the web page (apt-get install chromium).
test: setup  ## run every test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -rs

lint: setup  ## style, formatting and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: setup  ## put the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup  ## compare speed with timm, transformers and vit-pytorch
	$(BIN)/python -m benchmarks.model_speed

page: setup  ## fetch the web page's plotting library again and check the page's types (needs npm)
	$(BIN)/python tools/make_page.py

clean:  ## remove .venv and caches
	rm -rf $(VENV) .peers .pytest_cache .mypy_cache .ruff_cache .hypothesis
