# Everything runs from a project-local environment in .venv, made from requirements.lock. `make help` lists the targets.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
VERSION := $(shell sed -n 's/^version = "\(.*\)"/v\1/p' pyproject.toml)
DOCKER_BUILD ?= docker build
REVISION = $(shell git rev-parse HEAD 2> /dev/null)
# The image's labels: SOURCE=https://... is the repository it is built from.
LABELS = --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) --build-arg SOURCE=$(SOURCE) \
	--build-arg CREATED=$(shell git log -1 --format=%cI 2> /dev/null)
NO_BUILDER = { echo "$(firstword $(DOCKER_BUILD)) has not built it. Another builder: DOCKER_BUILD=\"podman build\"; without one, on Debian: make image-layout" >&2; exit 1; }
KUBECONFIG_FLAG = $(if $(KUBECONFIG),--kubeconfig=$(KUBECONFIG))
KUBECTL = $(or $(shell command -v kubectl),$(shell $(BIN)/jobset cluster fetch)/kubectl)
# Processes that run tests side by side. Most tests wait for a cluster: two for each processor keep it busy.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
WORKERS ?= $(shell echo $$((2 * $(PROCESSORS))))
# Every run leaves what each test took in build/tests.xml, and names the slowest.
PYTEST ?= $(BIN)/pytest --durations=30 --durations-min=1 --junitxml=build/tests.xml --numprocesses=$(WORKERS)

# Bytecode is kept, whatever the shell says: tests start hundreds of processes, and pytest rewrites each file of tests.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.lock pyproject.toml clients/python/pyproject.toml dev/hack/bootstrap.sh
	@dev/hack/bootstrap.sh $(VENV)
	@touch $@

.PHONY: env
env: $(READY) ## Make the environment in .venv (every other target does this by itself)

.PHONY: binaries
binaries: $(READY) ## Fetch or build the control plane's binaries (about 12 minutes once, then cached)
	@$(BIN)/jobset cluster fetch > /dev/null

.PHONY: demo
demo: $(READY) ## Run a JobSet through failure and restart on a real control plane (STORY=fine-tuning, STORY=platform, REAL=1, KEEP=1 leaves it running)
	@$(BIN)/$(if $(REAL),python -m dev.hack.real_demo,jobset demo $(STORY)) $(if $(KEEP),--keep)

.PHONY: test
test: binaries ## Run all tests but the slow ones, those against a real control plane included (15 minutes on 2 cores)
	@echo "all tests but the slow ones: about 15 minutes on 2 cores, in $(WORKERS) processes"
	@$(PYTEST) -m "not slow" $(TEST_FLAGS)

.PHONY: rights
rights: $(READY) ## Compare what the manager asked for in the last run of all tests with its roles
	@$(BIN)/python -m tests.support.cluster.rights

.PHONY: test-unit
test-unit: $(READY) ## Run the tests that need no control plane (2 minutes on 2 cores)
	@$(PYTEST) --numprocesses=$$(($(PROCESSORS) + 1)) -m "not slow and not integration and not e2e" --ignore=tests/dev/cluster $(TEST_FLAGS)

.PHONY: coverage
coverage: $(READY) ## Run the same with branch coverage, line by line in build/coverage/index.html (4 minutes on 2 cores)
	@$(MAKE) --no-print-directory test-unit TEST_FLAGS="--cov --cov-report=html:build/coverage"
	@for package in api controllers webhooks; do \
		echo "branch coverage of $$package/: $$($(BIN)/coverage report --format=total --include="$$package/*") %"; done
	@echo "branch coverage of all: $$($(BIN)/coverage report --format=total) %"

.PHONY: test-integration
test-integration: binaries ## Run the tests against a real API server
	@$(PYTEST) -m integration

.PHONY: test-e2e
test-e2e: binaries ## Run the tests on the full control plane
	@$(PYTEST) -m e2e

# Older versions of Kubernetes that can be run: a folder of pinned modules for each.
OLDER := $(notdir $(patsubst %/go.mod,%,$(wildcard dev/cluster/minors/*/go.mod)))
KUBERNETES = $(if $(filter command,$(firstword $(origin VERSION))),$(VERSION),$(firstword $(OLDER)))

.PHONY: test-kubernetes
test-kubernetes: binaries ## Run installation, demo, suspension, admission on an older Kubernetes (VERSION=1.33; built once, 7 minutes)
	@assets=$$($(BIN)/jobset cluster fetch --kubernetes $(KUBERNETES)) && echo "Kubernetes $(KUBERNETES): $$assets" && \
		KUBEBUILDER_ASSETS=$$assets $(PYTEST) --junitxml=build/tests-$(KUBERNETES).xml -m "not slow and not newest" \
		tests/integration/crd tests/integration/test_manifests.py tests/integration/test_corpus_server.py \
		tests/e2e/test_versions.py tests/e2e/test_demo.py tests/e2e/test_lifecycle.py tests/e2e/test_operate.py \
		tests/e2e/test_stages.py tests/e2e/test_explain.py tests/e2e/placement/test_domains.py

.PHONY: test-all
test-all: binaries ## Run everything, the slow tests and older versions of Kubernetes too (100 minutes on 2 cores)
	@echo "all tests, the slow ones too: about 100 minutes on 2 cores, in $(WORKERS) processes"
	@$(PYTEST)
	@for version in $(OLDER); do $(MAKE) --no-print-directory test-kubernetes VERSION=$$version || exit; done

.PHONY: test-frameworks
test-frameworks: $(READY) ## Run the programs of examples/frameworks as local processes and in pods (the first run needs up to 8 GB)
	@FRAMEWORKS=1 $(BIN)/pytest -v tests/frameworks/test_programs.py tests/e2e/real/test_frameworks.py $(ARGS)

.PHONY: bench
bench: binaries ## Measure this manager against a bare client in all scenarios (about half an hour; ARGS="--scenarios P1,P2 --rounds 1")
	@$(BIN)/python -m dev.bench $(ARGS)

.PHONY: bench-admission
bench-admission: $(READY) ## Measure admission: latency at 500 reviews a second, processor time (ARGS="-o json", "--saturation")
	@$(BIN)/python -m dev.bench.admission $(ARGS)

.PHONY: bench-plan
bench-plan: $(READY) ## Time one plan of the reconcile loop for up to 100,000 Jobs (ARGS="-o json")
	@$(BIN)/python -m dev.bench.plan $(ARGS)

.PHONY: bench-many
bench-many: binaries ## Measure 1,000 JobSets on a real control plane, in ten minutes (ARGS="--scale 0.1")
	@$(BIN)/python -m dev.bench --scenarios P19 --nodes 200 --manager jobset $(ARGS)

.PHONY: chaos
chaos: binaries ## Run three replicas under load and every fault for 20 minutes, and judge (ARGS="--seed 7 --minutes 3 -o json")
	@$(BIN)/python -m dev.chaos $(ARGS)

.PHONY: soak
soak: binaries ## The same with faults that no process dies of, and compare memory (ARGS="--seed 7")
	@$(BIN)/python -m dev.chaos --soak $(ARGS)

.PHONY: lint
lint: $(READY) ## Check style, spelling, names and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell .
	$(BIN)/python -m dev.hack.names
	$(BIN)/lint-imports --no-cache

.PHONY: typecheck
typecheck: $(READY) ## Check types, strictly
	$(BIN)/mypy

.PHONY: fmt
fmt: $(READY) ## Format the code and apply the fixes that ruff can make
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What writes files of the tree. Each takes --check and then writes nothing.
GENERATORS := manifests dev.hack.client_models dev.reference.pages dev.hack.licences

.PHONY: generate
generate: $(READY) ## Generate all that is generated: manifests, chart, models of the Python client, reference pages
	@for generator in $(GENERATORS); do $(BIN)/python -m $$generator || exit; done

.PHONY: check-generated
check-generated: $(READY) ## Fail if a generated file differs from what would be generated
	@for generator in $(GENERATORS); do $(BIN)/python -m $$generator --check || exit; done

# On a new clone, each process of the tests would otherwise rewrite all their files, which takes 10 s of processor time.
.PHONY: rewritten-tests
rewritten-tests: $(READY)
	@$(BIN)/pytest --quiet --collect-only --numprocesses=0 > /dev/null || true  # `make test` says what cannot be imported

.PHONY: ci
ci: $(READY) ## What .ci/run runs: every check, and all tests but the slow ones
	@$(MAKE) --no-print-directory --jobs=2 rewritten-tests lint typecheck check-generated
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory rights

.PHONY: install
install: $(READY) ## Install into the cluster of KUBECONFIG (IMAGE=name:tag is the image that its nodes pull)
	@dev/hack/reachable.sh install $(KUBECTL) $(KUBECONFIG_FLAG)
	@IMAGE='$(IMAGE)' dev/hack/install.sh $(KUBECTL) $(KUBECONFIG_FLAG)

.PHONY: uninstall
uninstall: $(READY) ## Remove it from the cluster of KUBECONFIG, with every JobSet; if there are any, lists them and asks (YES=1 does not ask)
	@dev/hack/reachable.sh uninstall $(KUBECTL) $(KUBECONFIG_FLAG)
	@YES=$(YES) dev/hack/uninstall.sh $(KUBECTL) $(KUBECONFIG_FLAG)

.PHONY: run
run: $(READY) ## Run the manager on this machine against the cluster of KUBECONFIG
	@dev/hack/reachable.sh run $(KUBECTL) $(KUBECONFIG_FLAG)
	@$(BIN)/python -m dev.hack.beside $(KUBECTL) $(KUBECONFIG_FLAG)
	$(BIN)/jobset manager $(ARGS)

.PHONY: image
image: ## Build the container image (IMAGE=name:tag)
	$(DOCKER_BUILD) -f docker/Dockerfile $(LABELS) -t $(or $(IMAGE),jobset:$(VERSION)) . || $(NO_BUILDER)

.PHONY: image-agent
image-agent: ## Build the image of the in-place restart agent (IMAGE=name:tag)
	$(DOCKER_BUILD) -f docker/Dockerfile --target agent $(LABELS) -t $(or $(IMAGE),jobset-in-place-restart-agent:$(VERSION)) . \
		|| $(NO_BUILDER)

.PHONY: image-layout
image-layout: $(READY) ## Build the image without an image builder, on Debian: build/image/oci, with SBOMs beside it
	@rm -rf build/root build/image
	@REVISION=$(REVISION) docker/rootfs.sh image build/root build/image

.PHONY: node-images
node-images: $(READY) ## Make the images that real nodes are tried with, on Debian: manager, agent and Python, in the cache
	@$(BIN)/python -m dev.hack.node_images

.PHONY: base-image
base-image: ## Start the images from the newest image of their base's tag (a digest in docker/Dockerfile)
	@docker/pin-base.sh

.PHONY: client
client: $(READY) ## Build the wheel of the Python client, in dist
	@cd clients/python && $(CURDIR)/$(BIN)/python -m hatchling build --target wheel --directory $(CURDIR)/dist

.PHONY: lock
lock: $(READY) ## Resolve the dependencies again into requirements.lock
	$(BIN)/uv pip compile -q --universal --generate-hashes --upgrade --no-header --no-annotate --no-emit-index-url \
		--group dev --all-extras pyproject.toml -o requirements.lock

.PHONY: wheel
wheel: $(READY) ## Build the wheel of the command line and the manager into dist
	@$(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir dist .
	@ls dist/*.whl

.PHONY: docs-site
docs-site: $(READY) ## Make the documentation into a site with search, in build/site
	@$(BIN)/python -m dev.hack.docs_site

.PHONY: clean
clean: ## Remove the environment and everything generated in the tree
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
