"""The many classes that store whatever step they are passed, as one tuple."""

OPTIONAL = ("seed",)
RETURNS = {"sample": "rows", "sample__columns": "columns"}
COLUMNS = ("obs", "act", "rew", "next_obs", "done")


def make(capacity, seed):
    return Buffer(capacity=capacity, seed=seed)


def add(buffer, obs, act, rew, next_obs, done):
    buffer.push(transition=(obs, act, rew, next_obs, done))


def sample(buffer, n):
    return dict(zip(COLUMNS, zip(*buffer.sample(batch_size=n))))


def sample__columns(buffer, n):
    return dict(zip(COLUMNS, buffer.sample(batch_size=n)))


def size(buffer):
    return len(buffer)
