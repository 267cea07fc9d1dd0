# Everything a developer runs. Each target sets up .venv by itself; all that is needed is Python 3.11 or newer.
#   make setup    .venv with locked dependencies and the workspace's packages, editable
#   make setup-analytics  Spark into .venv, 400 MB; plait analyze --engine duckdb needs none of it
#   make test     the test suite; sets Spark up where there is Java, and says in its last line if there is none
#   make lint     formatting, ruff, mypy --strict, the architecture tests
#   make demo     the main job, shown
#   make bench    the benchmarks, each next to its comparison; writes lab/BENCHMARKS.md
#   make nightly  the slow suites: a million pairs, long fuzzing; as root with a Docker engine, image-offline and e2e
#   make kernel   build the native matching kernel into .venv, and say how it goes; make setup does so by itself where
#                 it can, and PLAIT_NO_KERNEL=1 keeps it from that
#   make docs     write anew what in docs/ and docker/ is written by programs
#   make pictures  take the screenshots in docs/ anew; needs chromium, chromium-driver and fonts-inter (Debian's)
#   make e2e      a whole deployment in containers, harmed under load; needs Docker and the images. SECONDS=600 for longer
#   make soak     HOURS=h: brokers while clients come and go; what they use is noted and plotted into build/soak
#   make dist     wheels of all members and the kernel into dist/, tried in an empty environment; bill of materials
#   make image    container images by Docker from public bases; make image-offline: from Debian's packages alone, as root
#   make lock     choose new versions of all dependencies
PYTHON ?= python3
BIN := .venv/bin
MEMBERS := core crypto client broker lab peer analytics
KERNEL := core/kernel/pyproject.toml $(wildcard $(addprefix core/kernel/,Cargo.toml .cargo/config.toml \
  matching/Cargo.toml matching/src/*.rs matching/src/*/*.rs binding/Cargo.toml binding/src/*.rs))

.PHONY: setup setup-analytics kernel test lint format docs pictures demo bench nightly fuzz lock image image-offline e2e soak dist clean
setup: .venv/.ready

.venv/.ready: requirements.lock scripts/setup.sh $(MEMBERS:%=%/pyproject.toml) $(KERNEL)
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(MEMBERS)
	@touch $@

setup-analytics: .venv/.ready
	@sh scripts/setup.sh --analytics

kernel: .venv/.ready
	@sh scripts/setup.sh --kernel

WITHOUT_KERNEL := tests/unit/core/wire/test_event_frames.py tests/unit/core/wire/test_decoder.py tests/unit/core/wire/test_attributes.py \
  tests/unit/broker/clients/test_delivery_queue.py tests/unit/client/protocol/test_session.py tests/fuzz tests/sim/test_faults.py \
  tests/sim/test_history_hashes.py
# One more than there are cores, for tests of real processes wait for those.
WORKERS := $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
test: .venv/.ready
	@sh scripts/setup.sh --spark-tests
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=25 --durations-min=5 $(ARGS) || { [ $$? = 1 ] && \
	  echo "what failed runs once more, by itself: a busy machine may fail a test once, a defect fails it again" && \
	  $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }
	@echo "once more without the native kernel: the wire, the protocol, the simulator"
	@PLAIT_NATIVE=off $(BIN)/python -m pytest -q -n auto --dist worksteal $(WITHOUT_KERNEL)
	@$(BIN)/python tests/support/spark.py

lint: .venv/.ready
	@$(BIN)/ruff format --check --quiet . || { echo "run make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_exports.py tests/test_documents.py

format: .venv/.ready
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: .venv/.ready
	@$(BIN)/python -m plait_lab.documents

pictures: .venv/.ready
	@$(BIN)/python -m plait_lab.pages.screenshots $(ARGS)

demo: .venv/.ready
	@$(BIN)/plait demo $(ARGS)

bench: .venv/.ready
	@$(BIN)/python -m plait_lab.bench --write lab/BENCHMARKS.md $(ARGS)

nightly: setup-analytics
	@PLAIT_NIGHTLY=1 HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -n auto --timeout 7200 $(ARGS)
	@$(MAKE) fuzz RUNS=2000000
	@if docker info >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then $(MAKE) image-offline && $(MAKE) e2e SECONDS=600; \
	else echo "nightly: no deployment was harmed, for that takes root and a Docker engine"; fi

RUNS ?= 100000
fuzz: .venv/.ready
	@for target in frames filters tree_messages envelopes keys deposits key_requests links; do \
	  runs=$(RUNS); case $$target in envelopes|keys|deposits|links) runs=$$(($(RUNS) / 20));; esac; \
	  echo "fuzzing $$target, $$runs runs"; mkdir -p build/fuzz/$$target; \
	  $(BIN)/python tests/fuzz/fuzz_$$target.py -runs=$$runs -max_len=4096 build/fuzz/$$target tests/fuzz/corpus/$$target 2>build/fuzz/$$target.log \
	    || { tail -30 build/fuzz/$$target.log; exit 1; }; \
	done

IN_IMAGE := core crypto client broker peer
OURS := plait plait-core plait-crypto plait-broker plait-lab plait-peer plait-analytics
lock:
	@command -v uv >/dev/null || { echo "lock: uv is not installed: $(BIN)/pip install uv" >&2; exit 1; }
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --upgrade \
	  --custom-compile-command "make lock" $(OURS:%=--no-emit-package %) \
	  --group dev $(MEMBERS:%=%/pyproject.toml) -o requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --upgrade \
	  --custom-compile-command "make lock" $(OURS:%=--no-emit-package %) \
	  --constraint requirements.lock --extra spark --extra beside analytics/pyproject.toml -o requirements-analytics.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --upgrade \
	  --custom-compile-command "make lock" $(OURS:%=--no-emit-package %) --constraint requirements.lock \
	  $(IN_IMAGE:%=%/pyproject.toml) -o docker/requirements.lock

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' broker/pyproject.toml)
IMAGES := broker analytics
IMAGE_ARGS = --build-arg VERSION=$(VERSION) --build-arg REVISION=$(shell git rev-parse --short HEAD)
image:
	@command -v docker >/dev/null || { echo "image: docker is not installed: apt-get install docker.io" >&2; exit 1; }
	@for image in $(IMAGES); do \
	  docker build $(IMAGE_ARGS) --build-arg KINDS=$$image --target $$image -t plait-$$image:$(VERSION) -f docker/Dockerfile . || exit 1; \
	done

# Each is given the wheels that it takes and no others, which are half a gigabyte.
CONTEXT := docker requirements-analytics.lock $(IN_IMAGE) analytics
OFFLINE := --network none --build-arg BUILDER=plait-base:bookworm --build-arg BASE=plait-base:bookworm
image-offline:
	@sh docker/base.sh plait-base:bookworm
	@PYTHON_OF_IMAGE=3.11 sh docker/wheels.sh build/wheels $(IMAGES)
	@for image in $(IMAGES) prometheus; do \
	  mkdir -p build/wheels/$$image && \
	  tar -c --exclude=target --exclude=__pycache__ --exclude='*.egg-info' --exclude='*.so' $(CONTEXT) build/wheels/$$image | \
	    DOCKER_BUILDKIT=0 docker build --quiet --force-rm $(OFFLINE) $(IMAGE_ARGS) --build-arg KINDS=$$image --target $$image \
	    -t plait-$$image:$(VERSION) -f docker/Dockerfile - >build/image.log 2>&1 || { tail build/image.log; exit 1; }; \
	  docker image ls --format 'image: {{.Repository}}:{{.Tag}}, {{.Size}}' plait-$$image:$(VERSION); \
	done
	@grep -qs PROMETHEUS_IMAGE docker/.env || echo PROMETHEUS_IMAGE=plait-prometheus:$(VERSION) >>docker/.env

SECONDS ?= 120
DOCKER_PAGES := $(foreach page,how-to/compose troubleshooting,"tests/integration/test_pages.py::test_the_commands_of_a_page_print_what_it_shows[docs/$(page).md-docker]")
e2e: .venv/.ready
	@PLAIT_E2E=1 PLAIT_CHAOS_S=$(SECONDS) $(BIN)/python -m pytest -q -s tests/e2e $(DOCKER_PAGES) $(ARGS)

HOURS ?= 1
soak: .venv/.ready
	@$(BIN)/python -c 'import matplotlib' 2>/dev/null || sh scripts/setup.sh --plots || echo "soak: no matplotlib to be had, so no plot"
	@$(BIN)/python -m plait_lab.benchmarks.measurement.soak --hours $(HOURS) $(ARGS)

dist: .venv/.ready
	@$(BIN)/python scripts/dist.py

clean:
	rm -rf .venv build .mypy_cache .pytest_cache .ruff_cache
