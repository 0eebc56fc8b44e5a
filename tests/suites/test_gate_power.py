"""The study of the gate's error rates, the probe of the machine, and builds that a study can slow down."""

import argparse
import sys
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from cpprb_impl import _native
from results.analysis.studies import LEVELS, WAYS
from results.analysis.verdict import HarnessError
from results.record import Record, load
from suites import workloads
from suites.gate import history, launches, power, probe
from suites.gate.builds import Side
from suites.gate.launches import Endings, Pair
from suites.gate.sources import Checkout
from suites.runner import entry
from suites.runner.driver import Interrupt
from suites.runner.process import Ending
from suites.startup import measure as startup
from suites.suite import Launch
from tests.suites.conftest import CHECKOUT

LOAD = cache(workloads.load)


@pytest.fixture(autouse=True)
def recordings_loaded_once(monkeypatch):
    """Load recordings once. A study makes a gate for each way to measure, and each gate would load them again."""
    monkeypatch.setattr(workloads, "load", LOAD)


def test_a_normal_build_cannot_be_slowed():
    assert b"RB_SLOWED" not in Path(_native.__file__).read_bytes()
    assert 'getenv("RB_SLOWED")' in (CHECKOUT / "cpprb_impl" / "bindings" / "slowed.hpp").read_text()


def test_a_study_has_all_records_of_the_table_and_begins_with_some_of_each_kind():
    names = [study.name for group in power.studies(pairs=60, gates=30, slowed=5) for study in group]
    assert len(names) == len(set(names))
    assert sum(name.startswith("equal-") for name in names) == 30
    assert all(sum(name.startswith(f"slowed-{level}-") for name in names) == 5 for level in LEVELS)
    assert sum(name.startswith("neighbour-equal") for name in names) == 10
    pools = 2 + len(WAYS)
    first = names[: pools + len(names[pools:]) // 5]
    assert {name.rpartition("-")[0] for name in names} == {name.rpartition("-")[0] for name in first}


def test_each_way_to_measure_pairs_leaves_out_one_rule():
    base, head = (Side(name, Checkout("")) for name in ("base", "head"))
    gates = {way.name: power.Study(way.record, pairs=1, way=way.name).gate(base, head) for way in WAYS}
    orders = {each: [side.order for side in gate.sides] for each, gate in gates.items()}
    assert orders == {each: [0, 1] if each == "orders" else [None, None] for each in gates}
    assert [each for each, gate in gates.items() if not any(pair.launch.turns for pair in gate.pairs)] == ["turns"]
    for name, gate in gates.items():
        assert all(f"REPLAYBENCH_WITHOUT={name}" in side.variables for side in gate.sides)


def test_the_counts_of_work_are_studied_separately():
    base, head = (Side(name, Checkout("")) for name in ("base", "head"))
    gate = power.Study("work-1", loops=50).gate(base, head)
    assert {pair.suite for pair in gate.pairs} == {"counts"}
    assert gate.sides[1].variables[-1] == "RB_SLOWED=add=0,sample=0,update=0,loops=50"
    assert gate.run.command == "python -m suites.gate.power --only work-1"  # does not name the folder of a machine


def test_head_is_slowed_by_its_environment():
    slowed = power.Study("slowed-20-1", level=20)
    assert slowed.slowed == "RB_SLOWED=add=0.2,sample=0.2,update=0.2,loops=0"
    side = Side("head", Checkout(""), variables=(slowed.slowed,))
    assert side.start == ["env", slowed.slowed, str(side.python)]
    assert Side("base", Checkout("")).start == [str(side.python).replace("head", "base")]


def test_a_record_whose_measurement_failed_is_measured_again(monkeypatch, tmp_path):
    def fail(*_):
        yield 1
        raise HarnessError("the disk is full")

    gate = power.Study("pool", pairs=2).gate(*(Side(name, Checkout("")) for name in ("base", "head")))
    monkeypatch.setattr(gate, "_pairs", fail)
    with Interrupt() as interrupt, pytest.raises(HarnessError):
        gate.measure(tmp_path / "pool.json", interrupt, pool=2)
    assert not load(tmp_path / "pool.json").is_whole
    monkeypatch.setattr(gate, "_pairs", lambda *_: iter([1, 1]))
    with Interrupt() as interrupt:
        gate.measure(tmp_path / "pool.json", interrupt, pool=2)
    assert load(tmp_path / "pool.json").is_whole


def test_studies_of_a_group_take_turns_after_each_launch(monkeypatch, tmp_path):
    done = []

    def launches(gate, out, _interrupt, pairs):
        for _ in range(pairs):
            done.append(out.stem)
            yield

    monkeypatch.setattr(power, "only_one", nullcontext)
    monkeypatch.setattr(power.Gate, "build", lambda *_: None)
    monkeypatch.setattr(power.Gate, "launches", launches)
    group = [power.Study("noise-usual", pairs=2, way="usual"), power.Study("noise-turns", pairs=2, way="turns")]
    power.measure(tmp_path, [group])
    assert done == ["noise-usual", "noise-turns"] * 2


@pytest.fixture
def one_commit(monkeypatch):
    """Provide a history of one commit, which is not built."""
    monkeypatch.setattr(history, "only_one", nullcontext)
    monkeypatch.setattr(history, "commits", lambda _every: [("0001-abc.json", "HEAD")])
    monkeypatch.setattr(history.Gate, "build", lambda *_: None)


def test_a_commit_of_the_history_gets_a_valid_record(one_commit, monkeypatch, tmp_path):
    """Its record once had a time limit of 0 minutes, which is invalid."""
    monkeypatch.setattr(history.Gate, "_pairs", lambda *_: iter([1]))
    assert history.measure(tmp_path, wanted=1, every=1, pairs=1) == []
    assert [path.name for path in tmp_path.iterdir()] == ["0001-abc.json"]
    assert load(tmp_path / "0001-abc.json").is_whole


def test_a_commit_of_the_history_that_cannot_be_measured_is_reported_and_leaves_no_record(
    one_commit, monkeypatch, tmp_path
):
    def fail(*_):
        yield 1
        raise HarnessError("the disk is full")

    monkeypatch.setattr(history.Gate, "_pairs", fail)
    assert history.measure(tmp_path, wanted=1, every=1, pairs=1) == ["HEAD: the disk is full"]
    assert list(tmp_path.iterdir()) == []


def test_an_older_commit_is_measured_instead_of_one_whose_record_could_not_be_read(one_commit, monkeypatch, tmp_path):
    def judge(_run):
        if not judged:
            judged.append(1)
            raise HarnessError("base crashed")

    judged: list[int] = []
    monkeypatch.setattr(history, "commits", lambda _every: [(f"000{n}-abc.json", "HEAD") for n in (3, 2, 1)])
    monkeypatch.setattr(history.Gate, "_pairs", lambda *_: iter([1]))
    monkeypatch.setattr(history, "judge", judge)
    assert history.measure(tmp_path, wanted=1, every=1, pairs=1) == ["HEAD: base crashed"]
    assert [path.name for path in tmp_path.iterdir()] == ["0002-abc.json"]


def test_a_history_without_measurable_commits_ends_soon(one_commit, monkeypatch, tmp_path):
    def fail(*_):
        raise HarnessError("base does not build")

    monkeypatch.setattr(history, "commits", lambda _every: [(f"{n:04d}-abc.json", "HEAD") for n in range(200)])
    monkeypatch.setattr(history.Gate, "build", fail)
    assert len(history.measure(tmp_path, wanted=1, every=1, pairs=1)) == 1 + history.SPARE


class Machine:
    """Replaces the clock and the processors: in `spend`, time passes, part of which this and other processes use."""

    def __init__(self, monkeypatch) -> None:
        self.seconds = self.busy = self.own = 0.0
        monkeypatch.setattr(probe.time, "monotonic", lambda: self.seconds)
        idle = dict.fromkeys(("nice", "system", "irq", "softirq", "steal"), 0.0)
        monkeypatch.setattr(probe.psutil, "cpu_times", lambda: SimpleNamespace(user=self.busy, **idle))
        none = dict.fromkeys(("user", "system", "children_system"), 0.0)
        monkeypatch.setattr(probe.os, "times", lambda: SimpleNamespace(children_user=self.own, **none))

    def spend(self, seconds: float, others: float, own: float) -> None:
        self.seconds += seconds
        self.busy += seconds * (others + own)
        self.own += seconds * own


def test_the_probe_measures_other_programs_and_not_the_launch_itself(monkeypatch):
    machine, seen = Machine(monkeypatch), []
    for others in (0.0, 0.7):
        with probe.others() as side:
            machine.spend(2.0, others=others, own=1.2)
        seen.append(side)
    assert [side.cores for side in seen] == pytest.approx([0.0, 0.7])
    assert probe.unevenness(seen) == pytest.approx(0.7)


class Fixed(Side):
    package = "cpprb_impl"

    def renew(self) -> None:
        """Do nothing, since there is no build."""


def pair_of(suite: str) -> Pair:
    about = {"suite": suite, "benchmark": "learner", "workload": "CartPole-v1", "unit": "s", "better": "lower"}
    sides = {Fixed(name, Checkout("")): [Record(peer=name, params={}, **about)] for name in ("base", "head")}
    records = next(iter(sides.values()))
    return Pair(Launch("a fleet", records, lambda _records, _cells, _block: ["python"]), sides)


@pytest.mark.parametrize(("suite", "uneven", "stored"), [("apex", 0.5, 0), ("apex", 0.1, 1), ("memory", 0.5, 1)])
def test_a_timed_pair_does_not_count_if_the_machine_was_busier_during_one_side(
    suite, uneven, stored, monkeypatch, tmp_path
):
    def store(records, *_) -> None:
        for record in records:
            record.add_sample(0, 1.0)

    monkeypatch.setattr(Pair, "_one_after_the_other", lambda *_: Endings("", {}, uneven))
    monkeypatch.setattr(launches, "_store", store)
    pair = pair_of(suite)
    assert pair.measure(pair.keys, 0, tmp_path, lambda: None)
    assert [len(record.samples) for records in pair.sides.values() for record in records] == [stored, stored]


def test_after_a_pair_hangs_its_sides_are_measured_separately_to_find_which_hangs(monkeypatch, tmp_path):
    """Both sides were once reported as failed, so that a hanging head looked like a broken base."""

    def run(command: list[str], *_: object) -> Ending:
        is_fine = command == ["base"]
        return Ending(None) if is_fine else Ending("killed after 120 s", timed_out=True)

    monkeypatch.setattr(launches.processes, "run", run)
    base, head = (Side(name, Checkout("")) for name in ("base", "head"))
    endings = pair_of("throughput")._in_turns({base: ["base"], head: ["head"]}, tmp_path, lambda: None)
    assert endings.killed == {head: "killed after 120 s"}


def test_a_study_that_does_not_exist_is_an_error(capsys):
    with pytest.raises(SystemExit):
        power.main(["--only=noise-nothing"])
    assert "no record has a name that begins with noise-nothing" in capsys.readouterr().err


def test_the_check_of_a_package_does_not_import_it(monkeypatch, tmp_path):
    """It once did, so that the start-up suite timed the import of a package that was already loaded."""
    (tmp_path / "never_seen.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    entry._check_package(argparse.ArgumentParser(), "never_seen", str(tmp_path))
    assert "never_seen" not in sys.modules
    for module, folder in (("never_seen", "/nowhere"), ("there_is_no_such_module", str(tmp_path))):
        with pytest.raises(SystemExit):
            entry._check_package(argparse.ArgumentParser(), module, folder)


def test_the_size_of_the_installed_files_is_measured(monkeypatch, tmp_path):
    for name, size in {"module.py": 100, "native.so": 1_000, "module.pyc": 10}.items():
        (tmp_path / name).write_bytes(bytes(size))
    files = ["module.py", "native.so", "module.pyc", "is_gone.py"]
    distribution = SimpleNamespace(files=files, locate_file=lambda name: tmp_path / name)
    monkeypatch.setattr(startup.importlib.metadata, "distribution", {"cpprb-impl": distribution}.get)
    startup.installed(figures := {}, "cpprb_impl", None, 0, 0.0)
    assert figures == {"installed": 1_100.0}
