"""The ReplayMemory of PyTorch's DQN tutorial, and the many classes like it: a deque of namedtuples."""

OPTIONAL = ("seed", "done", "alpha", "beta", "n_step", "gamma")
RETURNS = {"sample": "rows", "sample__columns": "columns"}
COLUMNS = ("obs", "act", "next_obs", "rew")


def make(capacity, seed, n_step, gamma):
    return Buffer(capacity=capacity, seed=seed, n_step=n_step, gamma=gamma)


def add(buffer, obs, act, rew, next_obs, done):
    buffer.push(state=obs, action=act, reward=rew, next_state=next_obs, done=done)


def sample(buffer, n):
    return dict(zip(COLUMNS, zip(*buffer.sample(batch_size=n))))


def sample__columns(buffer, n):
    return dict(zip(COLUMNS, buffer.sample(batch_size=n)))


def size(buffer):
    return len(buffer)
