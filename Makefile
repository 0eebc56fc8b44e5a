# Every target does its own set-up: .venv, the pins, the native build. suites/targets.py has its variables and command.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PY := .venv/bin/python
NATIVE := CMakeLists.txt pyproject.toml $(wildcard cpprb_impl/core/*/*.?pp cpprb_impl/bindings/*.?pp)
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-deps
CPP := cpprb_impl/core/*/*.?pp cpprb_impl/bindings/*.?pp tests/cpprb_impl/*.cpp tests/torture/*.cpp tests/weak_memory/*.?pp
UV := pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --upgrade

# From the command line only: users' environments often have variables such as ENV and SECONDS.
VENV :=
GIVEN := $(foreach v,$(filter-out PYTHON MAKEFLAGS,$(.VARIABLES)),$(if $(filter command,$(firstword $(origin $v))),'$v=$(subst ','\'',$($v))'))
TABLE = $(shell command -v $(PY) || command -v $(PYTHON)) -m suites.targets
ifneq ($(strip $(GIVEN)),)
ALSO := $(shell $(TABLE) check '$(MAKECMDGOALS)' $(GIVEN))
$(if $(filter-out 0,$(.SHELLSTATUS)),$(error $(or $(ALSO),$(PYTHON) cannot check the variables: Python 3.11 or later is needed)))
endif

# `make check` uses the Python named on its command line as the one that can import the buffer.
check: export REPLAYBENCH_PYTHON = $(if $(filter command,$(firstword $(origin PYTHON))),$(PYTHON))

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

TARGETS := $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\# .*/\1/p' $(lastword $(MAKEFILE_LIST)))
.PHONY: $(TARGETS)
$(filter-out help verify lint format lock clean,$(TARGETS)):
	@$(or $(shell $(TABLE) command $@ $(GIVEN)),false)

setup: .venv/.built $(ALSO) ## install and build only (all other targets do this first): [PYTHON=python3.12] [PEERS=all|a,b] [PROFILE=what bench will measure]
bench: .venv/.built $(ALSO) ## benchmark the buffers on this machine, then write the report: [MINUTES=10] [ENV=Ant-v5 or WORKLOAD=fields.toml: your rows] [PEERS=all|a,b] [ADAPTER=file.py: your buffer, too] [PROFILE=quick|...: docs/running.md] [WORKLOADS=x,y] [SUITES=s] [RESUME=run.json: measure the rest of an interrupted run]
apex: .peers/torch/.built ## train a DQN with Ape-X until it solves the environment: [ENV=CartPole-v1] [EXPLORERS=4] [BUFFER=cpprb_impl] [LOCK=none] [SEED=0] [MINUTES=10 or SECONDS=600] [RESUME=folder]; over hosts: [HOSTS=3 in all, the first for the learner, made of this machine (needs root)] [LOSE_HOST=30, seconds] [ADDRESS=auto, of a Ray cluster]
r2d2: .peers/torch/.built ## train a recurrent DQN on sequences, on a task that needs memory, in less than a minute: [SEED=0] [AGENT=R2D2] [BUFFER=cpprb_impl or reverb]; with SEEDS=5 seeds, every agent unless AGENT is given, and write a record
check: ## check a replay buffer, yours or a library's, in a minute (docs/check.md): BUFFER=module:Class or file.py [PROJECT=folder of the module] [LIKE=sb3|cpprb|...] [QUICK=1 or LONG=1] [PROCESSES=4] [ONLY=checks] [PYTHON=that can import it]
check-corpus: .venv/.built .peers/torch/.built .peers/jax/.built ## check the releases of other libraries that had a published fault, and those that fixed it (downloads 80 MB): [ARGS='18 19 --quick']
contribute: .venv/.built ## measure this machine for the project's page, in 20 minutes; docs/contribute.md says how to send the record
report: .venv/.built ## rewrite the report of the newest run, or of RUN=results/....json, and README's figures
site: .venv/.installed ## make one page to look figures up in, from all committed records and your own, or from RUN="a.json b.json"
plan: .venv/.installed ## what saturates first in an Ape-X over several hosts, and how many it needs: [TRANSITIONS=12500] [ROW=bytes] [BATCH=512] [BATCHES=19] [DATA_HOSTS=] [EXPLORER_HOSTS=] [CORES=2] [LINK=10gbit] [CAPACITY=rows] [RUN=record]
gate: .venv/.built ## check whether this tree is slower than BASE=<revision>; prints a verdict for each benchmark: [GATE_MINUTES=10 at most] [HEAD=<revision> instead of this tree] [ONLY='add 1 on CartPole-v1'] [STRICT=1: what cannot be told fails] [ADAPTER=file.py PROJECT=folder: another project's buffer]
gate-power: .venv/.built ## how often the gate raises a false alarm, and what it detects; writes the table of docs/gate.md; about five hours, and the next call goes on: [ARGS='--only equal']
gate-history: .venv/.built ## measure the newest commit of main that has no record, and show which commits began a new level: [COMMITS=1: that many] [EVERY=1: only every Nth commit]
test: .venv/.built ## run the quick tests, or the tests in ARGS, including slow ones: [ARGS='tests/cpprb_impl -k wrap']
durations: .venv/.built ## record how long the quick tests take; make test begins with the longest
test-pythons: ## run the quick tests with Python 3.11 to 3.15, those that are not on the PATH in Debian's unstable suite (an hour; needs root and mmdebstrap): [ARGS='3.12 3.15']
test-slow: .venv/.built ## run the slow tests
test-ray: .venv/.built ## run the quick tests of cpprb_impl.ray on a Ray cluster of this machine, or the tests in ARGS: [ARGS='tests/ray -k saved']
test-integrations: .peers/torch/.built ## run the quick tests inside other libraries such as Stable-Baselines3, or the tests in ARGS: [ARGS='tests/integrations -m slow']
test-old-integrations: .peers/tf2rl/.built ## run the tests inside tf2rl, which needs old libraries in a venv of their own: [ARGS='-k apex']
test-jax: .peers/jax/.built ## run the tests with JAX, which has a venv of its own: [ARGS='-k program']
test-apex-dqn: .peers/torch/.built ## run the tests of Ape-X and R2D2 as programs, which need PyTorch: [ARGS='-k resume']
test-peers: .venv/.built ## run the conformance tests of peers that bench measures only when named: [PEERS=all|a,b] [ARGS='-k wrap']
sanitize: .venv/.built ## tests/cpprb_impl under AddressSanitizer and UndefinedBehaviorSanitizer (needs g++): [ARGS='-k wrap']
fuzz: .venv/.built .venv/.fuzz-installed ## fuzz add, load_transitions and constructors for crashes and wrong answers, with Atheris (needs clang++): [SECONDS=60 each]
soak: .venv/.built ## check that no row is torn or lost, with 8 explorers and 2 learners at full speed on shared buffers: [SECONDS=60 in all]
crash: .venv/.built ## kill and stop explorers and learners at each step of docs/protocol.md: [TRIALS=1000 per discipline]
windows: .venv/.built ## check 10^8 sequences from shared buffers while 300 explorers are killed (ten minutes): [WINDOWS=1e8]
crash-hosts: .venv/.built ## kill processes, cut cables and take power from hosts made of this machine (needs root): [TRIALS=300]
sequences: .venv/.built ## make random calls in a tree of processes that fork, close, stop and are killed: [SECONDS=60]
threads: ## run the core in threads under ThreadSanitizer, after a control (needs g++): [SECONDS=60 in all]
verify: sanitize model orders threads soak crash sequences ## run all long safety checks of the buffer: [SECONDS=60 each] [TRIALS=1000 per discipline]
draws: .venv/.built ## check 10^8 draws over 10^7 equal priorities with a chi-square test (a minute or two; 1 GiB)
long-files: .venv/.built ## test 20 GB of frames in one file, and more than 2^32 frames in memory (minutes; 20 GB of disk, 5 GB of memory)
atari-million: .peers/torch/.built ## store 10^6 steps of Pong through Stable-Baselines3, plain and compressed, and check their memory (half an hour; 9 GB of memory)
portable: .venv/.built ## check that the module runs on any x86-64 and compiles for AArch64 (needs qemu-user, objdump and a cross compiler)
wheels: ## build wheels for Python 3.11 to 3.15 in dist/, and try each in a bare environment; a Python that is not on the PATH is that of Debian's unstable suite (minutes; needs root and mmdebstrap)
wheels-cross: ## after `make wheels`: the same for AArch64, tried under emulation (needs a cross compiler, qemu-user-static, mmdebstrap)
model: ## check every state of the ring's protocol with Spin, after controls (needs spin and gcc; three minutes)
new-peer: .venv/.built ## create the files of a new peer: NAME=x [VENV=its own one]; CONTRIBUTING.md lists the seven steps
orders: ## run the core on a model of weak memory, and check that each weakened memory order is detected (needs g++; about 40 minutes on 2 cores): [EXECUTIONS=200000 per scenario]

# Created again unless its pip works: an interrupted venv has a Python but no pip.
.venv/.installed: constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Python 3.11 or later is needed, and $(PYTHON) is %d.%d: name another with PYTHON=..." % v[:2])'
	@$(PY) -m pip --version >/dev/null 2>&1 || { echo "creating .venv with $(PYTHON)"; $(PYTHON) -m venv --clear .venv; }
	@echo "installing the pinned requirements (some minutes the first time)"
	@$(PY) $(PIP_INSTALL) -r constraints.txt
	@touch $@

.venv/.built: .venv/.installed $(NATIVE)
	@echo "building cpprb_impl"
	@$(PY) $(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@

# Our buffer for the venv with PyTorch (adapters/venvs.py), in another build folder, because of another NumPy's headers. If
# the venv could not be installed, a bench goes on, and its report says why.
.peers/torch/.built: .venv/.built
	@$(PY) -m adapters.install torchrl
	@test -f .peers/torch/failed || { \
	  echo "building cpprb_impl for PyTorch's venv" && \
	  .peers/torch/bin/python $(PIP_INSTALL) --config-settings build-dir=build/pytorch --editable . && \
	  touch $@; }

.peers/tf2rl/.built: .venv/.built
	@$(PY) -m adapters.install tf2rl
	@echo "building cpprb_impl for tf2rl's venv"
	@.peers/tf2rl/bin/python $(PIP_INSTALL) --no-build-isolation --config-settings build-dir=build/tf2rl --editable .
	@touch $@

.peers/jax/.built: .venv/.built
	@$(PY) -m adapters.install jax
	@echo "building cpprb_impl for JAX's venv"
	@.peers/jax/bin/python $(PIP_INSTALL) --config-settings build-dir=build/jax --editable .
	@touch $@

.venv/.fuzz-installed: constraints-fuzz.txt .venv/.installed
	@$(PY) $(PIP_INSTALL) -r constraints-fuzz.txt
	@touch $@

lint: .venv/.built ## check style, types, common mistakes, GitHub's files and commit subjects: ruff, mypy, stubtest, clang-format, clang-tidy, check-jsonschema
	@.ci/subjects
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) -m mypy.stubtest cpprb_impl._native
	@$(PY) -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(PY) -m check_jsonschema --builtin-schema vendor.github-actions .github/actions/*/action.yml
	@$(PY) -m check_jsonschema --builtin-schema vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	@.venv/bin/clang-format --dry-run --Werror $(CPP)
	@.ci/orders syntax
	@printf '%s\n' cpprb_impl/core/*/*.cpp | xargs -P "$$(nproc)" -n 4 sh -c '.venv/bin/clang-tidy --quiet "$$@" -- -std=c++20' clang-tidy

format: .venv/.built ## fix style automatically where possible
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .
	@.venv/bin/clang-format -i $(CPP)

lock: ## resolve the dependency groups of pyproject.toml into constraints.txt again, or those of one venv (needs uv): [VENV=y]
ifeq ($(VENV),)
	uv $(UV) --group dev --output-file constraints.txt
	uv $(UV) --group fuzz --output-file constraints-fuzz.txt
	uv $(UV) --group wheels --output-file constraints-wheels.txt
endif
	for pins in adapters/pins/$(or $(VENV),*).txt; do \
	  uv --config-file adapters/pins/uv.toml $(UV) --group venv-$$(basename $$pins .txt) --output-file $$pins || exit 1; done

clean: ## remove everything that make creates, except the runs in results/runs
	rm -rf .venv .peers .cache .gate build dist reports/out .pytest_cache .ruff_cache .mypy_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
