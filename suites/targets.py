"""The variables and commands of make's targets. Needs only the standard library, since it runs before anything is
installed.

    python -m suites.targets check "TARGET ..." [NAME=VALUE ...]
    python -m suites.targets command TARGET [NAME=VALUE ...]

`check` refuses names and values that these targets cannot use (status 2), and prints what bench or setup needs besides
.venv. Values that only a library can check, such as an environment's name, are checked later. `command` prints the
shell command of a target, ignoring other targets' variables.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from adapters import catalog
from suites import SUITES

Check = Callable[[str], str]  # what is wrong with a value, or ""

PYTORCH_BUILT = ".peers/torch/.built"  # a target of make: PyTorch's venv, with our buffer built for it
#: Profiles and suites with launches that need PyTorch, whatever buffer they measure.
TRAINING = ("tiny", "apex", "solve_time", "paired_training", "paired_prioritized", "paired_sparse", "paired_speed")
TRAINING_SUITES = ("apex", "solve_time", "paired_training")
PROFILES = ("quick", "survey", "full", "sweep", "adding", "hosts", *TRAINING)
#: The default peers of a profile: ways of sharing a buffer, and buffers over several hosts.
COMPARED = {
    "apex": "cpprb_impl,cpprb,rllib,reverb,torchrl[shared]",
    "hosts": "cpprb_impl,cpprb,rllib,reverb,torchrl[Ray]",
}
#: Workers of pytest-xdist: one more than cores, because tests often wait. More than four would exhaust a small
#: machine's memory. tests/order.py defines the units of tests, and their order.
WORKERS = f"--numprocesses={min(len(os.sched_getaffinity(0)) + 1, 4)} --dist=loadscope"
#: Tests with a target of their own: they spend most of their time on starting the processes of buffers over Ray.
APART = "--ignore=tests/ray"
#: A last resort for a test that holds the GIL forever, so that no Python code can end it. It is longer than every limit
#: that a quick test sets for itself.
LIMIT = "-o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true"


def number(least: float, kind: type = float) -> Check:
    def check(text: str) -> str:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        name = "a whole number" if kind is int else "a number"
        return "" if least <= value < math.inf else f"must be {name}, at least {least:g}, got {text!r}"

    return check


def file(example: str = "") -> Check:
    hint = f"; an example is {example}" if example else ""
    return lambda text: "" if Path(text).is_file() else f"must be the path of a file, got {text!r}{hint}"


def folder(text: str) -> str:
    return "" if Path(text).is_dir() else f"must be a folder, got {text!r}"


def one_of(known: Collection[str]) -> Check:
    def check(text: str) -> str:
        if text in known:
            return ""
        like = difflib.get_close_matches(text, known, 1)
        return f"cannot be {text!r}; " + (f"did you mean {like[0]!r}?" if like else f"known: {', '.join(known)}")

    return check


def some_of(known: Collection[str]) -> Check:
    one = one_of(known)

    def check(text: str) -> str:
        wrong = (one(name.strip()) for name in text.split(",") if name.strip())
        return next(filter(None, wrong), "")

    return check


def revision(text: str) -> str:
    command = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}"]
    is_package = "==" in text or text.endswith(".whl")
    is_shallow = Path(".git/shallow").exists()  # a shallow clone lacks most revisions: the gate says what to do
    if is_package or is_shallow or subprocess.run(command, capture_output=True).returncode == 0:
        return ""
    return f"cannot be {text!r}: name a revision, a wheel (dist/x.whl) or a release (name==1.0)"


PEERS = some_of([*catalog.classes(), catalog.ALL])
BUFFERS = one_of([catalog.OURS, *catalog.SHARED, *catalog.SHARED_ON_REQUEST, *catalog.SERVED, *catalog.OVER_HOSTS])
CHECKS: dict[str, Check] = {
    "PROFILE": one_of(PROFILES),
    "PEERS": PEERS,
    "SUITES": some_of(SUITES),
    "WORKLOAD": file("examples/workload.toml"),
    "ADAPTER": file("examples/gate_adapter.py"),
    "BUFFER": BUFFERS,
    "LOCK": one_of(("none", "buffer", "critical")),
    **dict.fromkeys(("BASE", "HEAD"), revision),
    "GATE_MINUTES": number(0.1),
    **dict.fromkeys(("MINUTES", "SECONDS", "LOSE_HOST", "WINDOWS"), number(0.01)),
    **dict.fromkeys(("HOSTS", "EXPLORERS", "SEEDS", "COMMITS", "EVERY", "TRIALS", "EXECUTIONS"), number(1, int)),
}
#: Of one target: other values than those of other targets.
OWN_CHECKS: dict[str, dict[str, Check]] = {
    "bench": {"MINUTES": number(1), "RESUME": file()},
    "check": {"BUFFER": lambda _: "", "PROJECT": folder, "PROCESSES": number(1, int), "SEED": number(0, int)},
}
#: Variables that are refused if empty. Other variables that are empty count as not given.
NEVER_EMPTY = ("BUFFER", "PROFILE", "ENV", "WORKLOAD", "MINUTES", "SECONDS", "HOSTS", "LOSE_HOST", "ADDRESS")

PLANNED = ("TRANSITIONS", "ROW", "BATCH", "BATCHES", "DATA_HOSTS", "EXPLORER_HOSTS", "CORES", "LINK", "CAPACITY")
#: The shell command of each target. If a variable is empty, a part in [] with this variable is left out, and {NAME=x}
#: becomes x.
COMMANDS = {
    "setup": "{python} -m adapters.install '{PEERS}'",
    "bench": "[REPLAYBENCH_ADAPTER='{ADAPTER}'] {python} -m adapters.install '{PEERS}' && {"
    " {python} -m suites.run --profile '{PROFILE}' [--workloads '{WORKLOADS}'] [--env '{ENV}']"
    " [--workload-file '{WORKLOAD}'] [--minutes '{MINUTES}'] [--peers '{PEERS}'] [--suites '{SUITES}']"
    " [--adapter '{ADAPTER}'] {file} '{RESUME}'; status=$?; test $status = 2 || test ! -f '{RESUME}' ||"
    " {python} -m reports.build --show '{RESUME}' || status=1; exit $status; }",
    "apex": "{pytorch} -m suites.apex_dqn.train --minutes '{MINUTES=10}' [--resume '{RESUME}'] [--seconds '{SECONDS}']"
    " [--hosts '{HOSTS}'] [--lose-host '{LOSE_HOST}'] [--address '{ADDRESS}'] [--env '{ENV}']"
    " [--explorers '{EXPLORERS}'] [--seed '{SEED}'] [--buffer '{BUFFER}']",
    "r2d2": "{program} [--buffer '{BUFFER}'] [--agent '{AGENT}'] [--seed '{SEED}'] [--seeds '{SEEDS}']",
    "check": "{plain} -m suites.check.venv '{BUFFER}' [--like '{LIKE}'] [--project '{PROJECT}'] [--only '{ONLY}']"
    " [--seed '{SEED}'] [--processes '{PROCESSES}'] {length}",
    "check-corpus": "{python} -m suites.check.corpus {ARGS}",
    "contribute": "{python} -m adapters.install '' && {python} -m suites.contribute",
    "report": "{python} -m reports.build {RUN} && {python} -m reports.readme",
    "site": "{python} -m reports.site {RUN}",
    # The program refuses HOSTS, and names the variable that is meant.
    "plan": "{python} -m reports.planning [--record '{RUN}']"
    + "".join(f" ['{name}={{{name}}}']" for name in (*PLANNED, "HOSTS")),
    "gate": ".ci/gate '{BASE}' {strict} [--head '{HEAD}'] [--minutes '{GATE_MINUTES}'] [--only '{ONLY}']"
    " [--adapter '{ADAPTER}'] [--project '{PROJECT}']",
    "gate-power": "{python} -m suites.gate.power {ARGS} && {python} -m reports.gate.power",
    "gate-history": "status=0; {python} -m suites.gate.history --commits '{COMMITS=1}' --every '{EVERY=1}' || status=$?"
    "; {python} -m reports.gate.history; exit $status",
    "test": f"{{python}} -m pytest {{ARGS=-m 'not slow' {APART} {WORKERS} {LIMIT}}}",
    "durations": f"{{python}} -m pytest -m 'not slow' {APART} {WORKERS} {LIMIT} --record-durations",
    "test-ray": f"{{python}} -m pytest {{ARGS=tests/ray -m 'not slow' {LIMIT}}}",
    "test-pythons": ".ci/pythons {ARGS}",
    # tests/torture runs alone: processes that it kills leave segments, which launches of other tests would remove.
    "test-slow": f"{{python}} -m pytest -m slow {WORKERS} --ignore=tests/torture {{ARGS}} && "
    f"{{python}} -m pytest -m slow {WORKERS} tests/torture {{ARGS}}",
    "test-integrations": f"{{pytorch}} -m pytest {{ARGS=tests/integrations -m 'not slow' {LIMIT}}}",
    "test-old-integrations": ".peers/tf2rl/bin/python -m pytest tests/integrations/test_tf2rl.py {ARGS}",
    "test-jax": ".peers/jax/bin/python -m pytest tests/integrations/test_jax.py {ARGS}",
    "test-apex-dqn": "{pytorch} -m pytest tests/apex_dqn {ARGS}",
    "test-peers": "{python} -m tests.adapters.in_venvs '{PEERS}' {ARGS}",
    "sanitize": ".ci/sanitize {ARGS}",
    "fuzz": " && ".join(f".ci/fuzz {what} '{{SECONDS=60}}'" for what in ("add", "file", "construct")),
    "soak": "{python} -m tests.torture.soak --seconds '{SECONDS=60}' --record build/soak.jsonl",
    "crash": ".ci/crash --trials '{TRIALS=1000}'",
    "crash-hosts": "{python} -m tests.hosts.trials --trials '{TRIALS=300}'",
    "sequences": "{python} -m tests.torture.sequences --seconds '{SECONDS=60}' --record build/sequences.jsonl",
    "threads": ".ci/thread-sanitizer '{SECONDS=60}'",
    "model": ".ci/model",
    "orders": ".ci/orders check --control {EXECUTIONS=200000} --executions $(({EXECUTIONS=200000} / 10))",
    "windows": "{python} -m tests.torture.windows --windows '{WINDOWS=1e8}' --record build/windows.jsonl",
    "draws": "{python} -m tests.cpprb_impl.long_draws",
    "long-files": "{python} -m tests.cpprb_impl.long_files",
    "atari-million": " && ".join(
        "{pytorch} -m tests.integrations.atari_million" + each for each in ("", " --compress lz4")
    ),
    "portable": ".ci/portable",
    "wheels": ".ci/wheels",
    "wheels-cross": ".ci/wheels-cross",
    "new-peer": "{python} -m adapters.new_peer '{NAME}' '{VENV}'",
}
#: Variables that are not in the command itself.
ALSO = {
    "setup": ["PROFILE"],
    "apex": ["LOCK"],
    "check": ["QUICK", "LONG"],
    "gate": ["STRICT"],
    "verify": ["SECONDS", "TRIALS", "EXECUTIONS", "ARGS"],  # variables of the targets that it makes
    "lock": ["VENV"],
}
WORDS = ("ARGS", "RUN")  # the shell splits these into words
PART, NAME = re.compile(r"\[(.*?)\]"), re.compile(r"\{(\w+)(?:=(.*?))?\}")

Values = dict[str, str]  # the variables by name; "" if not given


def profile(given: Values) -> str:
    return given["PROFILE"] or ("survey" if catalog.ALL in given["PEERS"].split() else "quick")


def needs_pytorch(given: Values) -> bool:
    """Return whether a launch of bench imports both PyTorch and our buffer."""
    peers = given["PEERS"]
    is_named = catalog.ALL in peers.split() or f"{catalog.OURS}[TorchRL]" in peers or "[SB3" in peers
    suites = [name.strip() for name in given.get("SUITES", "").split(",") if name.strip()] or TRAINING_SUITES
    return is_named or (profile(given) in TRAINING and not {*suites}.isdisjoint(TRAINING_SUITES))


def bench(given: Values) -> Values:
    name = profile(given)
    return {
        "PROFILE": name,
        "MINUTES": given["MINUTES"] or ("10" if name == "quick" else ""),
        "PEERS": given["PEERS"] or COMPARED.get(name, ""),
        "ADAPTER": given["ADAPTER"] and os.path.abspath(given["ADAPTER"]),
        "file": "--resume" if given["RESUME"] else "--out",
        "RESUME": given["RESUME"] or time.strftime(f"results/runs/bench-{name}-%Y%m%dT%H%M%SZ.json", time.gmtime()),
    }


def apex(given: Values) -> Values:
    buffer, lock = given["BUFFER"], given["LOCK"]
    if lock or buffer == catalog.OURS:  # our buffer needs a lock; any other name is used as it is
        buffer = f"{buffer or catalog.OURS}[lock={lock or 'none'}]"
    return {"BUFFER": buffer}


def check(given: Values) -> Values:
    return {"length": "--quick" if given["QUICK"] else "--long" if given["LONG"] else ""}


def r2d2(given: Values) -> Values:
    over_reverb = ".venv/bin/python -m suites.r2d2.with_reverb"
    return {"program": over_reverb if given["BUFFER"] == "reverb" else ".peers/torch/bin/python -m suites.r2d2.train"}


def gate(given: Values) -> Values:
    return {"strict": given["STRICT"] and "--strict"}


def taken(target: str) -> list[str]:
    """Return the names of the variables of a target."""
    names = (name for name, _ in NAME.findall(COMMANDS.get(target, "")) if name.isupper())
    return list(dict.fromkeys([*names, *ALSO.get(target, ())]))


def refusal(targets: Sequence[str], given: Values) -> str:
    """Return what is wrong with the first variable that cannot be used, or ""."""
    known = dict.fromkeys(name for target in targets for name in taken(target))
    if foreign := " ".join(name for name in given if name not in known):
        return f"make {' '.join(targets)} does not take {foreign}; it takes {' '.join(['PYTHON', *known])}"
    if given.get("ENV") and given.get("WORKLOAD"):
        return "give ENV or WORKLOAD, not both: each of them names the rows that are measured"
    for target in targets:
        checks = CHECKS | OWN_CHECKS.get(target, {})
        for name in (name for name in taken(target) if name in given):
            if said := problem(checks.get(name), name, given):
                return f"{name} {said}"
    return ""


def problem(check: Check | None, name: str, given: Values) -> str:
    if not given[name]:
        return "must not be empty" if name in NEVER_EMPTY else ""
    # The adapter's buffer may be among the peers, and the revisions are the project's.
    is_unknown = (check is PEERS and given.get("ADAPTER")) or (check is revision and given.get("PROJECT"))
    return "" if check is None or is_unknown else check(given[name])


def command(target: str, given: Values) -> str:
    """Return the shell command of a target, in one line."""
    values = {name: given.get(name, "") for name in taken(target)}
    programs = {"bench": bench, "apex": apex, "check": check, "r2d2": r2d2, "gate": gate}
    values |= programs.get(target, dict)(values)
    values |= {"plain": sys.executable, "python": ".venv/bin/python", "pytorch": ".peers/torch/bin/python"}

    def part(found: re.Match) -> str:
        return found[1] if all(values[name] for name, _ in NAME.findall(found[1])) else ""

    def value(found: re.Match) -> str:
        name, default = found.groups("")
        return (values[name] if name in WORDS else values[name].replace("'", r"'\''")) or default

    return NAME.sub(value, PART.sub(part, COMMANDS[target]))


def main(action: str, targets: str, *variables: str) -> int:
    given = dict(each.split("=", 1) for each in variables)
    if action == "command":
        print(command(targets, given))
        return 0
    if said := refusal(targets.split(), given):
        print(said)
        return 2
    if needs_pytorch({"PROFILE": "", "PEERS": "", **given}):
        print(PYTORCH_BUILT)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
