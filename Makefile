# The commands that people and CI run. Everything is installed into .venv, without root, but for `browser`, `slurm`, `hosts`, `postgres` and `frameworks`.
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
MADE := $(VENV)/.made
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready
LINTERS := $(VENV)/.linters
PORTAL := src/muster/server/pages/static/vendor/uPlot.esm.js
NODE_ROOMS := $(addprefix src/muster/,__init__.py dataclass.py addresses/__init__.py addresses/requests_adapter.py plan linux records metrics channel devices storage agent \
  engines/__init__.py engines/local/__init__.py engines/local/node engines/slurm/__init__.py engines/slurm/options.py engines/slurm/node \
  engines/ssh/__init__.py engines/ssh/options.py engines/ssh/node \
  engines/modelarts/__init__.py engines/modelarts/options.py engines/modelarts/node \
  job/__init__.py job/model.py job/kinds job/data.py job/bench.py job/queue.py job/endpoints.py)

WORKLOADS := resnet50 bert-large resnet50-mindspore

# Tests start Python thousands of times: without bytecode each start compiles Muster, and each worker all tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-portal portal test test-all chaos test-slurm browser slurm hosts postgres frameworks test-frameworks lint docs benchmark clean

demo: $(DEMO)  ## run the quickstart and show its result
	PATH="$(BIN):$$PATH" muster run examples/quickstart/job.yaml

demo-portal: $(READY) $(PORTAL)  ## serve the pages with accounts, projects and runs to look at, until Ctrl-C; ARGS="--folder DIR" keeps them
	$(BIN)/python scripts/demo_portal/demo.py $(ARGS)

portal: $(PORTAL)  ## fetch the browser code of others that the server's pages use, by npm; without it one of PyPI's is taken

test: $(READY)  ## run the tests; long ones and those of Slurm itself in CI and with `make test-all`
	@$(MAKE) --no-print-directory portal || [ -z "$$CI" ]  # tests of charts are skipped without it
	$(BIN)/python -m pytest -n 6 --dist worksteal $(if $(CI),,--ignore=tests/slurm) $(ARGS)

test-all: $(READY)  ## run everything that CI runs, but for the frameworks
	@$(MAKE) --no-print-directory portal || [ -z "$$CI" ]
	$(BIN)/python -m pytest -n 4 --dist worksteal --all --ignore=tests/frameworks --ignore=tests/workloads $(ARGS)

chaos: $(READY)  ## break hosts over ssh 50 times (needs root and `make hosts`), and kill a server 200 times, at random moments
	MUSTER_CHAOS_SERVER=200 $(BIN)/python -m pytest -n 2 --all tests/ssh_hosts/test_random_breaks.py \
	  tests/server/test_killed_server.py $(ARGS)

test-slurm: $(READY)  ## run the tests of Slurm, and of the conformance core on it
	$(BIN)/python -m pytest -n 4 --dist worksteal tests -k slurm $(ARGS)

browser:  ## install the browser of the tests of pages, Chromium, by apt-get where that can be done; else it says what to do
	scripts/browser.sh

slurm:  ## install the Slurm of the tests by apt-get where that can be done, its services left off; else it says what to do
	scripts/slurm.sh

hosts:  ## install what the tests of hosts need, an ssh server and iproute2, by apt-get where that can be done; no service is started
	scripts/hosts.sh

postgres:  ## install the PostgreSQL of the tests by apt-get where that can be done, its service left off; else it says what to do
	scripts/postgres.sh

frameworks: $(READY)  ## install the frameworks of the examples, each into a cached environment of its own, about 12 GB in all
	$(BIN)/python scripts/frameworks/install.py

test-frameworks: $(READY)  ## install them and run the examples and the workloads on them; without CI, those that cannot be had are skipped
	$(BIN)/python scripts/frameworks/install.py || [ -z "$$CI" ]
	$(BIN)/python -m pytest -n 3 --dist worksteal tests/frameworks tests/workloads $(ARGS)

lint: $(LINTERS)  ## style, types, the rooms' contracts, and that what travels runs on Python 3.9, in jobs on 3.7
	$(BIN)/ruff check src tests benchmarks examples scripts workloads
	$(BIN)/ruff format --check src tests benchmarks examples scripts workloads
	$(BIN)/mypy
	$(BIN)/mypy tests benchmarks/*.py
	$(BIN)/mypy scripts/frameworks/*.py
	MYPYPATH=src:scripts/demo_portal $(BIN)/mypy scripts/demo_portal/*.py scripts/demo_portal/code/*.py
	for folder in $(WORKLOADS); do (cd workloads/$$folder && MYPYPATH=.. $(BIN)/mypy --config-file ../../pyproject.toml \
	  --allow-subclassing-any --allow-untyped-decorators --explicit-package-bases *.py) || exit 1; done
	$(BIN)/lint-imports
	$(BIN)/vermin --quiet --no-tips --no-eval-annotations --backport typing -t=3.9- --violations $(NODE_ROOMS) workloads
	$(BIN)/vermin --quiet --no-tips --no-eval-annotations --backport typing -t=3.7- --violations src/muster/shims src/muster/record.py \
	  src/muster/engines/modelarts/node/inside/muster_boot.py

docs: $(READY)  ## write the pages that are made from the code
	$(BIN)/python -c "from muster.job.describe import page; print(page(), end='')" > docs/job-file.md
	$(BIN)/python -c "from muster.server.results.web.app import protocol; print(protocol(), end='')" > docs/tester-openapi.json
	$(BIN)/python -c "from muster.server.core.app import protocol; print(protocol(), end='')" > docs/server-openapi.json

benchmark: $(READY)  ## measure launch, storage and hosts against their peers; installs those of the launch into benchmarks/.venv
	$(BIN)/python benchmarks/launch.py
	$(BIN)/python benchmarks/storage.py
	$(BIN)/python benchmarks/ssh_hosts.py

# A Python without ensurepip (Debian without python3-venv) makes the environment with the pip it has.
$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Muster needs Python 3.11 or newer: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV) && $(PYTHON) -m venv --without-pip $(VENV) && \
	  $(PYTHON) -m pip --python $(VENV)/bin/python install --quiet pip; }
	@touch $(MADE)

$(DEMO): $(MADE) pyproject.toml
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r examples/quickstart/requirements.txt -e .
	@touch $(DEMO)

$(READY): $(MADE) pyproject.toml requirements-dev.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt -e .
	@touch $(READY) $(DEMO)

$(PORTAL): $(MADE) scripts/portal/package-lock.json scripts/portal/build.sh
	scripts/portal/build.sh $(CURDIR)/$(VENV)
	@touch $(PORTAL)

$(LINTERS): $(READY) requirements-lint.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-lint.txt
	@touch $(LINTERS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
