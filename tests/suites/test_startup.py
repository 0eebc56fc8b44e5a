"""Start-up times on a clock that the peer advances: the time of each step is counted only for that step."""

import json
import sys

import pytest

from adapters import registry
from adapters.peers.baselines_style import BaselinesStyle
from suites.startup import measure as suite
from suites.startup.spec import STEPS

TOOK = {"construct": 2.0, "first_add": 3.0, "fill": 5.0, "first_sample": 7.0}


class Clock:
    """Replaces the suite's `time`."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch, tmp_path):
    """Return a clock that advances when certain modules are imported, and in each step of a slow peer."""
    (tmp_path / "moves_the_clock.py").write_text(
        "import suites.startup.measure as s, moves_it_too\ns.time.now += 8.0\n"
    )
    (tmp_path / "moves_it_too.py").write_text("import suites.startup.measure as s\ns.time.now += 16.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(suite, "time", clock := Clock())
    monkeypatch.setitem(registry.PEERS, "sluggish", f"{__name__}:Sluggish")
    yield clock
    for name in ("moves_the_clock", "moves_it_too"):
        sys.modules.pop(name, None)


class Sluggish(BaselinesStyle):
    name = "sluggish"

    def __init__(self, spec) -> None:
        import moves_the_clock  # noqa: F401

        super().__init__(spec)
        self.steps = dict(TOOK)
        self.wait("construct")

    @classmethod
    def version(cls) -> str:
        suite.time.now += 32.0
        return super().version()

    def wait(self, step: str) -> None:
        suite.time.now += self.steps.pop(step, 0.0)

    def add(self, steps) -> None:
        super().add(steps)
        self.wait("first_add")

    def add_batch(self, columns, priorities=None) -> None:
        super().add_batch(columns, priorities)
        self.wait("fill")

    def sample(self, batch_size):
        self.wait("first_sample")
        return super().sample(batch_size)


def test_each_step_has_only_its_own_time(clock):
    wanted = [name for name in STEPS if name != "first_cycle"]
    found = {result.benchmark: result.value for result in suite.measure("sluggish", "CartPole-v1", 3_000, wanted, 60.0)}
    assert found == {"import": 24.0} | TOOK


def startup(surroundings, peer: str, *options: str, fresh: bool = False):
    start = surroundings.run if fresh else surroundings.fork
    done = start("-m", "suites.startup", "--capacity=3000", "--peer", peer, *options)
    return done.returncode, {result["benchmark"]: result for result in map(json.loads, done.stdout.splitlines())}


def test_a_launch_measures_every_step(surroundings):
    status, results = startup(surroundings, "plain", fresh=True)
    assert status == 0 and sorted(results) == sorted(STEPS)
    assert all(each["value"] > 0 for name, each in results.items() if name != "import")


def test_a_buffer_that_is_not_full_in_time_has_the_other_figures(surroundings):
    status, results = startup(surroundings, "plain", "--fill-seconds=0")
    assert status == 0 and results["fill"]["outcome"] == "skipped" and "too slow" in results["fill"]["reason"]
    assert results["first_sample"]["outcome"] == "ok"


@pytest.mark.parametrize(
    ("peer", "outcome", "reason"),
    [("mixes-rows", "wrong", "different added rows"), ("unavailable", "skipped", "no wheel for this platform")],
)
def test_for_a_buffer_without_a_figure_a_reason_is_reported(peer, outcome, reason, surroundings):
    _, results = startup(surroundings, peer)
    for benchmark in ("first_sample", "first_cycle"):
        assert results[benchmark]["outcome"] == outcome and reason in results[benchmark]["reason"]


def test_only_requested_cells_are_measured(surroundings):
    _, results = startup(surroundings, "plain", "--benchmark=construct", "--benchmark=first_sample")
    assert list(results) == ["construct", "first_sample"]
