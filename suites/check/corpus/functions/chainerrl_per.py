"""ChainerRL: PrioritizedReplayBuffer. Its weights are, by default, divided by the largest of the batch."""

from stubs import hollow, mock

mock("chainer", "chainer.functional", "chainer.links", "chainer.cuda", "gym", "cached_property", "fastcache")
hollow("chainerrl", "chainerrl.misc")
mock("chainerrl.misc.batch_states")
try:
    from chainerrl.replay_buffers.prioritized import PrioritizedReplayBuffer
except ImportError:  # until 0.7
    from chainerrl.replay_buffer import PrioritizedReplayBuffer

EPS, WEIGHTS_OVER = 0.01, "batch"


def make(capacity, alpha, beta):
    return PrioritizedReplayBuffer(capacity, alpha, beta, None, EPS, error_min=None, error_max=None)


def add(buffer, obs, act, rew, next_obs, done):
    buffer.append(obs, act, rew, next_obs, None, done)


def sample(buffer, size):
    rows = [row[0] for row in buffer.sample(size)]
    names = {"obs": "state", "act": "action", "rew": "reward", "next_obs": "next_state", "done": "is_state_terminal"}
    batch = {name: [row[theirs] for row in rows] for name, theirs in names.items()}
    return {**batch, "weights": [row["weight"] for row in rows], "indexes": list(range(size))}


def update(buffer, indexes, priorities):  # those of the last batch, in its order
    buffer.update_errors([float(each) for each in priorities])


def size(buffer):
    return len(buffer)
