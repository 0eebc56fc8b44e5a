"""Checkpoints and copies of the buffers inside other libraries need little memory besides the buffers themselves."""

from __future__ import annotations

import functools
import inspect
import tempfile

import pytest

from cpprb_impl import cleanrl, sb3, torchrl
from tests.peak_memory import bytes_needed

SCRIPT = """
import warnings
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from tensordict import TensorDict
from cpprb_impl import cleanrl, sb3, torchrl

warnings.simplefilter("ignore")
ROWS, FILM = 1 << 12, 256
ACTION = spaces.Box(-1, 1, (2,), np.float32)
BOX = spaces.Box(-1, 1, (1000,), np.float32)
IMAGE = spaces.Box(0, 255, (4, 60, 60), np.uint8)
PARTS = spaces.Dict({"image": spaces.Box(0, 255, (1, 60, 60), np.uint8), "vector": BOX})
GOALS = spaces.Dict({
    "observation": BOX,
    "achieved_goal": spaces.Box(-1, 1, (2,), np.float32),
    "desired_goal": spaces.Box(-1, 1, (2,), np.float32),
})
ONCE = {"optimize_memory_usage": True}
LZ4 = {**ONCE, "compress": "lz4"}
MODEL = DQN("MlpPolicy", "CartPole-v1", buffer_size=1)
gc.freeze()  # so that in_use() does not traverse the objects of all libraries each time
KINDS = {
    "sb3.ReplayBuffer": lambda: sb3.ReplayBuffer(ROWS, BOX, ACTION),
    "sb3.ReplayBuffer, frames once": lambda: sb3.ReplayBuffer(3 * ROWS, IMAGE, ACTION, **ONCE),
    "sb3.ReplayBuffer, compressed": lambda: sb3.ReplayBuffer(5 * ROWS, IMAGE, ACTION, **LZ4),
    "sb3.ReplayBuffer, forgotten": lambda: sb3.ReplayBuffer(ROWS, BOX, ACTION),
    "sb3.DictReplayBuffer": lambda: sb3.DictReplayBuffer(ROWS, PARTS, ACTION),
    "sb3.DictReplayBuffer, frames once": lambda: sb3.DictReplayBuffer(ROWS, PARTS, ACTION, **ONCE),
    "sb3.NStepReplayBuffer": lambda: sb3.NStepReplayBuffer(ROWS, BOX, ACTION, n_steps=3),
    "sb3.NStepReplayBuffer, frames once": lambda: sb3.NStepReplayBuffer(3 * ROWS, IMAGE, ACTION, n_steps=3, **ONCE),
    "sb3.HerReplayBuffer": lambda: sb3.HerReplayBuffer(ROWS, GOALS, ACTION, env=MODEL.env),
    "sb3.PrioritizedReplayBuffer": lambda: sb3.PrioritizedReplayBuffer(ROWS, BOX, ACTION),
    "sb3.PrioritizedReplayBuffer, frames once": lambda: sb3.PrioritizedReplayBuffer(3 * ROWS, IMAGE, ACTION, **ONCE),
    "sb3.SequenceReplayBuffer": lambda: sb3.SequenceReplayBuffer(ROWS, BOX, ACTION, sequences={"size": 8}),
    "cleanrl.ReplayBuffer": lambda: cleanrl.ReplayBuffer(ROWS, BOX, ACTION),
    "cleanrl.ReplayBuffer, forgotten": lambda: cleanrl.ReplayBuffer(ROWS, BOX, ACTION),
    "cleanrl.ReplayBuffer, dict": lambda: cleanrl.ReplayBuffer(ROWS, PARTS, ACTION),
    "cleanrl.ReplayBuffer, frames once": lambda: cleanrl.ReplayBuffer(3 * ROWS, IMAGE, ACTION, **ONCE),
    "cleanrl.ReplayBuffer, compressed": lambda: cleanrl.ReplayBuffer(5 * ROWS, IMAGE, ACTION, **LZ4),
    "torchrl.TensorDictReplayBuffer": lambda: torchrl.TensorDictReplayBuffer(ROWS),
    "torchrl.TensorDictReplayBuffer, frames once": lambda: torchrl.TensorDictReplayBuffer(3 * ROWS, **ONCE),
    "torchrl.TensorDictReplayBuffer, compressed": lambda: torchrl.TensorDictReplayBuffer(5 * ROWS, **LZ4),
    "torchrl.TensorDictPrioritizedReplayBuffer": lambda: torchrl.TensorDictPrioritizedReplayBuffer(
        ROWS, alpha=0.6, beta=0.4
    ),
}

def observations(space, compressed):
    # FILM consecutive observations, of which the last leads to the first.
    if isinstance(space, spaces.Dict):
        parts = {name: observations(part, compressed) for name, part in space.items()}
        return [dict(zip(parts, values)) for values in zip(*parts.values())]
    random = np.random.default_rng(0)
    if space.dtype != np.uint8:
        return list(random.random((FILM, 1, *space.shape), np.float32))
    film = random.integers(0, 256, (FILM, *space.shape[1:]), dtype=np.uint8)
    if compressed:
        film[..., 15:] = 0
    return [film[(at + np.arange(space.shape[0])) % FILM][None] for at in range(FILM)]

def filled(name):
    buffer = KINDS[name]()
    if name.startswith("torchrl"):
        space = IMAGE if "once" in name or "compressed" in name else BOX
        seen = torch.from_numpy(np.concatenate(observations(space, "compressed" in name)))
        rows = TensorDict({"obs": seen, "next": {"obs": seen.roll(-1, 0)}, "reward": torch.zeros(FILM)}, [FILM])
        for _ in range(buffer.max_size // FILM):
            buffer.extend(rows)
        return buffer
    seen, none = observations(buffer.observation_space, "compressed" in name), np.zeros(1, np.float32)
    action = np.zeros((1, 2), np.float32)
    for at in range(buffer.buffer_size):
        done = none + (at % FILM == FILM - 1)
        buffer.add(seen[at % FILM], seen[(at + 1) % FILM], action, none, done, [{}])
    if "forgotten" in name:
        buffer.pos, buffer.full = 0, False  # copies keep the data, since the steps can be stored again
    return buffer

def pickled(buffer):
    with open(path, "wb") as file:
        pickle.dump(buffer, file, pickle.HIGHEST_PROTOCOL)

def unpickled():
    with open(path, "rb") as file:
        return pickle.load(file)

path = sys.argv[1]
needed = {}
for name in KINDS:
    before = in_use()
    buffer = filled(name)
    of = needed[name] = {"size": min(getattr(buffer, "buffer", buffer).nbytes, in_use() - before)}
    of["deepcopy"], _ = rise(lambda: copy.deepcopy(buffer))
    of["pickle"], _ = rise(lambda: pickled(buffer))
    of["unpickle"], _ = rise(unpickled)
    if name.startswith("sb3"):
        MODEL.replay_buffer = buffer
        MODEL.observation_space, MODEL.action_space = buffer.observation_space, buffer.action_space
        of["save"], _ = rise(lambda: MODEL.save_replay_buffer(path))
        of["load"], _ = rise(lambda: MODEL.load_replay_buffer(path))
        MODEL.replay_buffer = None
    elif name.startswith("torchrl"):
        of["save"], _ = rise(lambda: buffer.buffer.save_transitions(path))
    buffer = _ = None
print(json.dumps(needed))
"""
MOST = {"pickle": 0.25, "save": 0.25, "deepcopy": 1.25, "unpickle": 1.25, "load": 1.25}  # buffer sizes
KINDS = [line.split('"')[1] for line in SCRIPT.splitlines() if '": lambda: ' in line]


@functools.cache
def needed() -> dict[str, dict[str, int]]:
    """Return the additional bytes that each operation needs, by kind of buffer."""
    with tempfile.TemporaryDirectory() as folder:
        return bytes_needed(SCRIPT, f"{folder}/buffer.npz")


def test_every_buffer_is_measured():
    for module in (sb3, cleanrl, torchrl):
        for name, value in vars(module).items():
            if inspect.isclass(value) and name.endswith("Buffer") and value.__module__.startswith(module.__name__):
                assert f"{module.__name__.removeprefix('cpprb_impl.')}.{name}" in KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_and_copies_need_little_additional_memory(kind):
    figures = dict(needed()[kind])
    size = figures.pop("size")
    assert size > 20e6
    for operation, figure in figures.items():
        assert figure / size < MOST[operation], operation
