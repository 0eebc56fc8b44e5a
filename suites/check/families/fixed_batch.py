"""Classes whose batch size is an argument of the constructor, such as Udacity's ReplayBuffer: a tuple of columns."""

OPTIONAL = ("action_size", "seed", "device")
RETURNS = {"sample": "columns", "sample__rows": "rows"}
COLUMNS = ("obs", "act", "rew", "next_obs", "done")


def make(capacity, seed):
    return Buffer(action_size=5, buffer_size=capacity, batch_size=8, seed=seed, device="cpu")


def add(buffer, obs, act, rew, next_obs, done):
    buffer.add(state=obs, action=act, reward=rew, next_state=next_obs, done=done)


def sample(buffer, n):
    buffer.batch_size = n
    return dict(zip(COLUMNS, buffer.sample()))


def sample__rows(buffer, n):
    buffer.batch_size = n
    return dict(zip(COLUMNS, zip(*buffer.sample())))


def size(buffer):
    return len(buffer)
