# Everything runs in .venv, made from envs/requirements.lock. A second call installs nothing.
PYTHON ?= python3
CORES ?= 2
TIER ?= demo
TEST_PROCESSES ?= 3 # of two cores: many tests wait, for SLURM or for a process to start
BIN := .venv/bin
RUN := PATH="$(CURDIR)/$(BIN):$$PATH"

.PHONY: help install install-slurm demo bundle test test-slurm lint format config bench bench-peers bench-scalar bench-cinic10 gpu-check clean

help: ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

install: .venv/installed ## create .venv with the pinned versions

.venv/installed: envs/requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "fedrepro needs Python 3.11: make PYTHON=python3.11 ..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r envs/requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# The executor makes every Snakemake start slow where SLURM's commands are and no controller answers, so it stands apart.
install-slurm: .venv-slurm/installed ## create .venv-slurm: Snakemake for SLURM clusters, beside .venv

.venv-slurm/installed: envs/slurm.lock .venv/installed
	test -x .venv-slurm/bin/python || $(BIN)/python -m venv .venv-slurm
	rm -f .venv-slurm/lib/python*/site-packages/environment.pth
	.venv-slurm/bin/pip install --quiet --disable-pip-version-check --no-deps -r envs/slurm.lock
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$(.venv-slurm/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/environment.pth"
	ln -sf ../../$(BIN)/fedrepro .venv-slurm/bin/fedrepro
	touch $@

demo: install ## run the demo tier; the report is results/demo/report/index.html
	$(RUN) snakemake --cores $(CORES)
	@echo "report: results/demo/report/index.html"

bundle: install ## pack the results of a tier: make bundle TIER=demo
	$(RUN) fedrepro bundle --config tier=$(TIER)

test: install lint ## all checks and tests
	$(RUN) pytest -n $(TEST_PROCESSES)

test-slurm: install-slurm ## test on a real SLURM of one node, which it starts (root; apt-get install slurm-wlm munge)
	$(RUN) FEDREPRO_REQUIRE_SLURM=1 pytest tests/slurm

lint: install ## ruff, snakefmt, mypy, snakemake --lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/mypy
	$(RUN) python tests/lint_workflow.py

format: install ## format all code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

config: install ## rewrite config/config.yaml, its schema and its table, and docs/datasets.md, from the code
	$(BIN)/fedrepro config

bench-scalar: install ## time the scalar kernel beside NumPy; writes results/bench/scalar.json
	$(BIN)/python -m benchmarks.scalar

bench-cinic10: install ## time the preparation of CINIC-10 and its memory; writes results/bench/cinic10.json
	$(BIN)/python -m benchmarks.cinic10

gpu-check: ## measure the training engine on a GPU; needs Python, NumPy and PyTorch only
	PYTHONPATH=src $(or $(wildcard $(BIN)/python),$(PYTHON)) -m benchmarks.gpu_check

bench: install .venv/bench ## time the training engine beside ordinary loops and peers; writes results/bench/engine.json
	$(BIN)/python -m benchmarks.engine

.venv/bench: envs/bench.txt .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r envs/bench.txt
	touch $@

bench-peers: .venv-pfl/installed .venv-flower/installed ## create the environments of the peers that bench times

.venv-%/installed: envs/peers-%.txt
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

clean: ## remove the environments; results stay
	rm -rf .venv .venv-slurm .venv-pfl .venv-flower
