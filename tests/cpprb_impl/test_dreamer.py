"""A replay in the form of DreamerV3's."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest

from cpprb_impl.dreamer import Replay

PAGE = (Path(__file__).resolve().parents[2] / "docs/using.md").read_text(encoding="utf-8")
(PROGRAM,) = [each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "cpprb_impl.dreamer" in each]


def step(number: int, *, first: bool = False, last: bool = False) -> dict[str, object]:
    return {
        "image": np.full((8, 8, 3), number % 256, np.uint8),
        "number": np.int32(number),
        "reward": np.float32(number / 2),
        "is_first": first,
        "is_last": last,
        "is_terminal": last,
        "log/score": "text",
    }


def filled(steps: int = 40, workers: int = 2, **options) -> Replay:
    replay = Replay(6, 60, workers, seed=0, **options)
    for number in range(steps):
        for worker in range(workers):
            replay.add(step(number + 1000 * worker, first=number % 10 == 0, last=number % 10 == 9), worker)
    return replay


def test_samples_have_dreamers_keys_shapes_and_dtypes():
    batch = filled().sample(16, "report")
    kinds = {name: (values.shape, values.dtype) for name, values in batch.items()}
    assert kinds == {
        "image": ((16, 6, 8, 8, 3), np.uint8),
        "number": ((16, 6), np.int32),
        "reward": ((16, 6), np.float32),
        **dict.fromkeys(("is_first", "is_last", "is_terminal"), ((16, 6), bool)),
        "stepid": ((16, 6, 20), np.uint8),
    }


def test_sequences_are_consecutive_steps_of_one_worker_across_episodes():
    replay = filled()
    batch = replay.sample(2000)
    number = batch["number"]
    assert (np.diff(number, axis=1) == 1).all()
    assert {*number[:, 0]} == {n + 1000 * worker for worker in (0, 1) for n in range(10, 35)}  # 30 steps of each
    assert len(replay) == 50
    np.testing.assert_array_equal(batch["image"][..., 0, 0, 0], number % 256)
    np.testing.assert_array_equal(batch["reward"], number / 2)
    np.testing.assert_array_equal(batch["is_last"], number % 10 == 9)
    np.testing.assert_array_equal(batch["is_first"][:, 1:], number[:, 1:] % 10 == 0)
    assert batch["is_first"][:, 0].all()


def test_the_last_step_of_an_abandoned_episode_is_marked():
    replay = Replay(4, 40, seed=0)
    for number in range(20):
        replay.add(step(number, first=number in (0, 7)))
    batch = replay.sample(200)
    np.testing.assert_array_equal(batch["is_last"][:, :-1], batch["number"][:, :-1] == 6)
    assert not batch["is_terminal"].any()


def test_sample_waits_for_the_first_sequence():
    replay, batches = Replay(3, 30), []
    thread = threading.Thread(target=lambda: batches.append(replay.sample(2)))
    thread.start()
    for number in range(3):
        thread.join(0.05)
        assert thread.is_alive()
        replay.add(step(number))
    thread.join(20)
    assert batches[0]["number"].tolist() == [[0, 1, 2]] * 2


def test_priorities_of_steps_decide_which_sequences_are_drawn():
    replay = filled(workers=1, alpha=1.0)
    batch = replay.sample(500)
    priority = np.where(batch["number"][:, :1] == 20, 1.0, 0.0) * np.ones((1, 6))
    replay.update({"stepid": batch["stepid"], "priority": priority})
    assert (replay.sample(50)["number"][:, 0] == 20).mean() > 0.9


def test_an_update_takes_what_it_used_from_its_argument():
    replay = filled(alpha=1.0)
    data = {"stepid": replay.sample(3)["stepid"], "priority": np.ones((3, 6))}
    replay.update(data)
    assert data == {}


def test_values_that_cannot_be_written_are_refused():
    replay = filled()
    stepid = replay.sample(3)["stepid"]
    with pytest.raises(NotImplementedError, match=r"nothing but stepid and priority, got dyn/deter: .* replay_context"):
        replay.update({"stepid": stepid, "dyn/deter": np.zeros((3, 6, 8))})
    with pytest.raises(TypeError, match="must not get a priority without the option alpha"):
        replay.update({"stepid": stepid, "priority": np.ones((3, 6))})


def test_the_counts_are_those_since_the_last_call():
    replay = filled()
    replay.update({"stepid": replay.sample(4)["stepid"]})
    replay.sample(4, "report")
    stats = replay.stats()
    expected = {"items": 50, "inserts": 80, "samples": 4, "updates": 24, "replay_ratio": 6 * 4 / 80}
    assert {name: stats[name] for name in expected} == expected
    assert stats["ram_gb"] > 0
    assert replay.stats()["inserts"] == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Replay(6, 11, 2), ValueError, r"capacity must be at least workers \* length=12, got 11"),
        (lambda: Replay(0, 10), ValueError, "length must be at least 1"),
        (lambda: Replay(2, 10, alpha=-1), ValueError, "alpha must be finite and not negative"),
        (lambda: filled().add(step(0), 2), ValueError, "worker must be from 0 to 1, got 2"),
        (lambda: filled().add({"number": 1}), KeyError, "/image"),
        (lambda: filled().sample(2, "test"), ValueError, "mode must be one of train, report, eval, got 'test'"),
        (lambda: Replay(2, 10).buffer, RuntimeError, "the replay must contain a step"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_program_of_the_page_runs():
    exec(PROGRAM, {})
