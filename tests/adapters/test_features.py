"""What the feature table says of the libraries themselves, seen: the cells whose evidence names this file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adapters import registry
from adapters.base import Features
from adapters.peers.rlox import load_core

ENV = {"obs": {"shape": 2}, "rew": {}, "next_obs": {"shape": 2}, "done": {}}
THREE_STEPS = {"size": 3, "gamma": 0.5, "rew": "rew", "next": "next_obs"}
HERE = "tests/adapters/test_features.py"


def five_steps(buffer) -> dict[str, np.ndarray]:
    for i in range(5):
        buffer.add(obs=[i, i], rew=1.0, next_obs=[i + 1, i + 1], done=0.0)
    return buffer.get_all_transitions()


@pytest.mark.parametrize("library", ["cpprb", "cpprb_impl"])
def test_cpprb_and_ours_make_n_step_rows(library: str) -> None:
    module = pytest.importorskip(library)
    stored = five_steps(module.ReplayBuffer(8, ENV, Nstep=THREE_STEPS))
    assert stored["rew"].ravel().tolist() == [1.75] * 3 and stored["next_obs"][:, 0].tolist() == [3, 4, 5]


def test_our_mp_class_makes_n_step_rows_and_cpprbs_takes_the_option_and_does_not() -> None:
    import cpprb_impl

    ours = cpprb_impl.MPReplayBuffer(8, ENV, Nstep=THREE_STEPS)
    assert five_steps(ours)["rew"].ravel().tolist() == [1.75] * 3
    ours.close()
    theirs = pytest.importorskip("cpprb").MPReplayBuffer(8, ENV, Nstep=THREE_STEPS)
    assert five_steps(theirs)["rew"].ravel().tolist() == [1.0] * 5


@pytest.mark.parametrize("library", ["cpprb", "cpprb_impl"])
def test_cpprb_and_ours_are_saved_and_loaded(library: str, tmp_path: Path) -> None:
    module = pytest.importorskip(library)
    saved, loaded = (module.ReplayBuffer(8, ENV) for _ in range(2))
    before = five_steps(saved)
    saved.save_transitions(str(tmp_path / "rows.npz"))
    loaded.load_transitions(str(tmp_path / "rows.npz"))
    assert all(np.array_equal(before[key], column) for key, column in loaded.get_all_transitions().items())
    assert not hasattr(module.MPReplayBuffer, "save_transitions")


@pytest.mark.parametrize("library", ["cpprb", "cpprb_impl"])
def test_cpprb_and_ours_can_be_kept_in_files(library: str, tmp_path: Path) -> None:
    module = pytest.importorskip(library)
    buffer = module.ReplayBuffer(8, ENV, mmap_prefix=str(tmp_path / "rows"))
    five_steps(buffer)
    assert list(tmp_path.iterdir())


def test_rlox_has_a_class_that_is_kept_in_a_file_and_none_of_its_two_can_be_saved() -> None:
    core = load_core()
    assert hasattr(core, "MmapReplayBuffer")
    for kind in (core.ReplayBuffer, core.PrioritizedReplayBuffer):
        assert not [name for name in dir(kind) if "save" in name or "load" in name or "step" in name]


def test_rllib_gives_its_state_and_takes_it_back() -> None:
    from adapters.peers.rllib.adapter import without_tensorflow

    with without_tensorflow():
        buffers = pytest.importorskip("ray.rllib.utils.replay_buffers")
        from ray.rllib.policy.sample_batch import SampleBatch
    saved, loaded = (buffers.ReplayBuffer(8, storage_unit="timesteps") for _ in range(2))
    saved.add(SampleBatch({"obs": [[1.0, 2.0]], "anything": [7]}))
    loaded.set_state(saved.get_state())
    assert loaded.sample(1)["anything"].tolist() == [7]


@pytest.mark.parametrize("name", registry.every())
def test_the_last_release_is_the_installed_version(name: str) -> None:
    cls = registry.adapter_class(name)
    version = registry.describe(name).version
    stated = cls.features.last_release
    if cls.distribution in (None, "cpprb-impl"):
        assert stated in ("", "in this project")
    elif version is not None and stated:
        assert stated.startswith(f"{version}, 20")


def test_evidence_that_names_a_test_names_one_that_is_there() -> None:
    cells = [value for name in registry.every() for value in vars(registry.adapter_class(name).features).values()]
    named = {cell.rpartition("[seen: ")[2].partition("]")[0] for cell in cells if "[seen: tests/" in cell}
    assert HERE in named
    assert all((Path(__file__).parents[2] / file).exists() for file in named)


def test_every_column_of_the_table_is_filled() -> None:
    for name in registry.every():
        features = vars(registry.adapter_class(name).features)
        assert isinstance(registry.adapter_class(name).features, Features)
        assert not [column for column, text in features.items() if not text], name
