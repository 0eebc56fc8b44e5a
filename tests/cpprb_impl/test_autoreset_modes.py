"""With the loops in docs/using.md, every stored row belongs to one episode, in each autoreset mode of Gymnasium."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import cpprb_impl as m

gym = pytest.importorskip("gymnasium")
vector = pytest.importorskip("gymnasium.vector")
if not hasattr(vector, "AutoresetMode"):
    pytest.skip("needs Gymnasium 1.1", allow_module_level=True)

PAGE = (Path(__file__).resolve().parents[2] / "docs/using.md").read_text(encoding="utf-8")
BLOCKS = [each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "AutoresetMode" in each]
LOOPS = {re.findall(r"AutoresetMode\.(\w+)", each)[0]: each for each in BLOCKS[1:]}
NSTEP = {"size": 3, "gamma": 1.0, "rew": "rew", "next": "next_obs", "truncated": "truncated"}
CLASSES = [m.ReplayBuffer, m.PrioritizedReplayBuffer, m.MPReplayBuffer, m.MPPrioritizedReplayBuffer]


class Counting(gym.Env):
    """obs is (episode, step, number, 0). Episodes of various lengths alternately terminate and are truncated."""

    observation_space = gym.spaces.Box(-1, 1e6, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)
    made = 0

    def __init__(self) -> None:
        self.number, self.episode, self.step_number = Counting.made, -1, 0
        Counting.made += 1

    def _obs(self) -> np.ndarray:
        return np.array([self.episode, self.step_number, self.number, 0], np.float32)

    def reset(self, *, seed=None, options=None):
        self.episode, self.step_number = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action):
        self.step_number += 1
        over = self.step_number >= 3 + (self.episode + self.number) % 5
        return self._obs(), 1.0, over and self.episode % 2 == 0, over and self.episode % 2 == 1, {}


def run(monkeypatch, loop: str, mode: str, kind=m.ReplayBuffer, **options):
    """Run a loop from the page with environments that count, and with a buffer of `kind` with further options."""
    monkeypatch.setattr(gym, "make", lambda name: Counting())
    Counting.made = 0

    def make(size, fields, **own):
        return kind(size, fields, **own, **options)

    beginning = BLOCKS[0].replace("AutoresetMode.NEXT_STEP", f"AutoresetMode.{mode}")
    beginning = beginning.replace("from cpprb_impl import ReplayBuffer\n", "")
    names = {"ReplayBuffer": make}
    exec(beginning + loop, names)
    return names["buffer"]


def test_the_page_has_a_loop_for_each_mode():
    assert LOOPS.keys() == {mode.name for mode in vector.AutoresetMode}


@pytest.mark.parametrize("nstep", [None, NSTEP])
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("mode", LOOPS)
def test_every_row_belongs_to_one_episode_and_none_is_missing(mode, kind, nstep, monkeypatch):
    buffer = run(monkeypatch, LOOPS[mode], mode, kind, Nstep=nstep)
    check(buffer, nstep)


@pytest.mark.parametrize("nstep", [None, NSTEP])
@pytest.mark.parametrize("kind", CLASSES)
def test_autoreset_stores_the_same_rows(kind, nstep, monkeypatch):
    loop = LOOPS["NEXT_STEP"].replace("env_ids=~over, ", "")
    check(run(monkeypatch, loop, "NEXT_STEP", kind, Nstep=nstep, autoreset="next_step"), nstep)


def check(buffer, nstep) -> None:
    rows = buffer.get_all_transitions()
    obs, next_obs = rows["obs"], rows["next_obs"]
    assert len(obs) > 3000
    assert (obs[:, [0, 2]] == next_obs[:, [0, 2]]).all()
    steps = next_obs[:, 1] - obs[:, 1]
    assert (rows["rew"].ravel() == steps).all()
    ends = 3 + (obs[:, 0] + obs[:, 2]) % 5
    assert (next_obs[:, 1] == np.minimum(obs[:, 1] + (nstep or {"size": 1})["size"], ends)).all()
    for number in range(4):  # each step of the ended episodes is stored once
        mine = obs[obs[:, 2] == number]
        last = mine[:, 0].max()
        wanted = [(e, s) for e in range(int(last)) for s in range(3 + (e + number) % 5)]
        assert sorted(map(tuple, mine[mine[:, 0] < last][:, :2].astype(int).tolist())) == wanted
    buffer.close()
