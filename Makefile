# Two commands do everything on a fresh machine with Python 3.11+ and make: `make book` and `make test`.
PYTHON ?= python3
PROFILE ?= default
# Processes of the tests, one thread each.
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
# Threads of torch wait by spinning, which on a busy machine takes the cores from all others. A tenth of the spins is enough on a quiet one.
export GOMP_SPINCOUNT ?= 30000

.PHONY: book test bench check-gpu check-site lint types sync lock clean

book: $(VENV)/installed
	$(BIN)/python notebooks/build.py $(PROFILE)
	@echo "The book is ready: open build/book/_build/html/index.html"

test: $(VENV)/installed lint types
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Some minutes on a quiet machine; the page "Speed" shows what it wrote.
bench: $(VENV)/installed
	$(BIN)/python benchmarks/bench.py

# Ten minutes on a GPU, less on a CPU: law, trajectories, precision, memory, compile_mode and speed of the sampler on this device.
check-gpu: $(VENV)/installed
	$(BIN)/python benchmarks/check_gpu.py

# Needs Chromium at /usr/bin/chromium.
check-site:
	$(BIN)/python tests/check_site.py build/book/_build/html

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed
	$(BIN)/mypy

# The .py of a notebook is the one to edit; this carries it over to the .ipynb.
sync: $(VENV)/installed
	$(BIN)/jupytext --sync notebooks/*.ipynb

# torch comes first and by itself: its build (CPU or CUDA) is the machine's choice, all else is locked by hash.
$(VENV)/installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

# Needs uv in the environment, and a CPU build of torch 2.13.0 that pip can find, so that no CUDA package enters the lock.
lock:
	mkdir -p build && echo "torch==2.13.0+cpu" > build/torch.txt
	$(BIN)/python -m uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-emit-package torch --find-links "$$PIP_FIND_LINKS" -c build/torch.txt \
	  --custom-compile-command "make lock" -o requirements.lock

clean:
	rm -rf build
