# Every target sets itself up. Build products are shared by all checkouts and lie outside them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export DOVETAIL_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dovetail
export CARGO_TARGET_DIR ?= $(DOVETAIL_CACHE)/target

PLAYGROUND := $(DOVETAIL_CACHE)/playground
PLAY ?= simulate scenarios/eks-workshop.yaml
SAY := @echo >&2

.PHONY: help run check test tidy crds e2e mutants bench bench-quick bench-scenarios bench-live bench-memory bench-disrupt bench-consolidation bench-churn cluster cluster-down
.PHONY: just-run just-check just-test just-tidy just-crds just-e2e just-bench just-bench-quick just-bench-scenarios just-bench-live just-bench-memory just-bench-disrupt just-bench-consolidation just-bench-churn

help: ## what the targets are
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 21

run: ## build dovetail and play scenarios/eks-workshop.yaml (PLAY takes another command line)
check: ## the quick look: type check and tidy
tidy: ## the house rules
crds: ## write crds/ from the types
test: ## everything: format, lints, unit, property and e2e tests
e2e: ## only the tests on a real control plane
bench: ## our engine beside the reference's, and the large scenarios (80 minutes; goes on where it was stopped)
bench-quick: ## only the small rows of it (10 minutes)
bench-scenarios: ## how long the large scenarios take and what they cost (15 minutes)
bench-live: ## our controller beside the reference's, on real clusters (20 minutes)
bench-memory: ## what our controller holds in memory with 5,000 nodes and 100,000 pods (10 minutes)
bench-disrupt: ## one decision about which nodes leave, beside the reference's (10 minutes)
bench-consolidation: ## how soon and how cheaply clusters come to rest, beside the reference (2 hours; goes on where it was stopped)
bench-churn: ## what becomes of a steady load whose pods are replaced, beside the reference (70 minutes)
run check tidy crds test e2e bench bench-quick bench-scenarios bench-live bench-memory bench-disrupt bench-consolidation bench-churn:
	@hack/claim-target.sh $(MAKE) just-$@

just-run:
	$(SAY) "building dovetail (about 3 minutes the first time, then seconds)"
	@cargo run --quiet --locked --package cli -- $(PLAY)

just-check:
	cargo check --locked --workspace --all-targets
	cargo xtask tidy

just-tidy:
	cargo xtask tidy

just-crds:
	cargo xtask crds

just-test:
	cargo fmt --all --check
	$(SAY) "linting everything (about 5 minutes the first time, then seconds)"
	cargo clippy --locked --workspace --all-targets -- --deny warnings
	$(SAY) "building and running the tests that need no cluster (about 5 minutes the first time)"
	cargo test --locked
	@$(MAKE) just-e2e

just-e2e:
	@hack/control-plane.sh >/dev/null
	@hack/reference.sh >/dev/null
	$(SAY) "testing the control plane's own module (about 3 minutes the first time)"
	@unformatted="$$(cd e2e/control-plane && gofmt -l .)" && test -z "$$unformatted" || { echo "gofmt these: $$unformatted" >&2; exit 1; }
	@# Vet would compile all of Kubernetes a second time.
	cd e2e/control-plane && CGO_ENABLED=0 GOFLAGS=-mod=readonly go test -trimpath -vet=off ./...
	$(SAY) "testing on real clusters (about 14 minutes; the first time, 100 MB of the reference's modules are fetched as well)"
	cargo build --locked --package cli --features failpoints
	export DOVETAIL_CONTROL_PLANE="$$(hack/control-plane.sh)" DOVETAIL_REFERENCE="$$(hack/reference.sh)" && \
		cargo test --locked --package e2e

# BENCH takes further options, such as `--fresh` or `--rows 'diverse-*'`.
just-bench:
	$(SAY) "building the optimised benchmark (about 5 minutes the first time)"
	@# A target that the engine misses does not keep the scenarios from being played.
	cargo run --quiet --locked --release --package xtask -- bench --page $(BENCH); engine=$$?; \
		$(MAKE) just-bench-scenarios && exit $$engine

# LIVE takes further options, such as `--pods 500 --rounds 1`.
just-bench-live:
	$(SAY) "building the optimised controller (about 5 minutes the first time)"
	cargo build --quiet --locked --release --package cli --package e2e --bins
	$(SAY) "measuring the controller beside the reference's on real clusters (about 15 minutes)"
	export DOVETAIL_CONTROL_PLANE="$$(hack/control-plane.sh)" DOVETAIL_REFERENCE="$$(hack/reference.sh)" && \
		"$(CARGO_TARGET_DIR)/release/live" $(LIVE)

# CONSOLIDATION takes further options, such as `--stories 500-to-50 --rounds 1`.
just-bench-consolidation:
	$(SAY) "building the optimised controller (about 5 minutes the first time)"
	cargo build --quiet --locked --release --package cli --package e2e --bins
	$(SAY) "measuring consolidation beside the reference's on real clusters (about 2 hours)"
	export DOVETAIL_CONTROL_PLANE="$$(hack/control-plane.sh)" DOVETAIL_REFERENCE="$$(hack/reference.sh)" && \
		"$(CARGO_TARGET_DIR)/release/consolidation" $(CONSOLIDATION)

# CHURN takes further options, such as `--minutes 5 --sides ours`.
just-bench-churn:
	$(SAY) "building the optimised controller (about 5 minutes the first time)"
	cargo build --quiet --locked --release --package cli --package e2e --bins
	$(SAY) "replacing pods with our controller and with the reference's on real clusters (about 70 minutes)"
	export DOVETAIL_CONTROL_PLANE="$$(hack/control-plane.sh)" DOVETAIL_REFERENCE="$$(hack/reference.sh)" && \
		"$(CARGO_TARGET_DIR)/release/churn" $(CHURN)

just-bench-memory:
	$(SAY) "building the optimised controller (about 5 minutes the first time)"
	cargo build --quiet --locked --release --package cli
	@# Who asks need not be optimised, only who answers.
	DOVETAIL_BINARY="$(CARGO_TARGET_DIR)/release/dovetail" cargo bench --quiet --locked --profile dev --package e2e --bench memory

# DISRUPT takes further options, such as `--fresh` or `--rows rest-1000`.
just-bench-disrupt:
	$(SAY) "building the optimised benchmark (about 5 minutes the first time)"
	cargo run --quiet --locked --release --package xtask -- bench disrupt $(DISRUPT)

just-bench-scenarios:
	$(SAY) "building the optimised simulator (about 5 minutes the first time)"
	cargo build --quiet --locked --release --package cli
	hack/bench-scenarios.sh "$(CARGO_TARGET_DIR)/release/dovetail"

just-bench-quick:
	$(SAY) "testing the reference's harness (about 3 minutes the first time)"
	@# Vet would compile the reference's modules a second time.
	cd bench/peer && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOTOOLCHAIN="$${GOTOOLCHAIN:-auto}" go test -trimpath -vet=off ./...
	$(SAY) "building the optimised benchmark (about 5 minutes the first time)"
	cargo run --quiet --locked --release --package xtask -- bench --quick $(BENCH)

mutants: ## change lines of model and engine and see whether a test notices (half an hour)
	@hack/mutants.sh

cluster: ## start a Kubernetes playground on loopback
	@"$$(hack/control-plane.sh)" up --dir "$(PLAYGROUND)"

cluster-down: ## end the playground
	@"$$(hack/control-plane.sh)" down --dir "$(PLAYGROUND)"
