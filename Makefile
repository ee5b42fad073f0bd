# Every command a person needs. `make help` lists them.
SHELL := /bin/bash
CLUSTER := tests/cluster/cluster
NODES ?= 1
export SAMPLEDB_NODES := $(NODES)

.DEFAULT_GOAL := help
.PHONY: help setup demo test check e2e bench crds images install cluster-up cluster-down cluster-status clean

help: ## Lists these commands.
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: ## Installs what the other commands need (Debian packages; root or sudo).
	@$(CLUSTER) setup

demo: ## A real local Kubernetes, the chart, a SampleDB, a query, and what to try next.
	@tests/e2e/demo

test: ## All the tests, the end-to-end ones included; ends with one line that counts them.
	@tests/e2e/all

check: ## What needs no cluster: format, lints, generated files, unit and chart tests.
	@tests/e2e/all --without-cluster

e2e: ## The end-to-end tests alone: make e2e [TEST=name].
	@tests/e2e/all --only-cluster $(TEST)

bench: ## The figures of docs/benchmarks.md.
	@tests/e2e/bench

crds: ## Writes what is generated from the code: the CRD, rights, policy, tables of the docs.
	@cargo run --quiet --package sampledb-shared --bin generate -- charts/sampledb docs/status-contract.md

images: ## Builds the project's images.
	@tests/e2e/install --images-only

install: ## Builds the images and installs or upgrades the chart on the cluster.
	@tests/e2e/install

cluster-up: ## Starts the test cluster: make cluster-up [NODES=1|3].
	@$(CLUSTER) setup && $(CLUSTER) build && $(CLUSTER) up --nodes $(NODES)

cluster-down: ## Stops it and leaves nothing behind but the cache of its programs.
	@$(CLUSTER) down

cluster-status: ## What of it runs.
	@$(CLUSTER) status

clean: ## Removes what was built here (not the cache of the cluster's programs).
	@cargo clean
