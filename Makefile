# `make demo` and `make test` do everything from a fresh clone: they make .venv, install what is
# missing, build and run. A second call re-uses all of it and rebuilds only what changed.
# `make help` lists the targets.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
# What runs on a machine with a GPU compiles much, once, and has it to itself.
ON_GPU := $(filter test-gpu bench-gpu,$(MAKECMDGOALS))
JOBS ?= $(if $(ON_GPU),$(shell nproc),2)

VENV := .venv
BIN := $(VENV)/bin
BUILD := build
# What .venv holds is recorded in .venv: removing it makes everything be installed anew.
STAMPS := $(VENV)/stamps

# In CI a warning in the native code is an error. On a user's machine, with a compiler we have not
# seen, it is not.
NATIVE_WARNINGS_AS_ERRORS := $(if $(CI),ON,OFF)

export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
# Images of containers set it: each process would compile TensorFlow's and Keras' Python files anew,
# which takes longer than all else in their import.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# TensorFlow's start-up notes would bury the output of tests and demo.
export TF_CPP_MIN_LOG_LEVEL ?= 2

CPP_SOURCES = $(shell find ops tests/ops -name '*.cc' -o -name '*.cu' -o -name '*.h' 2>/dev/null)
NATIVE_SOURCES := $(shell find ops -name '*.cc' -o -name '*.cu' -o -name '*.h' 2>/dev/null)
NOTEBOOKS = $(wildcard examples/*.ipynb)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: help setup demo test test-all checks builds build-for-test lint tidy format build-tests build-sanitized build-cuda \
    emulated-ops need-gpu build-gpu-test build-gpu-bench test-cpp test-cpp-long test-gpu bench-gpu \
    test-sanitize test-python test-slow test-changed test-ranks test-slow-ranks test-versions test-hosts wheel \
    test-wheel notebooks docs bench stress fuzz soak clean FORCE

help:  ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMPS)/native  ## Make .venv and install the package in it (editable).

demo: $(STAMPS)/native $(STAMPS)/demo  ## Train, save and reload a click model on MovieLens-1M.
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python examples/movielens.py

test:  ## Run the tests that a change needs: nine minutes from a fresh clone, five once built.
	@JOBS=$(JOBS) "$(PYTHON)" tools/run_parts.py test

test-all:  ## Run all that CI runs: the tests above and the slow ones.
	@JOBS=$(JOBS) "$(PYTHON)" tools/run_parts.py test-all

# Each works on one core at a time; what they install they install one after another.
checks: $(STAMPS)/test $(STAMPS)/wheel $(STAMPS)/docs
	@$(MAKE) --no-print-directory -j $(JOBS) --output-sync=recurse lint test-wheel docs

# All that compiles for long, at once: downloads and single files leave a core idle.
builds:
	$(MAKE) --no-print-directory -j 3 --output-sync=line setup build-sanitized $(STAMPS)/horovod build-cuda

build-for-test:
	$(MAKE) --no-print-directory -j 3 --output-sync=line setup $(STAMPS)/horovod $(STAMPS)/test

# --- Installation ----------------------------------------------------------------------------

$(BIN)/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python must be 3.11 or later; name one with make PYTHON=... Received: PYTHON=$(PYTHON)"; \
	  exit 1; }
	@"$(PYTHON)" -c 'import ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments. On Debian: apt-get install python3-venv"; \
	  exit 1; }
	"$(PYTHON)" -m venv $(VENV)

# One requirements file an extra, read from pyproject.toml and rewritten only when its lines
# changed, so that an edit of pyproject.toml elsewhere installs nothing.
$(STAMPS)/requirements-%.txt: pyproject.toml tools/requirements.py | $(BIN)/python
	@mkdir -p $(STAMPS)
	@$(BIN)/python tools/requirements.py $* > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# Python compiles what is imported, a small part of it, when it is.
$(STAMPS)/%: $(STAMPS)/requirements-%.txt
	$(BIN)/python -m pip install --quiet --no-compile -r $<
	@touch $@

# Of what the build needs, that without TensorFlow.
$(STAMPS)/requirements-cmake.txt: $(STAMPS)/requirements-build.txt
	grep -E '^(cmake|ninja)' $< > $@
$(STAMPS)/build: $(STAMPS)/cmake

# Editable: Python files are used where they lie, the native library and _build_info.py from where
# pip put them. An import hook joins the two whatever folder Python is started in, so the checkout
# cannot hide the installed library, and an edited Python file needs no new installation.
$(STAMPS)/native: $(STAMPS)/build $(if $(filter ON,$(KERAS_SPARSE_CUDA)),$(STAMPS)/nvcc) \
    $(STAMPS)/store-headers $(STAMPS)/with-cuda CMakeLists.txt pyproject.toml keras_sparse/__init__.py \
    tools/install_horovod.py $(wildcard cmake/*) $(NATIVE_SOURCES)
	@echo "Compiling the native ops takes some minutes the first time, and pip says nothing meanwhile."
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable . \
	  --config-settings=cmake.define.KERAS_SPARSE_WARNINGS_AS_ERRORS=$(NATIVE_WARNINGS_AS_ERRORS)
	@touch $@

# While the package is compiled, and not while pip installs for it.
$(STAMPS)/nvcc $(STAMPS)/test: | $(STAMPS)/build

# What stores need of the system. Without it they are left out, and a table that asks for one says so.
# `make demo SYSTEM_PACKAGES=no` installs nothing outside of .venv.
export SYSTEM_PACKAGES ?= yes

$(STAMPS)/stores: | $(STAMPS)/cmake
	tools/install_debian_package.sh libleveldb-dev leveldb/db.h "The LEVELDB tier" || true
	tools/install_debian_package.sh libpmem-dev libpmem.h "The PMEM tier" || true
	@touch $@

# Those that are there. It changes where a user installs one later, and the library is built anew.
$(STAMPS)/store-headers: $(STAMPS)/stores FORCE
	@for header in leveldb/db.h libpmem.h; do \
	  echo "#include <$$header>" | $(CXX) -E -x c++ - > /dev/null 2>&1 && echo $$header; \
	done > $@.new; true
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
FORCE:

# Kernels take minutes to compile, for GPUs that most machines lack. On one with a GPU:
# `make setup KERAS_SPARSE_CUDA=ON`, which later calls keep to.
export KERAS_SPARSE_CUDA ?= $(firstword $(shell cat $(STAMPS)/with-cuda 2>/dev/null) OFF)

$(STAMPS)/with-cuda: FORCE | $(BIN)/python
	@mkdir -p $(STAMPS)
	@echo $(KERAS_SPARSE_CUDA) $(CUDAARCHS) | cmp -s - $@ || echo $(KERAS_SPARSE_CUDA) $(CUDAARCHS) > $@

# For several processes: built once, then taken from the user's cache folder.
$(STAMPS)/horovod: tools/install_horovod.py $(STAMPS)/build | $(STAMPS)/test
	$(BIN)/python tools/install_horovod.py
	@touch $@

# No pip package has GoogleTest's headers and library: Debian's is installed where that needs no
# password.
$(STAMPS)/gtest: | $(STAMPS)/stores
	tools/install_debian_package.sh libgtest-dev gtest/gtest.h "The C++ tests"
	@touch $@

# --- Checks ----------------------------------------------------------------------------------

lint: $(STAMPS)/build $(STAMPS)/test  ## Check style and types, and by clang-tidy what changed; changes nothing.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/clang-format --dry-run -Werror $(CPP_SOURCES)
	$(call run_tidy,--changed)

# $(call run_tidy,OPTIONS): half a second a source.
define run_tidy
	@$(BIN)/cmake -S . -B $(BUILD)/tidy -DKERAS_SPARSE_CORE_ONLY=ON -DKERAS_SPARSE_EACH_ALONE=ON --log-level=WARNING > /dev/null
	@$(BIN)/python tools/core_sources.py $(BUILD)/tidy $(1) > $(BUILD)/tidy/sources.txt
	xargs --no-run-if-empty -P $(JOBS) -n 1 $(BIN)/clang-tidy --quiet -p $(BUILD)/tidy \
	  < $(BUILD)/tidy/sources.txt
endef

tidy: $(STAMPS)/stores $(STAMPS)/cmake $(STAMPS)/test  ## Look for bugs in all of the core by clang-tidy.
	$(call run_tidy)

format: $(STAMPS)/test  ## Rewrite the sources in the project's style.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_SOURCES)

# $(call run_cpp_tests,BUILD FOLDER,PROGRAM,CTEST OPTIONS): the report has a line a test.
define run_cpp_tests
	$(BIN)/cmake --build $(1) --target $(2) -j $(JOBS)
	$(BIN)/ctest --test-dir $(1) --output-on-failure --no-tests=error -j $(JOBS) $(3)
	@grep -hE '^\[ +(OK|SKIPPED) +\] .* ms\)$$' $(1)/Testing/Temporary/LastTest.log
endef

# Beside the package, whose objects of the core they link.
test-cpp: export GTEST_FILTER ?= -$(LONG_TESTS)
test-cpp: build-tests  ## Run the C++ tests of the usual build, without the long ones and the emulated GPU.
	$(call run_cpp_tests,$(wildcard $(BUILD)/py3-none-*),keras_sparse_core_test,--label-exclude device)

# Under sanitizers the memory of a GPU is open to the CPU: the tests on one run here once more.
test-cpp-long: build-tests  ## Run the long C++ tests, which sanitizers leave out, and those on an emulated GPU.
	GTEST_FILTER='$(LONG_TESTS)' $(MAKE) --no-print-directory test-cpp
	$(call run_cpp_tests,$(wildcard $(BUILD)/py3-none-*),keras_sparse_device_test,--label-regex device)

build-tests: $(STAMPS)/native $(STAMPS)/gtest
	$(BIN)/cmake -B $(wildcard $(BUILD)/py3-none-*) -DKERAS_SPARSE_BUILD_TESTS=ON --log-level=WARNING

# `make test-sanitize SANITIZE=thread` looks for races instead.
SANITIZE ?= address,undefined
SANITIZED := $(BUILD)/core-sanitize-$(SANITIZE)

build-sanitized: $(STAMPS)/cmake $(STAMPS)/stores $(STAMPS)/gtest
	$(BIN)/cmake -S . -B $(SANITIZED) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	  -DKERAS_SPARSE_CORE_ONLY=ON -DKERAS_SPARSE_BUILD_TESTS=ON \
	  -DKERAS_SPARSE_SANITIZE=$(SANITIZE) --log-level=WARNING
	$(BIN)/cmake --build $(SANITIZED) --target keras_sparse_core_test keras_sparse_device_test -j $(JOBS)

# The package's ops with a GPU that the CPU emulates: see tests/gpu.
emulated-ops: build-tests
	$(BIN)/cmake --build $(wildcard $(BUILD)/py3-none-*) --target keras_sparse_emulated_ops -j $(JOBS)

# For one GPU, whose code differs from that of the others in what ptxas makes of it. The tests and the
# benchmark that run on one are compiled as far as PTX.
build-cuda: $(STAMPS)/cmake $(STAMPS)/stores $(STAMPS)/gtest $(STAMPS)/nvcc  ## Compile the kernels for GPUs by pip's nvcc (105 MB); needs no GPU.
	$(call configure_cuda)
	$(BIN)/cmake --build $(CUDA_BUILD) --target keras_sparse_cuda_objects keras_sparse_gpu_check -j $(JOBS)

# A program of its own, to be carried to a machine with a GPU.
build-gpu-test: $(STAMPS)/cmake $(STAMPS)/stores $(STAMPS)/gtest $(STAMPS)/nvcc  ## Build the kernels' tests for an H100 or H200.
	$(call configure_cuda)
	$(BIN)/cmake --build $(CUDA_BUILD) --target keras_sparse_gpu_test -j $(JOBS)

build-gpu-bench: $(STAMPS)/cmake $(STAMPS)/stores $(STAMPS)/gtest $(STAMPS)/nvcc
	$(call configure_cuda)
	$(BIN)/cmake --build $(CUDA_BUILD) --target keras_sparse_gpu_bench -j $(JOBS)

test-gpu: need-gpu  ## Run the tests of kernels, and of tables in GPU memory, on this machine's GPU.
	$(call make_for_gpu,$(STAMPS)/gpu $(STAMPS)/test build-gpu-test setup)
	$(CUDA_BUILD)/keras_sparse_gpu_test
	$(BIN)/python tests/gpu/run_on_gpu.py --short --seconds 240 --durations=15

# Torch is beside the kernels if it is installed in .venv. What fails of them leaves the steps alone.
bench-gpu: need-gpu  ## Time kernels and steps on this machine's GPU, beside what peers are installed (eight minutes).
	$(call make_for_gpu,$(STAMPS)/gpu build-gpu-bench setup)
	-$(BIN)/python -m benchmarks.gpu.kernels $(CUDA_BUILD)/keras_sparse_gpu_bench --seconds 90 --json $(BUILD)/gpu-kernels.json
	$(BIN)/python -m benchmarks.gpu.steps --seconds 390 --kernels $(BUILD)/gpu-kernels.json --json $(BUILD)/gpu-steps.json

# Before anything is installed or compiled for it.
need-gpu:
	@driver=$$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2> /dev/null | head -n 1); \
	[ "$${driver%%.*}" -ge 580 ] 2> /dev/null || { \
	  echo "make $(or $(ON_GPU),$@) needs an NVIDIA GPU and its driver, of release 580 or later: nvidia-smi finds $${driver:-none}."; \
	  exit 1; }

# $(call make_for_gpu,TARGETS): with code for this machine's GPU alone.
define make_for_gpu
	$(MAKE) --no-print-directory JOBS=$(JOBS) KERAS_SPARSE_CUDA=ON \
	  CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES) CUDAARCHS=$(CUDA_ARCHITECTURES) $(1)
endef

CUDA_BUILD := $(BUILD)/core-cuda
# Such as 90 of "9.0".
of_this_gpu = $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | head -n 1 | tr -d .)
CUDA_ARCHITECTURES ?= $(or $(if $(ON_GPU),$(of_this_gpu)),90)

define configure_cuda
	$(BIN)/cmake -S . -B $(CUDA_BUILD) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	  -DPython_EXECUTABLE=$(abspath $(BIN))/python -DKERAS_SPARSE_CORE_ONLY=ON \
	  -DKERAS_SPARSE_BUILD_TESTS=ON -DKERAS_SPARSE_CUDA=ON -DKERAS_SPARSE_WARNINGS_AS_ERRORS=ON \
	  -DCMAKE_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES) --log-level=WARNING
endef

# Long trainings, and what has to be large. Under sanitizers they take minutes, and run no line there
# that shorter tests do not. `make test-sanitize GTEST_FILTER='*'` leaves out none.
LONG_TESTS := TieredTableRules*:TieredTableHistory*:HbmTiersRules*:*/History.*_with_decay:*/History.*/lion:*/HbmHistory.*/*StaticTables:*/HbmHistory.*/*DynamicTables:DeferredUpdatesInSteps*:StreamedLookup.PoolsMore*:ThreadCount*:*/EachFilter.GivesTheSameBits*/cbf_2:*/EachFilter.GivesTheSameBits*/probability_1:Restore.KeepsAHistoryThatIsLarge*:*.FillsItsSizeWithRows/On:CbfFilter.AdmitsEarlyAboutAsOften*
test-sanitize: export GTEST_FILTER ?= -$(LONG_TESTS)

test-sanitize: build-sanitized  ## Run the C++ tests under sanitizers.
	$(call run_cpp_tests,$(SANITIZED),keras_sparse_core_test keras_sparse_device_test)

# Tests of what threads do at once, by what their names say; races show in the thread sanitizer only.
CONCURRENT_TESTS := *Stress*:*Concurrency*:*Thread*:*WhileIt*:*OneVersion*:*Background*:*WriteBackBuffer*:*SsdCompaction*:*SharedPools*:Emulator*:PoolRows*:WeightsGradient*:UpdateRows*:HbmRecords*:HbmIndex*:HbmStore*:HbmDeltasOf.RowsThat*:MissingKeys*:*HbmUsesOf.Find*:*HbmLimit*:DeviceMerger*:BagsHash*:*DeferredUpdatesOnDevice*:HistoryOnDevice*:CatchUp*:*ExchangeOnDevice*:*ReturnGradients*

stress: export KERAS_SPARSE_STRESS_SECONDS := 60
stress:  ## Load on tiers, a minute a case, under sanitizers (30 minutes).
	$(MAKE) test-sanitize SANITIZE=thread GTEST_FILTER='$(CONCURRENT_TESTS)'
	$(MAKE) test-sanitize GTEST_FILTER='*Stress*'

# From another seed each time, which the tests print. A parser that asks for a GiB at once is a fault.
fuzz: export KERAS_SPARSE_FUZZ_SECONDS ?= 60
fuzz: export KERAS_SPARSE_FUZZ_SEED ?= $(shell date +%s)
fuzz: export ASAN_OPTIONS := max_allocation_size_mb=1024
fuzz: $(STAMPS)/native $(STAMPS)/test  ## Give parsers files and requests changed at random (ten minutes).
	$(MAKE) test-sanitize GTEST_FILTER='*Fuzz*'
	$(BIN)/pytest tests/saving/fuzz_test.py

# Several processes a test, which wait for each other for a limited time: not beside other tests.
# Their own run at once, as ranks leave cores idle.
RANKS_TESTS := tests/distribute/ranked_test.py
# Needs root, and a kernel with network namespaces.
HOSTS_TESTS := tests/distribute/several_hosts_test.py
ALONE := --ignore $(RANKS_TESTS) --ignore $(HOSTS_TESTS)
TOGETHER := -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ALONE)
FOR_TESTS := $(STAMPS)/native $(STAMPS)/horovod $(STAMPS)/test

test-python: $(FOR_TESTS)  ## Run the Python tests that are not slow.
	$(BIN)/pytest -m "not slow" --most-seconds 3 $(TOGETHER)

test-slow: $(FOR_TESTS) emulated-ops  ## Run the slow ones: processes, the emulated GPU, long histories, examples.
	$(BIN)/pytest -m slow $(TOGETHER)

test-ranks: $(FOR_TESTS)  ## Run the essential Python tests on two ranks.
	$(BIN)/pytest -m "not slow" $(RANKS_TESTS)

test-slow-ranks: $(FOR_TESTS)  ## Run the others, on two ranks and on three.
	$(BIN)/pytest -m slow -n $(JOBS) $(RANKS_TESTS)

# Which test runs which function is known from the last run of each, but not across ranks and other
# processes, nor of native code: where that is new, all tests run.
test-changed: export TESTMON_DATAFILE := $(abspath $(BUILD))/testmon
test-changed: $(FOR_TESTS) $(STAMPS)/dev emulated-ops  ## Run the Python tests of what has changed.
	@test $(TESTMON_DATAFILE) -nt $(STAMPS)/native || rm -f $(TESTMON_DATAFILE)
	$(BIN)/pytest --testmon $(TOGETHER)

# Keras and TensorFlow: both ends of the range that pyproject.toml declares, and what of the tests shows
# that Keras' and TensorFlow's names mean what they do in others.
VERSIONS := 3.12-2.20 3.15-2.21
VERSIONS_TESTS := tests/keras_integration tests/utils/supported_versions_test.py tests/layers/embedding_test.py \
    tests/optimizers/contract_test.py tests/optimizers/multi_optimizer_test.py tests/saving/keras_files/table_test.py \
    tests/saving/named_load_test.py tests/saving/checkpoint/checkpoint_test.py tests/callbacks \
    tests/saved_model/export_test.py tests/data/prefetch_lookups_test.py tests/tables/initial_rows_test.py

test-versions: $(VERSIONS:%=test-version-%)  ## Build and test with the oldest and the newest Keras and TensorFlow (installs 6 GB).

# $* is KERAS-TENSORFLOW. The package is compiled for each TensorFlow, in a folder of its own.
test-version-%: $(STAMPS)/requirements-build.txt $(STAMPS)/requirements-test.txt | $(STAMPS)/stores
	"$(PYTHON)" -m venv $(BUILD)/versions/$*
	$(BUILD)/versions/$*/bin/python -m pip install --quiet --no-compile $(^:%=-r %) \
	  "keras==$(firstword $(subst -, ,$*)).*" "tensorflow==$(lastword $(subst -, ,$*)).*"
	$(BUILD)/versions/$*/bin/python -m pip install --quiet --no-build-isolation --no-deps --force-reinstall . \
	  --config-settings=build-dir=$(BUILD)/versions/$*/native
	$(BUILD)/versions/$*/bin/pytest -m "not slow" -n $(JOBS) --dist loadfile --no-loadscope-reorder $(VERSIONS_TESTS)

test-hosts: $(FOR_TESTS)  ## Run ranks on two hosts with ssh between them, where root may make such hosts.
	$(BIN)/pytest $(HOSTS_TESTS)

# `make soak SOAK="--seed 5 --kills 10"` chooses other moments.
soak: $(FOR_TESTS)  ## Kill ranks of a DLRM training thirty times, and compare it with one that was not (25 minutes at most).
	$(BIN)/python tools/soak.py $(SOAK)

# For any Linux that is not older than this one. LevelDB is in it; TensorFlow has its own library, and
# libpmem, which needs others under the LGPL, is for systems that have such memory.
wheel: $(STAMPS)/native $(STAMPS)/wheel  ## Build a wheel for other machines, into dist/.
	rm -rf $(BUILD)/wheel dist
	$(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir $(BUILD)/wheel .
	PATH="$(abspath $(BIN)):$$PATH" auditwheel repair --exclude libtensorflow_framework.so.2 --exclude libpmem.so.1 \
	  --wheel-dir dist $(BUILD)/wheel/*.whl > $(BUILD)/wheel/repair.log 2>&1 || { cat $(BUILD)/wheel/repair.log; exit 1; }
	@ls dist

test-wheel: wheel  ## Build the wheels and import them without the checkout.
	$(BIN)/python tools/check_wheel.py $(BUILD)/wheel
	$(BIN)/python tools/check_wheel.py dist

notebooks: $(STAMPS)/native $(STAMPS)/test  ## Execute the notebooks in examples/.
	$(BIN)/pytest -n $(JOBS) --nbmake --override-ini filterwarnings=default $(NOTEBOOKS)

# Warnings that `--quiet` hides are not counted by `--strict` either.
docs: $(STAMPS)/docs  ## Build the documentation into build/docs; any warning is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir $(BUILD)/docs

# `make bench BENCH=--write` also puts the results into docs/benchmarks/results.md.
bench: $(STAMPS)/native  ## Time everything beside the peers that are installed (about an hour).
	$(BIN)/python -m benchmarks $(BENCH)

clean:  ## Remove what was built; keeps what is installed in .venv.
	rm -rf $(STAMPS)/native $(BUILD) dist site .mypy_cache .pytest_cache .ruff_cache
