# Every target sets itself up. Build products are shared by all checkouts and lie outside them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

export DOVETAIL_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dovetail
export CARGO_TARGET_DIR ?= $(DOVETAIL_CACHE)/target

PLAYGROUND := $(DOVETAIL_CACHE)/playground

.PHONY: help claim run check test tidy crds e2e cluster cluster-down

help: ## what the targets are
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

claim:
	@hack/claim-target.sh

run: claim ## build dovetail and show what it can do
	@echo "building dovetail (about 3 minutes the first time, then seconds)" >&2
	cargo run --quiet --package cli -- --help

check: claim ## the quick look: type check and tidy
	cargo check --workspace --all-targets
	cargo xtask tidy

tidy: claim ## the house rules
	cargo xtask tidy

crds: claim ## write crds/ from the types
	cargo xtask crds

test: claim ## everything: format, lints, unit, property and e2e tests
	cargo fmt --all --check
	@echo "compiling and linting (about 5 minutes the first time, then seconds)" >&2
	cargo clippy --workspace --all-targets -- --deny warnings
	cargo test
	$(MAKE) e2e

e2e: claim ## only the tests on a real control plane
	@hack/control-plane.sh >/dev/null
	cargo build --package cli
	cd e2e/control-plane && test -z "$$(gofmt -l .)" && CGO_ENABLED=0 GOFLAGS=-mod=readonly go test -trimpath -vet=off ./...
	export DOVETAIL_CONTROL_PLANE="$$(hack/control-plane.sh)" && \
	cargo test --package e2e

cluster: ## start a Kubernetes playground on loopback
	@"$$(hack/control-plane.sh)" up --dir "$(PLAYGROUND)"

cluster-down: ## end the playground
	@"$$(hack/control-plane.sh)" down --dir "$(PLAYGROUND)"
