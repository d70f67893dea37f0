# Halcyon: what can be done with this repository. `make help` lists it.

PORT ?= 6379
BENCH ?=
PEERS ?=
FUZZ_INPUTS ?= 10000000
KILLS ?= 500
FAULT_ROUNDS ?= 200
ROUNDS ?= 300
SCHEDULES ?= 1000000

export PATH := $(PATH):$(HOME)/.cargo/bin
CARGO_TARGET_DIR ?= $(CURDIR)/target
export CARGO_TARGET_DIR

.DEFAULT_GOAL := help
.PHONY: help run test bench miri fuzz crash faults simulate consistency clean

help: ## This list
	@sed -n -E 's/^([a-z]+):.*## (.*)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-14s%s\n", $$1, $$2 }'

run: ## Build the server and run it on 127.0.0.1:6379 with its data in ./data (PORT=7000: on another port)
	@scripts/install-dependencies build
	@cargo build --release -p halcyon
	@exec scripts/run $(PORT)

test: ## Check everything from a fresh clone: format, lints, unit, model, differential, tool, process and client tests
	@scripts/test

bench: ## Measure side by side with every peer found (PEERS="name=path,...", BENCH="--quick --only get_set --save")
	@scripts/install-dependencies build bench
	@cargo build --release -p halcyon
	@HALCYON_PEERS="$(or $(PEERS),$(HALCYON_PEERS))" python3 bench/run.py $(BENCH)

miri: ## Run the unit tests of the store's and the journal's unsafe code under Miri (installs it into a nightly toolchain)
	@scripts/miri

fuzz: ## Feed the readers of commands, append-only files and RDB files 10 million damaged inputs each (FUZZ_INPUTS=N)
	@HALCYON_FUZZ_INPUTS=$(FUZZ_INPUTS) cargo test --release -p resp -p journal --test fuzz -- --nocapture
	@cargo run --release -p proof -- fuzz-rdb --cases $(FUZZ_INPUTS)

crash: ## Kill a server under load 500 times and check what it kept (KILLS=N: another number)
	@cargo build --release -p halcyon -p proof
	@$(CARGO_TARGET_DIR)/release/proof crash --kills $(KILLS)

faults: ## Break links and change roles in trees of servers of all kinds, 200 rounds each (FAULT_ROUNDS=N: another number)
	@cargo build --release -p halcyon
	@HALCYON_FAULT_ROUNDS=$(FAULT_ROUNDS) python3 tests/server/run.py faults_

simulate: ## Run the cluster's decisions through a million schedules of faults, by seed (SCHEDULES=N: another number)
	@HALCYON_SIMULATION=1,$(SCHEDULES) cargo test --release -p cluster --test simulation -- --nocapture

consistency: ## Break a cluster 300 times while clients write down what they see, and judge that (ROUNDS=N: another number)
	@scripts/install-dependencies build test
	@cargo build --release -p halcyon
	@python3 tests/consistency/run.py --rounds $(ROUNDS)

clean: ## Remove what was built and downloaded here; ./data stays
	@cargo clean
	@rm -rf tests/clients/.cache
