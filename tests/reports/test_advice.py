"""The committed records support the advice on the look-up page.

Each piece of advice has a test that is named after its id.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from reports import rendering
from reports.checks import integrity
from results import MACHINES, REFERENCE, frames, latest, load
from results.verdicts import MATTERS

TEMPLATE = Path(rendering.__file__).with_name("advice") / "advice.html.j2"


def newest(profile: str) -> Path:
    """Return the newest committed record of this profile."""
    path = latest(folders=(REFERENCE,), profile=profile)
    assert path is not None
    return path


@cache
def samples_of(profile: str) -> pd.DataFrame:
    return frames.read(newest(profile))


def ratios(profile: str, reference: str, **wanted: object) -> pd.DataFrame:
    """Return ratios to the reference by peer, at jobs with these values; `param__batch` is the parameter batch."""
    samples = samples_of(profile)
    for name, value in wanted.items():
        samples = samples[samples[name.replace("__", ".")] == value]
    return frames.ratios(samples, reference).set_index("peer")


def test_every_piece_of_advice_has_a_test():
    ids = re.findall(r'id="advice-(\w+)"', TEMPLATE.read_text(encoding="utf-8"))
    assert ids and all(f"test_advice_{name}_agrees_with_the_records" in globals() for name in ids)


def test_advice_small_agrees_with_the_records():
    steps = ratios("quick", "cpprb", benchmark="learner_step", workload="CartPole-v1")
    order = steps.groupby("peer")["value"].median().sort_values(ascending=False)
    assert list(order.index[:2]) == ["cpprb_impl", "rlox"]
    ours, theirs = (steps.loc[[peer]].set_index("params") for peer in ("cpprb_impl", "rlox"))
    assert (ours["low"] > theirs["high"].reindex(ours.index)).all()
    speeds = frames.figures(samples_of("paired_speed"))
    speeds = speeds[(speeds["benchmark"] == "relative_speed") & (speeds["workload"] != "PongNoFrameskip-v4")]
    ours = speeds[speeds["peer"].isin(["cpprb_impl[SB3]", "cpprb_impl[SB3, frames once]"])]
    assert len(ours) >= 4 and ours["value"].between(1.005, 1.06).all()


def test_advice_frames_agrees_with_the_records():
    samples = samples_of("paired_training")
    pong = samples[(samples["benchmark"] == "memory") & (samples["workload"] == "PongNoFrameskip-v4")]
    memory = frames.figures(pong).set_index("peer")["value"]  # in bytes per transition
    batches = ratios("quick", "cpprb", benchmark="sample", workload="ALE/Seaquest-v5", param__batch=256)
    assert 1 / MATTERS < batches.loc["cpprb_impl", "value"] < MATTERS
    assert memory["stable-baselines3[training]"] / memory["cpprb_impl[SB3, frames once]"] == pytest.approx(8, rel=0.05)
    assert memory["stable-baselines3[training]"] / memory["cpprb_impl[SB3, compressed]"] > 100


def test_advice_processes_agrees_with_the_records():
    outcomes: dict[str, set[bool | None]] = {}
    # Every record counts, since it is a matter of chance in which launch a fault shows.
    for path in (*REFERENCE.glob("*.json"), *MACHINES.glob("*.json")):
        for peer, each in integrity.outcomes(load(path)).items():
            outcomes.setdefault(peer, set()).add(each.passed)
            fault = re.search("broken|torn|stale|hangs|never-written|lost", each.found)
            assert each.passed is not False or fault
    sound = {peer for peer, found in outcomes.items() if found == {True}}
    assert sound == {*(f"cpprb_impl[lock={lock}]" for lock in ("none", "buffer", "critical")), "reverb"}
    trained = {"param__learner": "DQN", "param__environment": "200 us", "param__explorers": 8}
    explorers = ratios("apex", "cpprb[MP]", benchmark="explorers", **trained)["value"]
    assert explorers.between(1 / MATTERS, MATTERS).all() and len(explorers) >= 8
    for reference, least, most in (("cpprb[MP]", 2.0, 4.0), ("cpprb[PER behind one lock]", 1.4, 1.9)):
        learner = ratios("apex", reference, benchmark="learner", **trained)["value"]
        assert learner[learner.index.str.startswith("cpprb_impl")].between(least, most).all()


def test_the_rivals_in_readme_are_the_fastest_of_other_libraries():
    trained = {"param__learner": "DQN", "param__environment": "200 us", "param__explorers": 8}
    learner = ratios("apex", "cpprb[MP]", benchmark="learner", **trained)
    small = {"workload": "CartPole-v1", "param__adds": 4, "param__capacity": 100_000}
    step = ratios("quick", "cpprb", benchmark="learner_step", **small)
    for found, rival in ((learner, "cpprb[PER behind one lock]"), (step, "rlox")):
        assert found.loc[~found.index.str.startswith("cpprb_impl"), "value"].idxmax() == rival


def test_advice_hosts_agrees_with_the_records():
    near = {"param__data_hosts": 1, "param__link": "none"}
    learner = ratios("hosts", "cpprb[replay server]", benchmark="learner", **near).loc[["cpprb_impl[Ray]"], "value"]
    assert len(learner) >= 4 and learner.between(2, 5).all()
    for workload, least, most in (("CartPole-v1", 4, 7), ("ALE/Seaquest-v5", 0.9, 1.6)):
        explorer = ratios("hosts", "cpprb[replay server]", benchmark="explorer", workload=workload, **near)
        assert explorer.loc[["cpprb_impl[Ray]"], "value"].between(least, most).all()


def test_advice_references_agrees_with_the_records():
    run = load(newest("quick"))
    keeping = {peer.name for peer in run.peers if peer.known.keeps_references == "always"}
    for batch in (1, 100):
        added = ratios("quick", "cpprb", benchmark="add", workload="ALE/Seaquest-v5", param__batch=batch)["value"]
        assert added.idxmax() in keeping
