# `make` alone lists what there is. PYTHON chooses the interpreter that .venv is made with.
PYTHON ?= python3

BIN := .venv/bin
STAMP := .venv/.stamp
UV := $(BIN)/uv

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(STAMP) ## Make .venv with every pinned dependency, or reuse it while the pins stand

# A failed install leaves no stamp, so the next run tries again. pip brings uv; uv reads the dependency groups, which older pips cannot.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt --build-constraint constraints.txt \
		--group dev --editable '.[all]'
	@touch $@
