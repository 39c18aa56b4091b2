# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Debian's own interpreter: a `python3` found on PATH may be a pyenv shim of any version.
PYTHON ?= /usr/bin/python3

BIN := .venv/bin
STAMP := .build/setup.stamp

export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Ansible refuses any other encoding, and a fresh machine has none.
export LC_ALL := C.UTF-8
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## Show this list
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(STAMP) ## Install what the other targets need into .venv

$(STAMP): requirements-dev.lock.txt tests/run/setup
	@tests/run/setup "$(PYTHON)"

RUN_SUITES := $(BIN)/python tests/run/run_suites.py

.PHONY: test
test: setup ## Every test: native and emulated parts side by side, one summary
	@$(RUN_SUITES)

.PHONY: unit lint sanity build-test
unit: setup ## The engine, and the modules against a fake kernel; no root (ROOM=policy: of a part; CHANGED=1: of what differs from main)
	@$(if $(ROOM),$(BIN)/python tests/run/rooms.py --room "$(ROOM)",\
		$(if $(CHANGED),$(BIN)/python tests/run/rooms.py --changed,$(RUN_SUITES) unit))

lint: setup ## ruff, mypy, yamllint, ansible-lint, licences, docs
	@$(BIN)/python tests/run/lint.py

sanity: setup ## ansible-test sanity, without containers
	@$(RUN_SUITES) sanity

build-test: setup ## Build and sign the artifact, install and verify it elsewhere, import it as Galaxy does
	@$(RUN_SUITES) build

.PHONY: integration lab-test ipip-test
integration: setup ## Drivers and BIRD on this machine's kernel, in network namespaces; root
	@$(RUN_SUITES) --part integration

lab-test: setup ## The lab on this machine: molecule and the tests of the whole fleet; root
	@$(RUN_SUITES) --part lab

ipip-test: setup ## The lab with IPIP inside an emulated machine; root
	@$(RUN_SUITES) --part ipip

.PHONY: repro
repro: setup ## One test in its suite's lab, then a shell beside the lab: SUITE=lab-agent TEST=test_reboot; root
	@$(BIN)/python tests/run/repro.py "$(SUITE)" "$(TEST)"

.PHONY: build
build: setup ## The artifact baremetal-host_routing-VERSION.tar.gz and its SBOM; KEY=name signs it by gpg
	@$(BIN)/python tests/run/artifact.py . $(if $(KEY),"$(KEY)")

.PHONY: docs
docs: setup ## Write the generated pages: variables.md, metrics.md, figures.md, the table of security.md, calicoctl's manual
	@$(BIN)/python docs/generate_variables.py
	@$(BIN)/python docs/generate_metrics.py
	@$(BIN)/python docs/generate_manual.py
	@$(BIN)/python docs/generate_attacks.py
	@$(BIN)/python docs/generate_figures.py

.PHONY: docs-site
docs-site: setup ## The documentation as a website in .build/site/html, with the reference of modules; links are checked
	@$(BIN)/python docs/site/build.py

.PHONY: demo
demo: setup ## Start the lab, turn its hosts into routers, show what came of it (MODE=ipip: in an emulated machine)
	@MODE="$(MODE)" tests/run/demo

.PHONY: recording
recording: setup .build/recording/ready ## Run the demo and make the recording that the README shows (docs/images/switch.svg)
	@$(BIN)/python docs/record_switch.py

.build/recording/ready: docs/recording.requirements.txt
	@"$(PYTHON)" -m venv --clear .build/recording
	@.build/recording/bin/python -m pip install --quiet --no-input -r $<
	@touch $@

.PHONY: lab-down
lab-down: ## Take away all that demo and tests started
	@tests/lab/lab destroy --all

.PHONY: bench
bench: setup ## Measure the speed goals of docs/reference/benchmarks.md
	@bench/run

.PHONY: soak
soak: setup ## Longer runs, not part of test (SOAK_MINUTES=30)
	@SOAK_MINUTES="$(or $(SOAK_MINUTES),30)" tests/run/soak

.PHONY: mutants
mutants: setup .build/mutants/ready ## Which of COUNT small faults (SEED=1) the unit tests of the engine notice (ROOMS=bgp,ipam)
	@nice .build/mutants/bin/python tests/run/mutants.py --seed "$(or $(SEED),1)" --count "$(or $(COUNT),100)" \
		$(if $(ROOMS),--rooms "$(ROOMS)")

.build/mutants/ready: tests/run/mutants.requirements.txt
	@"$(PYTHON)" -m venv --clear .build/mutants
	@.build/mutants/bin/python -m pip install --quiet --no-input -r $<
	@touch $@

.PHONY: clean
clean: ## lab-down, then remove all that was built or downloaded
	@tests/lab/lab destroy --all --cache
	@rm -rf .build .venv .ansible .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/output
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: lock
lock: ## Renew requirements-dev.lock.txt from requirements-dev.txt
	@tests/run/lock "$(PYTHON)"
