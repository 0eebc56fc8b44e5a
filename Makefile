# Every target does its own set-up: .venv, the pinned requirements, the native build.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PROFILE ?= $(if $(filter all,$(PEERS)),survey,quick)
# What PROFILE=apex and PROFILE=hosts compare: ways of sharing a buffer, and buffers over several hosts.
APEX_PEERS := cpprb_impl,cpprb,rllib,reverb,torchrl[shared]
HOSTS_PEERS := cpprb_impl,cpprb,rllib,reverb,torchrl[Ray]
# Profiles with launches that need PyTorch, whichever buffer they measure.
TRAINING := tiny apex solve_time paired_training paired_prioritized paired_sparse paired_speed
# Our buffer is built for PyTorch's venv, too, if a launch imports both.
WITH_PYTORCH = $(or $(filter $(TRAINING),$(PROFILE)),$(filter all,$(PEERS)),$(findstring cpprb_impl[TorchRL],$(PEERS)),$(findstring [SB3,$(PEERS)))
MEASURED = $(or $(PEERS),$(if $(filter apex,$(PROFILE)),$(APEX_PEERS)),$(if $(filter hosts,$(PROFILE)),$(HOSTS_PEERS)))
# A time budget, set-up not counted; the other profiles measure a fixed number of blocks.
MINUTES ?= $(if $(filter quick,$(PROFILE)),10)
SECONDS ?= 60
TRIALS ?= 1000
EXECUTIONS ?= 200000
# The variables of `make plan`.
PLANNED := TRANSITIONS ROW BATCH BATCHES DATA_HOSTS EXPLORER_HOSTS CORES LINK CAPACITY
# What each target takes besides PYTHON. Any other variable would be ignored, so it is refused before the set-up.
TAKES.setup := PEERS PROFILE
TAKES.bench := PROFILE MINUTES PEERS ADAPTER WORKLOADS ENV WORKLOAD SUITES RESUME
TAKES.apex := ENV EXPLORERS BUFFER LOCK SEED MINUTES SECONDS RESUME HOSTS LOSE_HOST ADDRESS
TAKES.report := RUN
TAKES.site := RUN
TAKES.plan := $(PLANNED) RUN HOSTS
TAKES.gate := BASE HEAD GATE_MINUTES ONLY STRICT ADAPTER PROJECT
TAKES.gate-history := COMMITS EVERY
TAKES.test-peers := PEERS ARGS
TAKES.verify := SECONDS TRIALS EXECUTIONS ARGS
TAKES.new-peer := NAME VENV
TAKES.lock := VENV
TAKES.orders := EXECUTIONS
$(foreach t,gate-power test test-pythons test-slow test-integrations test-old-integrations test-apex-dqn sanitize,$(eval TAKES.$t := ARGS))
$(foreach t,fuzz soak sequences threads,$(eval TAKES.$t := SECONDS))
$(foreach t,crash crash-hosts,$(eval TAKES.$t := TRIALS))
ALLOWED := $(strip PYTHON $(foreach goal,$(MAKECMDGOALS),$(TAKES.$(goal))))
GIVEN := $(foreach v,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $v))),$v))
FOREIGN := $(filter-out $(ALLOWED) MAKEFLAGS,$(GIVEN))
$(if $(FOREIGN),$(error make $(MAKECMDGOALS) does not take $(FOREIGN); it takes $(ALLOWED)))
PROFILES := tiny quick survey full sweep apex solve_time paired_training paired_prioritized paired_sparse paired_speed hosts
$(if $(filter bench setup,$(MAKECMDGOALS)),$(if $(filter-out $(PROFILES),$(PROFILE)),$(error unknown profile: $(PROFILE); known: $(PROFILES))))
# The values, too, as far as the standard library can check them.
REFUSED := $(if $(filter setup bench apex gate,$(firstword $(MAKECMDGOALS))),$(shell $(PYTHON) -m suites.variables $(firstword $(MAKECMDGOALS)) $(foreach v,$(filter-out MAKEFLAGS,$(GIVEN)),'$v=$($v)')))
$(if $(REFUSED),$(error $(REFUSED)))
PY := .venv/bin/python
INSTALLED := .venv/.installed
BUILT := .venv/.built
FUZZ_INSTALLED := .venv/.fuzz-installed
# The venv with PyTorch (adapters/venvs.py), with our buffer built for it.
PYTORCH := .peers/torch/bin/python
PYTORCH_BUILT := .peers/torch/.built
NATIVE := CMakeLists.txt pyproject.toml $(wildcard cpprb_impl/core/*/*.?pp cpprb_impl/bindings/*.?pp)
# From the command line only, as ENV and WORKLOAD: an environment may have a variable of this name.
MINE = $(if $(filter command,$(firstword $(origin ADAPTER))),$(abspath $(ADAPTER)))
# The variables of `make bench` as options of the program that it runs.
CHOICE = --profile '$(PROFILE)' $(if $(WORKLOADS),--workloads '$(WORKLOADS)')
# ENV only from the command line: users' environments often have a variable of this name.
OWN = $(if $(filter command,$(firstword $(origin ENV))),--env '$(ENV)') $(if $(filter command,$(firstword $(origin WORKLOAD))),--workload-file '$(WORKLOAD)')
MORE_CHOICE = $(OWN) $(if $(MINUTES)$(filter command,$(firstword $(origin MINUTES))),--minutes '$(MINUTES)') $(if $(MEASURED),--peers '$(MEASURED)') $(if $(SUITES),--suites '$(SUITES)') $(if $(MINE),--adapter '$(MINE)')

# Workers of pytest-xdist. More than four would exhaust a small machine's memory: each imports TensorFlow and Ray.
WORKERS := --numprocesses=logical --maxprocesses=4 --dist=worksteal

# A last resort for a test that holds Python's lock for ever, which no Python code can end: beyond every limit that a quick
# test sets for itself.
LIMIT := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

.DEFAULT_GOAL := help
.PHONY: help setup bench apex contribute report site plan gate gate-power gate-history test test-pythons test-slow test-integrations test-old-integrations test-apex-dqn test-peers sanitize fuzz soak crash sequences threads model orders verify draws long-files atari-million portable wheels wheels-cross new-peer lint format lock clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Created again unless its pip works: an interrupted venv has a Python but no pip.
$(INSTALLED): constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Python 3.11 or later is needed, and $(PYTHON) is %d.%d: name another with PYTHON=..." % v[:2])'
	@$(PY) -m pip --version >/dev/null 2>&1 || { echo "creating .venv with $(PYTHON)"; $(PYTHON) -m venv --clear .venv; }
	@echo "installing the pinned requirements (some minutes the first time)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps -r constraints.txt
	@touch $@

$(BUILT): $(INSTALLED) $(NATIVE)
	@echo "building cpprb_impl"
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(BUILT) $(if $(WITH_PYTORCH),$(PYTORCH_BUILT)) ## install and build only (all other targets do this first): [PYTHON=python3.12] [PEERS=all|a,b] [PROFILE=what bench will measure]
	@$(PY) -m adapters.venvs '$(PEERS)'

bench: $(BUILT) $(if $(WITH_PYTORCH),$(PYTORCH_BUILT)) ## benchmark the buffers on this machine, then write the report: [MINUTES=10] [ENV=Ant-v5 or WORKLOAD=fields.toml: your rows] [PEERS=all|a,b] [ADAPTER=file.py: your buffer, too] [PROFILE=quick|...: docs/running.md] [WORKLOADS=x,y] [SUITES=s] [RESUME=run.json: measure the rest of an interrupted run]
	@$(if $(MINE),REPLAYBENCH_ADAPTER='$(MINE)') $(PY) -m adapters.venvs '$(MEASURED)'
	@run='$(or $(RESUME),results/runs/bench-$(PROFILE)-'$$(date -u +%Y%m%dT%H%M%SZ)'.json)'; \
	$(PY) -m suites.run $(CHOICE) $(MORE_CHOICE) $(if $(RESUME),--resume,--out) "$$run"; status=$$?; \
	test $$status = 2 || test ! -f "$$run" || $(PY) -m reports.build --show "$$run" || status=1; exit $$status

# A build folder of its own, because this build has the headers of another NumPy. If the environment could not be
# installed, a bench goes on, and its report says why.
$(PYTORCH_BUILT): $(BUILT)
	@$(PY) -m adapters.venvs torchrl
	@test -f .peers/torch/failed || { \
	  echo "building cpprb_impl for PyTorch's venv" && \
	  $(PYTORCH) -m pip install --quiet --disable-pip-version-check --no-deps --config-settings build-dir=build/pytorch --editable . && \
	  touch $@; }

# Our buffer needs a LOCK; any other name is taken as it is.
APEX_BUFFER = $(or $(BUFFER),cpprb_impl)$(if $(LOCK)$(filter cpprb_impl,$(or $(BUFFER),cpprb_impl)),[lock=$(or $(LOCK),none)])

apex: $(PYTORCH_BUILT) ## train a DQN with Ape-X until it solves the environment: [ENV=CartPole-v1] [EXPLORERS=4] [BUFFER=cpprb_impl] [LOCK=none] [SEED=0] [MINUTES=10 or SECONDS=600] [RESUME=folder]; over hosts: [HOSTS=3 in all, the first for the learner, made of this machine (needs root)] [LOSE_HOST=30, seconds] [ADDRESS=auto, of a Ray cluster]
	@$(PYTORCH) -m suites.apex_dqn.train --minutes '$(or $(MINUTES),10)' $(if $(RESUME),--resume '$(RESUME)') \
	  $(if $(filter command,$(firstword $(origin SECONDS))),--seconds '$(SECONDS)') $(if $(filter command,$(firstword $(origin HOSTS))),--hosts '$(HOSTS)') \
	  $(if $(filter command,$(firstword $(origin LOSE_HOST))),--lose-host '$(LOSE_HOST)') $(if $(filter command,$(firstword $(origin ADDRESS))),--address '$(ADDRESS)') \
	  $(if $(filter command,$(firstword $(origin ENV))),--env '$(ENV)') $(if $(EXPLORERS),--explorers '$(EXPLORERS)') \
	  $(if $(SEED),--seed '$(SEED)') $(if $(BUFFER)$(LOCK),--buffer '$(APEX_BUFFER)')

contribute: $(BUILT) ## measure this machine for the project's page, in 20 minutes; docs/contribute.md says how to send the record
	@$(PY) -m adapters.venvs ''
	@$(PY) -m suites.contribute

report: $(BUILT) ## rewrite the report of the newest run, or of RUN=results/....json, and README's figures
	@$(PY) -m reports.build $(RUN)
	@$(PY) -m reports.readme

site: $(INSTALLED) ## make one page to look figures up in, from all committed records and your own, or from RUN="a.json b.json"
	@$(PY) -m reports.site $(RUN)

# From the command line only: an environment may have variables of these names. HOSTS is refused there.
plan: $(INSTALLED) ## what saturates first in an Ape-X over several hosts, and how many it needs: [TRANSITIONS=12500] [ROW=bytes] [BATCH=512] [BATCHES=19] [DATA_HOSTS=] [EXPLORER_HOSTS=] [CORES=2] [LINK=10gbit] [CAPACITY=rows] [RUN=record]
	@$(PY) -m reports.planning $(if $(RUN),--record '$(RUN)') $(foreach name,$(PLANNED) HOSTS,$(if $(filter command,$(firstword $(origin $(name)))),'$(name)=$($(name))'))

gate: $(BUILT) ## check whether this tree is slower than BASE=<revision>; prints a verdict for each benchmark: [GATE_MINUTES=10 at most] [HEAD=<revision> instead of this tree] [ONLY='add 1 on CartPole-v1'] [STRICT=1: what cannot be told fails] [ADAPTER=file.py PROJECT=folder: another project's buffer]
	@.ci/gate '$(BASE)' $(if $(STRICT),--strict) $(if $(HEAD),--head '$(HEAD)') $(if $(GATE_MINUTES),--minutes '$(GATE_MINUTES)') $(if $(ONLY),--only '$(ONLY)') $(if $(ADAPTER),--adapter '$(ADAPTER)') $(if $(PROJECT),--project '$(PROJECT)')

gate-power: $(BUILT) ## how often the gate raises a false alarm, and what it detects; writes the table of docs/gate.md; about five hours, and the next call goes on: [ARGS='--only equal']
	@$(PY) -m suites.gate.power $(ARGS)
	@$(PY) -m reports.gate.power

gate-history: $(BUILT) ## measure the newest commit of main that has no record, and show which commits began a new level: [COMMITS=1: that many] [EVERY=1: only every Nth commit]
	@status=0; $(PY) -m suites.gate.history --commits '$(or $(COMMITS),1)' --every '$(or $(EVERY),1)' || status=$$?; \
	$(PY) -m reports.gate.history; exit $$status

test: $(BUILT) ## run the quick tests, or the tests in ARGS, including slow ones: [ARGS='tests/cpprb_impl -k wrap']
	@$(PY) -m pytest $(or $(ARGS),-m 'not slow' $(WORKERS) $(LIMIT))

test-pythons: ## run the quick tests with Python 3.11 to 3.15, those that are not on the PATH in Debian's unstable suite (an hour; needs root and mmdebstrap): [ARGS='3.12 3.15']
	@.ci/pythons $(ARGS)

# tests/torture runs alone: processes that it kills leave segments, which launches of other tests would find and remove.
test-slow: $(BUILT) ## run the slow tests
	@$(PY) -m pytest -m slow $(WORKERS) --ignore=tests/torture $(ARGS)
	@$(PY) -m pytest -m slow $(WORKERS) tests/torture $(ARGS)

test-integrations: $(PYTORCH_BUILT) ## run the quick tests inside other libraries such as Stable-Baselines3, or the tests in ARGS: [ARGS='tests/integrations -m slow']
	@$(PYTORCH) -m pytest $(or $(ARGS),tests/integrations -m 'not slow' $(LIMIT))

.peers/tf2rl/.built: $(BUILT)
	@$(PY) -m adapters.venvs tf2rl
	@echo "building cpprb_impl for tf2rl's venv"
	@.peers/tf2rl/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --config-settings build-dir=build/tf2rl --editable .
	@touch $@

test-old-integrations: .peers/tf2rl/.built ## run the tests inside tf2rl, which needs old libraries in a venv of their own: [ARGS='-k apex']
	@.peers/tf2rl/bin/python -m pytest tests/integrations/test_tf2rl.py $(ARGS)

test-apex-dqn: $(PYTORCH_BUILT) ## run the tests of Ape-X as a program, which need PyTorch: [ARGS='-k resume']
	@$(PYTORCH) -m pytest tests/apex_dqn $(ARGS)

test-peers: $(BUILT) ## run the conformance tests of peers that bench measures only when named: [PEERS=all|a,b] [ARGS='-k wrap']
	@$(PY) -m tests.adapters.in_venvs '$(PEERS)' $(ARGS)

sanitize: $(BUILT) ## tests/cpprb_impl under AddressSanitizer and UndefinedBehaviorSanitizer (needs g++): [ARGS='-k wrap']
	@.ci/sanitize $(ARGS)

$(FUZZ_INSTALLED): constraints-fuzz.txt $(INSTALLED)
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps -r constraints-fuzz.txt
	@touch $@

fuzz: $(BUILT) $(FUZZ_INSTALLED) ## fuzz add, load_transitions and constructors for crashes and wrong answers, with Atheris (needs clang++): [SECONDS=60 each]
	@.ci/fuzz add $(SECONDS)
	@.ci/fuzz file $(SECONDS)
	@.ci/fuzz construct $(SECONDS)

soak: $(BUILT) ## check that no row is torn or lost, with 8 explorers and 2 learners at full speed on shared buffers: [SECONDS=60 in all]
	@$(PY) -m tests.torture.soak --seconds $(SECONDS) --record build/soak.jsonl

crash: $(BUILT) ## kill and stop explorers and learners at each step of docs/protocol.md: [TRIALS=1000 per discipline]
	@.ci/crash --trials $(TRIALS)

crash-hosts: TRIALS = 300
crash-hosts: $(BUILT) ## kill processes, cut cables and take power from hosts made of this machine (needs root): [TRIALS=300]
	@$(PY) -m tests.hosts.trials --trials $(TRIALS)

sequences: $(BUILT) ## make random calls in a tree of processes that fork, close, stop and are killed: [SECONDS=60]
	@$(PY) -m tests.torture.sequences --seconds $(SECONDS) --record build/sequences.jsonl

threads: ## run the core in threads under ThreadSanitizer, after a control (needs g++): [SECONDS=60 in all]
	@.ci/thread-sanitizer $(SECONDS)

verify: sanitize model orders threads soak crash sequences ## run all long safety checks of the buffer: [SECONDS=60 each] [TRIALS=1000 per discipline]

draws: $(BUILT) ## check 10^8 draws over 10^7 equal priorities with a chi-square test (a minute or two; 1 GiB)
	@$(PY) -m tests.cpprb_impl.long_draws

long-files: $(BUILT) ## test 20 GB of frames in one file, and more than 2^32 frames in memory (minutes; 20 GB of disk, 5 GB of memory)
	@$(PY) -m tests.cpprb_impl.long_files

atari-million: $(PYTORCH_BUILT) ## store 10^6 steps of Pong through Stable-Baselines3, plain and compressed, and check their memory (half an hour; 9 GB of memory)
	@$(PYTORCH) -m tests.integrations.atari_million
	@$(PYTORCH) -m tests.integrations.atari_million --compress lz4

portable: $(BUILT) ## check that the module runs on any x86-64 and compiles for AArch64 (needs qemu-user, objdump and a cross compiler)
	@.ci/portable

wheels: ## build wheels for Python 3.11 to 3.15 in dist/, and try each in a bare environment; a Python that is not on the PATH is that of Debian's unstable suite (minutes; needs root and mmdebstrap)
	@.ci/wheels

wheels-cross: ## after `make wheels`: the same for AArch64, tried under emulation (needs a cross compiler, qemu-user-static, mmdebstrap)
	@.ci/wheels-cross

model: ## check every state of the ring's protocol with Spin, after controls (needs spin and gcc; three minutes)
	@.ci/model

new-peer: $(BUILT) ## create the files of a new peer: NAME=x [VENV=its own one]; CONTRIBUTING.md lists the six steps
	@$(PY) -m adapters.new_peer '$(NAME)' '$(VENV)'

orders: ## run the core on a model of weak memory, and check that each weakened memory order is detected (needs g++; about 40 minutes on 2 cores): [EXECUTIONS=200000 per scenario]
	@.ci/orders check --control $(EXECUTIONS) --executions $$(($(EXECUTIONS) / 10))

lint: $(BUILT) ## check style, types, common mistakes and GitHub's files: ruff, mypy, stubtest, clang-format, clang-tidy, check-jsonschema
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) -m mypy.stubtest cpprb_impl._native
	@$(PY) -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(PY) -m check_jsonschema --builtin-schema vendor.github-actions .github/actions/*/action.yml
	@$(PY) -m check_jsonschema --builtin-schema vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	@.venv/bin/clang-format --dry-run --Werror cpprb_impl/core/*/*.?pp cpprb_impl/bindings/*.?pp tests/cpprb_impl/*.cpp tests/torture/*.cpp tests/weak_memory/*.?pp
	@printf '%s\n' cpprb_impl/core/*/*.cpp | xargs -P "$$(nproc)" -n 4 sh -c '.venv/bin/clang-tidy --quiet "$$@" -- -std=c++20' clang-tidy

format: $(BUILT) ## fix style automatically where possible
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .
	@.venv/bin/clang-format -i cpprb_impl/core/*/*.?pp cpprb_impl/bindings/*.?pp tests/cpprb_impl/*.cpp tests/torture/*.cpp tests/weak_memory/*.?pp

lock: ## resolve the dependency groups of pyproject.toml into constraints.txt again, or those of one venv (needs uv): [VENV=y]
ifeq ($(VENV),)
	uv pip compile --quiet --universal --python-version 3.11 --group dev --no-annotate --no-header --upgrade --output-file constraints.txt
	uv pip compile --quiet --universal --python-version 3.11 --group fuzz --no-annotate --no-header --upgrade --output-file constraints-fuzz.txt
	uv pip compile --quiet --universal --python-version 3.11 --group wheels --no-annotate --no-header --upgrade --output-file constraints-wheels.txt
endif
	for pins in adapters/pins/$(or $(VENV),*).txt; do \
	  uv --config-file adapters/pins/uv.toml pip compile --quiet --universal --python-version 3.11 --group venv-$$(basename $$pins .txt) --no-annotate --no-header --upgrade --output-file $$pins || exit 1; done

clean: ## remove everything that make creates, except the runs in results/runs
	rm -rf .venv .peers .cache .gate build dist reports/out .pytest_cache .ruff_cache .mypy_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
