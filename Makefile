# `make` alone lists what there is. PYTHON chooses the interpreter that .venv is made with.
PYTHON ?= python3

BIN := .venv/bin
STAMP := .venv/.stamp
UV := $(BIN)/uv
WHEEL := dist/*.whl
# Worker processes for the tests; `make test WORKERS=0` runs them in one, as a debugger wants.
WORKERS ?= auto
LONG_BENCHES := benchmarks/bench_large.py benchmarks/bench_gym_start.py benchmarks/bench_gym_load.py

# uv trusts whom the system trusts, as pip does, not only its own list of authorities.
export UV_SYSTEM_CERTS := true

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(STAMP) ## Make .venv with every pinned dependency, or reuse it while the pins stand

# A failed install leaves no stamp, so the next run tries again. pip brings uv; uv reads the dependency groups, which
# the pip that comes with Python 3.11 cannot.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt --build-constraint constraints.txt \
		--group dev --editable '.[all]'
	@touch $@

.PHONY: demo
demo: $(STAMP) ## Run 40 rollouts that fail in many ways, and show what failed and why
	$(BIN)/gym-failures demo

.PHONY: picture
picture: $(STAMP) ## Draw the picture in the README anew, from a run of the demo
	$(BIN)/python tools/picture.py docs/images/demo.svg

.PHONY: test
test: $(STAMP) ## Run the tests
	$(BIN)/pytest -n $(WORKERS)

.PHONY: backends
backends: $(STAMP) ## Make Jaeger, the Collector and Prometheus once, in the user's cache folder (Go is needed)
	PYTHONPATH=tools $(BIN)/python -m backends

# In one process: the tests share one set of running programs.
.PHONY: test-backends
test-backends: $(STAMP) ## Test collector-config/ against the real programs that `make backends` made
	$(BIN)/pytest tests/backends

.PHONY: browser
browser: ## Install Chromium, which Debian has, where there is no browser yet (as root)
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }

.PHONY: test-browser
test-browser: $(STAMP) ## Test the page that `gym-failures report` writes, in Chromium
	$(BIN)/pytest -n 0 tests/browser

.PHONY: demo-jaeger
demo-jaeger: backends ## Run the demo into a real Jaeger, Collector and Prometheus, and leave them up until Ctrl-C
	PYTHONPATH=tools $(BIN)/python -m backends.demo

.PHONY: gym
gym: $(STAMP) ## Make the environments of a real NeMo Gym once, in the user's cache folder (Python 3.13 is needed)
	$(BIN)/python tools/gym_venv.py

.PHONY: test-gym
test-gym: gym ## Test against the real NeMo Gym that `make gym` installed
	$(BIN)/pytest -n 0 tests/gym

.PHONY: dashboard
dashboard: $(STAMP) ## Write the Grafana dashboard from its generator
	$(BIN)/python collector-config/grafana/dashboard.py

.PHONY: docs
docs: $(STAMP) ## Build the pages in docs/ and the API's as a site in build/docs, and check every link
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env docs build/docs

.PHONY: check
check: $(STAMP) ## Check format, lint, docstrings, types, layers, dependencies, spelling and changelog
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry .
	$(BIN)/codespell
	$(BIN)/towncrier build --draft --version next >/dev/null

.PHONY: format
format: $(STAMP) ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: wheel
wheel: $(STAMP) ## Build the wheel from the sdist, install it in empty environments and import it
	rm -rf dist
	$(BIN)/python -m build --no-isolation --quiet
	$(UV) venv --quiet --clear --python $(BIN)/python .matrix/wheel
	$(UV) pip install --quiet --python .matrix/wheel --no-deps $(WHEEL)
	.matrix/wheel/bin/python -I tools/smoke.py --bare
	$(UV) pip install --quiet --python .matrix/wheel --constraint constraints.txt $(WHEEL)
	.matrix/wheel/bin/python -I tools/smoke.py

.PHONY: matrix
matrix: wheel ## Test the wheel without extras, on the oldest versions, and on the newest (JOBS="core oldest newest")
	$(BIN)/python tools/matrix.py $(WHEEL) $(JOBS)

.PHONY: bench
bench: $(STAMP) ## Run the benchmarks; each prints its table and fails when a promised ratio does not hold
	$(UV) pip install --quiet --python .venv --constraint constraints.txt --group bench
	set -e; for bench in $(filter-out $(LONG_BENCHES),$(wildcard benchmarks/bench_*.py)); do $(BIN)/python $$bench; done

.PHONY: bench-long
bench-long: $(STAMP) ## Run those that take long: a file of 10 GB, NeMo Gym's start, and the load on its servers
	set -e; for bench in $(LONG_BENCHES); do $(BIN)/python $$bench; done

# The pins in force are kept while they fit pyproject.toml; `make constraints UPGRADE=--upgrade` takes the newest.
COMPILE = $(UV) pip compile pyproject.toml --quiet --universal --python-version 3.11 --no-annotate --no-emit-index-url \
	--custom-compile-command 'make constraints' $(UPGRADE)
# Every extra but `file` and `demo`, which exist for the newest SDK only.
OLDEST_EXTRAS := sdk aiohttp httpx cli otlp instrument proto grpc reading zstd gym

# As in tools/gym_venv.py.
GYM := nemo-gym[telemetry]==0.7.0

.PHONY: constraints
constraints: $(STAMP) ## Pin the newest versions for development, the oldest supported for the matrix, and NeMo Gym's
	$(COMPILE) --all-extras --group dev --group bench --output-file constraints.txt
	$(COMPILE) $(OLDEST_EXTRAS:%=--extra %) --group test --group hosts --resolution lowest-direct \
		--output-file constraints-oldest.txt
	echo '$(GYM)' | $(UV) pip compile - pyproject.toml --quiet --python-version 3.13.14 --no-annotate --no-emit-index-url \
		--custom-compile-command 'make constraints' $(UPGRADE) --extra cli --extra file --extra gym \
		--output-file tests/gym/constraints.txt

.PHONY: clean
clean: ## Remove everything that make made
	rm -rf .venv .matrix build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
