"""With eps = 0, a row of priority 0 is never drawn, whichever process set its priority and at any time."""

from __future__ import annotations

import pickle
import threading
import time

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, PrioritizedReplayBuffer

pytestmark = pytest.mark.timeout(180)


@pytest.mark.usefixtures("threads_change_only_in_calls")
@pytest.mark.parametrize("left", [0, 1])
def test_rows_whose_priority_becomes_0_while_sampled_are_not_returned(left):
    """Another learner sets the priorities of all rows but one, or of all rows, to 0 after the sample has begun."""
    rows, width, batch = 64, 1 << 18, 16
    buffer = MPPrioritizedReplayBuffer(rows, {"a": {"dtype": np.uint8, "shape": width}}, alpha=1.0, eps=0.0)
    other = pickle.loads(pickle.dumps(buffer))  # a separate learner, whose changes arrive by the journal
    buffer.add(a=np.zeros((rows, width)))
    other.sample(1)
    met, deadline = 0, time.monotonic() + 60
    while met < 5 and time.monotonic() < deadline:
        other.update_priorities(np.arange(rows), 1.0)
        go = threading.Event()
        changer = threading.Thread(
            target=lambda go=go: (go.wait(), other.update_priorities(np.arange(left, rows), 0.0))
        )
        changer.start()
        go.set()
        try:
            drawn = buffer.sample(batch, beta=1.0)
            assert np.isfinite(drawn["weights"]).all(), drawn["weights"]
            met += np.count_nonzero(drawn["indexes"] == 0) > batch // 4  # others were copied before the change
        except ValueError as error:
            assert left == 0 and "every stored priority is 0" in str(error)
            met += 1
        changer.join()
    for each in (other, buffer):
        each.close()
    assert met, "no row lost its mass in time"


@pytest.mark.parametrize("kind", [PrioritizedReplayBuffer, MPPrioritizedReplayBuffer])
def test_rows_of_priority_0_are_not_drawn_if_there_are_others(kind):
    random = np.random.default_rng(7)
    buffer = kind(300, {"a": {}}, alpha=1.0, eps=0.0, seed=7)
    priorities = np.empty(300)
    for call in range(300):
        index = (call * 17 + np.arange(17)) % 300
        new = random.choice([0.0, 1e-45, 1e-30, 1.0, 1e30], 17, p=[0.6, 0.1, 0.1, 0.1, 0.1])
        buffer.add(a=np.zeros(17), priorities=new)
        priorities[index] = new
        if not priorities[: min(300, 17 * (call + 1))].any():
            continue
        drawn = buffer.sample(64, beta=1.0)
        assert (priorities[drawn["indexes"]] > 0).all()
        assert np.isfinite(drawn["weights"]).all()
        priorities[drawn["indexes"]] = 0.0
        buffer.update_priorities(drawn["indexes"], 0.0)
    buffer.close()
