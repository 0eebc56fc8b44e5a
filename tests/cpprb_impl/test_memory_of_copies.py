"""Copies, pickles and files of large buffers need little memory in addition to the buffers themselves."""

from __future__ import annotations

import functools
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

import cpprb_impl
from tests.peak_memory import bytes_needed

SCRIPT = """
from cpprb_impl import HindsightReplayBuffer, MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer
from cpprb_impl import ReplayBuffer, ReverseReplayBuffer, SelectiveReplayBuffer

ROWS, FILM = 1 << 12, 256
OBS = {"obs": {"shape": 1000}}
IMAGES = {"obs": {"shape": (4, 60, 60), "dtype": np.uint8}, "done": {}}
BOTH = {"obs": {"shape": 1000}, "next_obs": {"shape": 1000}}
SMALL = {"obs": {"shape": 20}, "act": {}, "rew": {}, "done": {}}
ONCE = {"next_of": "obs", "stack_compress": {"obs": 0}}

def no_reward(states, actions, goals):
    return np.zeros(len(states))

KINDS = {
    "plain": lambda: ReplayBuffer(ROWS, BOTH),
    "dict": lambda: ReplayBuffer(ROWS, {f"part {n}": {"shape": 100 * n} for n in range(1, 7)}),
    "prioritized": lambda: PrioritizedReplayBuffer(ROWS, BOTH),
    "n-step": lambda: ReplayBuffer(
        ROWS, {**OBS, "rew": {}, "done": {}}, next_of="obs", Nstep={"size": 3, "rew": "rew", "next": "next_obs"}
    ),
    "small rows": lambda: PrioritizedReplayBuffer(64 * ROWS, SMALL, next_of="obs"),
    "next once": lambda: ReplayBuffer(2 * ROWS, OBS, next_of="obs"),
    "frames once": lambda: ReplayBuffer(2 * ROWS, IMAGES, **ONCE),
    "frames of 8 environments": lambda: PrioritizedReplayBuffer(2 * ROWS, IMAGES, **ONCE, n_envs=8),
    "compressed": lambda: ReplayBuffer(2 * ROWS, IMAGES, **ONCE, compress="lz4"),
    "objects": lambda: ReplayBuffer(ROWS * 3 // 2, {**BOTH, "info": {"dtype": object}}),
    "reverse": lambda: ReverseReplayBuffer(ROWS, BOTH),
    "hindsight": lambda: HindsightReplayBuffer(
        ROWS * 3 // 4, {**BOTH, "act": {}}, FILM, no_reward, goal_shape=1000
    ),
    "selective": lambda: SelectiveReplayBuffer(FILM, 500, Nepisodes=ROWS // FILM),
    "shared": lambda: MPReplayBuffer(ROWS, BOTH),
    "shared small rows": lambda: MPPrioritizedReplayBuffer(80 * ROWS, {**SMALL, "obs": {"shape": 40}}),
}

def steps(name, kinds, n_envs):
    # FILM consecutive steps of each environment, of which the last leads to the first.
    random, rows = np.random.default_rng(0), FILM * n_envs
    film = random.integers(0, 256, (FILM, n_envs, 60, 60), dtype=np.uint8)
    if name == "compressed":
        film[..., 45:] = 0
    values = {}
    for field, shape in kinds.items():
        of = field.removeprefix("next_")
        if field == "info":
            values[field] = np.arange(rows).astype(object)
        elif of in values:
            values[field] = np.roll(values[of], -n_envs, axis=0)
        elif shape == (4, 60, 60):
            ahead = np.arange(FILM)[:, None] + np.arange(4)
            values[field] = np.moveaxis(film[ahead % FILM], 1, 2).reshape(rows, *shape)
        else:
            values[field] = random.random((rows, *shape), np.float32) * (field != "done")
    return values

def filled(name):
    buffer = KINDS[name]()
    ring = getattr(buffer, "rb", buffer)
    n_envs = getattr(ring, "n_envs", 1)
    if name == "selective":
        kinds = {"obs": (500,), "act": (1,), "rew": (1,), "next_obs": (500,), "done": (1,)}
    else:
        kinds = {field: column.shape[1:] for field, column in ring.get_all_transitions().items()}
    if name == "hindsight":
        kinds = {field: kinds[field] for field in ("obs", "next_obs", "act")}
    values = steps(name, kinds, n_envs)
    stored = -1
    while stored < ring.get_stored_size():
        stored = ring.get_stored_size()
        buffer.add(**values)
        if name == "hindsight":
            buffer.on_episode_end(np.zeros(1000))
        elif name == "selective":
            buffer.add(**{name: value[-1:] for name, value in values.items()} | {"done": 1})
    return buffer

def pickled(buffer, protocol):
    with open(path, "wb") as file:
        pickle.dump(buffer, file, protocol)

def unpickled():
    with open(path, "rb") as file:
        return pickle.load(file)

def save_and_load_a_row():
    # The first save and load import modules and touch their code, which does not grow with the buffer.
    buffer = PrioritizedReplayBuffer(2, SMALL, next_of="obs")
    buffer.add(obs=np.zeros(20), act=0, rew=0, done=0, next_obs=np.ones(20))
    buffer.save_transitions(path)
    PrioritizedReplayBuffer(2, SMALL, next_of="obs").load_transitions(path)

def figures(name):
    save_and_load_a_row()
    before = in_use()
    buffer = filled(name)
    size = in_use() - before
    needed = {"size": min(size, buffer.nbytes) if hasattr(buffer, "nbytes") else size}
    if not name.startswith("shared"):
        needed["deepcopy"], _ = rise(lambda: copy.deepcopy(buffer))
        for protocol in (4, 5):
            needed[f"pickle, protocol {protocol}"], _ = rise(lambda: pickled(buffer, protocol))
            needed[f"unpickle, protocol {protocol}"], _ = rise(unpickled)
    if hasattr(buffer, "save_transitions") and name != "objects":
        needed["save"], _ = rise(lambda: buffer.save_transitions(path))
        other = KINDS[name]()
        needed["load"], _ = rise(lambda: other.load_transitions(path))
        if name.startswith("shared"):
            buffer.close()
            other.close()
    return needed

path, *names = sys.argv[1:]
print(json.dumps({name: in_child(lambda: figures(name)) for name in names}))
"""
COPIED = ("plain", "dict", "prioritized", "n-step", "small rows", "next once", "frames once",
          "frames of 8 environments", "compressed", "objects", "reverse", "hindsight", "selective")  # fmt: skip
SHARED = ("shared", "shared small rows")
STREAMED = {"pickle, protocol 4", "pickle, protocol 5", "save"}  # all other operations make a buffer
COPIES = {"deepcopy", *(f"{way}, protocol {number}" for way in ("pickle", "unpickle") for number in (4, 5))}
OPERATIONS = {
    kind: (COPIES if kind in COPIED else set())
    | (set() if kind in ("objects", "hindsight", "selective") else {"save", "load"})
    for kind in (*COPIED, *SHARED)
}


@functools.cache
def needed() -> dict[str, dict[str, float]]:
    """Return the additional memory of each operation, relative to the size of the buffer, by kind of buffer."""
    found: dict[str, dict[str, float]] = {}
    kinds = (*COPIED, *SHARED)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(bytes_needed, SCRIPT, f"{folder}/{half}.npz", *kinds[half::2]) for half in (0, 1)]
        for kind, figures in (item for run in runs for item in run.result().items()):
            size = figures.pop("size")
            assert size > 20e6, kind
            found[kind] = {operation: figure / size for operation, figure in figures.items()}
    return found


def test_every_buffer_is_measured():
    buffers = [name for name in cpprb_impl.__all__ if name.endswith("Buffer")]
    assert len(buffers) > 5
    for name in buffers:
        assert f": {name}(" in SCRIPT


# One test covers all operations, since several workers may run the tests of one file, and each would measure again.
@pytest.mark.parametrize("kind", [*COPIED, *SHARED])
def test_copies_pickles_and_files_need_little_additional_memory(kind):
    figures = needed()[kind]
    assert figures.keys() == OPERATIONS[kind]
    for operation, figure in figures.items():
        assert figure < (0.25 if operation in STREAMED else 1.25), operation
