# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

ROOT := $(CURDIR)
# Debian's own interpreter: a `python3` found on PATH may be a pyenv shim of any version.
PYTHON ?= /usr/bin/python3
VENV := $(ROOT)/.venv
BIN := $(VENV)/bin
STAMP := .build/setup.stamp

export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## Show this list
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(STAMP) ## Install what the other targets need into .venv

$(STAMP): requirements-dev.lock.txt tests/run/setup
	@tests/run/setup "$(PYTHON)"

.PHONY: lock
lock: ## Renew requirements-dev.lock.txt from requirements-dev.txt
	@tests/run/lock "$(PYTHON)"
