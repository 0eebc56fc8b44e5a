"""The feature table: its sentences, and the files named as evidence for them."""

from __future__ import annotations

import datetime
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from adapters import registry
from adapters.behaviours import ImportanceWeights, Prioritized, References, Replacement
from adapters.contract import Processes, Release, Returns, RowFields, Stated, no, yes
from adapters.features import facts, sentences
from adapters.peers.rlox import load_core

ENV = {"obs": {"shape": 2}, "rew": {}, "next_obs": {"shape": 2}, "done": {}}
THREE_STEPS = {"size": 3, "gamma": 0.5, "rew": "rew", "next": "next_obs"}
HERE = "tests/adapters/test_features.py"
REMARKED = {"weights", "duplicates", "copies_on_add"}
NEVER_LAST = "yes, priorities only after the add; the last slot is never drawn"
AN_UPDATE = "an update must follow each sample"
KEPT_OF_BATCHES = "single rows: yes; batches: no, keeps views of the caller's arrays"
COMPUTED_HERE = "no: probabilities only (the adapter computes them, relative to the largest in the buffer)"


def five_steps(buffer) -> dict[str, np.ndarray]:
    for i in range(5):
        buffer.add(obs=[i, i], rew=1.0, next_obs=[i + 1, i + 1], done=0.0)
    return buffer.get_all_transitions()


@pytest.mark.parametrize("library", ["cpprb", "cpprb_impl"])
def test_cpprb_and_our_buffer_make_n_step_rows(library: str) -> None:
    module = pytest.importorskip(library)
    stored = five_steps(module.ReplayBuffer(8, ENV, Nstep=THREE_STEPS))
    assert stored["rew"].ravel().tolist() == [1.75] * 3 and stored["next_obs"][:, 0].tolist() == [3, 4, 5]


def test_our_mp_class_makes_n_step_rows_and_cpprb_ignores_the_option() -> None:
    import cpprb_impl

    ours = cpprb_impl.MPReplayBuffer(8, ENV, Nstep=THREE_STEPS)
    assert five_steps(ours)["rew"].ravel().tolist() == [1.75] * 3
    ours.close()
    theirs = pytest.importorskip("cpprb").MPReplayBuffer(8, ENV, Nstep=THREE_STEPS)
    assert five_steps(theirs)["rew"].ravel().tolist() == [1.0] * 5


@pytest.mark.parametrize("library", ["cpprb", "cpprb_impl"])
def test_cpprb_and_our_buffer_can_be_saved_and_loaded(library: str, tmp_path: Path) -> None:
    module = pytest.importorskip(library)
    saved, loaded = (module.ReplayBuffer(8, ENV) for _ in range(2))
    before = five_steps(saved)
    saved.save_transitions(str(tmp_path / "rows.npz"))
    loaded.load_transitions(str(tmp_path / "rows.npz"))
    assert all(np.array_equal(before[key], column) for key, column in loaded.get_all_transitions().items())
    assert hasattr(module.MPReplayBuffer, "save_transitions") is (library == "cpprb_impl")


@pytest.mark.parametrize("library", ["cpprb", "cpprb_impl"])
def test_cpprb_and_our_buffer_can_be_stored_in_files(library: str, tmp_path: Path) -> None:
    module = pytest.importorskip(library)
    buffer = module.ReplayBuffer(8, ENV, mmap_prefix=str(tmp_path / "rows"))
    five_steps(buffer)
    assert list(tmp_path.iterdir())


def test_rlox_has_a_buffer_in_a_file_but_no_buffer_that_can_be_saved() -> None:
    if find_spec("rlox") is None:
        pytest.skip("rlox has no wheel for this Python")
    core = load_core()
    assert hasattr(core, "MmapReplayBuffer")
    for kind in (core.ReplayBuffer, core.PrioritizedReplayBuffer):
        assert not [name for name in dir(kind) if "save" in name or "load" in name or "step" in name]


def test_rllib_returns_and_restores_its_state() -> None:
    from adapters.peers.rllib.adapter import without_tensorflow

    with without_tensorflow():
        buffers = pytest.importorskip("ray.rllib.utils.replay_buffers")
        from ray.rllib.policy.sample_batch import SampleBatch
    saved, loaded = (buffers.ReplayBuffer(8, storage_unit="timesteps") for _ in range(2))
    saved.add(SampleBatch({"obs": [[1.0, 2.0]], "anything": [7]}))
    loaded.set_state(saved.get_state())
    assert loaded.sample(1)["anything"].tolist() == [7]


@pytest.mark.parametrize("name", registry.every())
def test_the_stated_release_is_the_installed_version(name: str) -> None:
    cls = registry.peer_class(name)
    version = registry.describe(name).version
    release = cls.contract.release
    if cls.distribution in (None, "cpprb-impl"):
        assert release is None
    elif version is not None:
        assert release is not None and release.version == version


def test_every_file_named_as_evidence_exists() -> None:
    contracts = [vars(registry.peer_class(name).contract).values() for name in registry.every()]
    evidence = {fact.evidence for facts in contracts for fact in facts if isinstance(fact, Stated)}
    named = {text.removeprefix("seen: ") for text in evidence if text.startswith("seen: ")}
    assert HERE in named
    assert all((Path(__file__).parents[2] / file).exists() for file in named)


def test_every_column_of_the_table_is_filled() -> None:
    for name in registry.every():
        contract = registry.peer_class(name).contract
        assert not [column for column, text in sentences(contract).items() if not text], name
        assert set(contract.remarks) <= REMARKED, name


SOUND = registry.adapter_class("baselines-style").contract


@pytest.mark.parametrize(
    ("changes", "column", "sentence"),
    [
        ({"batch_add": no()}, "batch_add", "no"),
        ({"batch_add": yes("as columns", "a page")}, "batch_add", "yes, as columns [a page]"),
        ({"fields": Stated(RowFields.DICT_OBSERVATIONS, "dicts")}, "flexible_fields", "no: dicts"),
        ({"fields": Stated(RowFields.ANY)}, "flexible_fields", "yes"),
        ({"returns": Stated(Returns.ROWS, "stacked here")}, "gives", "rows (stacked here)"),
        ({"processes": Stated(Processes.ANY, "by gRPC", "a page")}, "processes", "any: by gRPC [a page]"),
        ({"references": References.KEPT_OF_BATCHES}, "copies_on_add", KEPT_OF_BATCHES),
        ({"references": References.COPIES, "remarks": {"copies_on_add": "deep"}}, "copies_on_add", "yes (deep)"),
        ({"prioritized": Prioritized.BY_PRIORITY}, "prioritized", "yes, priorities only after the add"),
        ({"batches_ahead": 3}, "prioritized", f"{NEVER_LAST}; updates take effect up to 3 batches late"),
        ({"prioritized_replacement": Replacement.WITHOUT}, "prioritized", f"{NEVER_LAST}; {AN_UPDATE}"),
        ({"prioritized_replacement": Replacement.WITHOUT}, "duplicates", "uniform: yes; prioritized: never"),
        ({"prioritized_replacement": Replacement.WITHOUT, "priorities": no()}, "duplicates", "yes"),
        ({"weights": ImportanceWeights.OVER_BATCH}, "weights", "relative to the largest in the batch"),
        ({"returns_weights": False}, "weights", COMPUTED_HERE),
        ({"priorities": no()}, "weights", "no"),
        ({"priorities": no("why")}, "prioritized", "no: why"),
        ({"release": Release("1.2", datetime.date(2026, 3, 4))}, "last_release", "1.2, 2026-03-04 [PyPI]"),
        ({}, "last_release", "in this project"),
    ],
)
def test_a_sentence_follows_from_the_contract(changes: dict, column: str, sentence: str) -> None:
    assert sentences(replace(SOUND, **changes))[column] == sentence


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"batch_add": yes("from_data")}, {"adds_batches": True}),
        ({"batch_add": no("a loop")}, {"adds_batches": False}),
        ({"returns": Stated(Returns.ROWS)}, {"returns_rows": True}),
        ({"returns": Stated(Returns.COLUMNS, "rows of a table")}, {"returns_rows": False}),
        ({"references": References.COPIES}, {"keeps_references": "never"}),
        ({"references": References.KEPT_OF_BATCHES}, {"keeps_references": "batches"}),
        ({"references": References.KEPT}, {"keeps_references": "always"}),
    ],
)
def test_the_report_receives_feature_values(changes: dict, fact: dict) -> None:
    assert facts(replace(SOUND, **changes)).items() >= fact.items()
