"""OpenAI Baselines' ReplayBuffer and PrioritizedReplayBuffer, and the many classes like them: a tuple of columns."""

OPTIONAL = ("alpha", "beta", "seed", "n_step", "gamma")
RETURNS = {
    "sample": "columns",
    "sample__not_done": "not_done",
    "sample__dict": "dict",
    "sample__object": "object",
    "sample__rows": "rows",
}
COLUMNS = ("obs", "act", "rew", "next_obs", "done", "weights", "indexes")
KEYS = {"obs": "obs", "act": "act", "rew": "rew", "next_obs": "next_obs", "done": "done"}


def make(capacity, alpha, seed, n_step, gamma):
    return Buffer(size=capacity, alpha=alpha, seed=seed, n_step=n_step, gamma=gamma)


def make__dim(capacity, alpha, seed, n_step, gamma):
    return Buffer(obs_dim=4, size=capacity, alpha=alpha, seed=seed, n_step=n_step, gamma=gamma)


def make__shape(capacity, obs_shape, alpha, seed, n_step, gamma):
    return Buffer(obs_shape=obs_shape, size=capacity, alpha=alpha, seed=seed, n_step=n_step, gamma=gamma)


def add(buffer, obs, act, rew, next_obs, done):
    buffer.add(obs_t=obs, action=act, reward=rew, obs_tp1=next_obs, done=done)


def add__both(buffer, obs, act, rew, next_obs, terminated, truncated):
    buffer.add(obs=obs, action=act, reward=rew, next_obs=next_obs, terminated=terminated, truncated=truncated)


def sample(buffer, n, beta=0.4):
    return dict(zip(COLUMNS, buffer.sample(batch_size=n, beta=beta)))


def sample__not_done(buffer, n, beta=0.4):
    batch = dict(zip(COLUMNS, buffer.sample(batch_size=n, beta=beta)))
    return batch | {"done": 1 - batch["not_done"]}


def sample__dict(buffer, n, beta=0.4):
    batch = buffer.sample(batch_size=n, beta=beta)
    return {name: batch[key] for name, key in KEYS.items()}


def sample__object(buffer, n, beta=0.4):
    batch = buffer.sample(batch_size=n, beta=beta)
    return {name: getattr(batch, key) for name, key in KEYS.items()}


def sample__rows(buffer, n, beta=0.4):
    return dict(zip(COLUMNS, zip(*buffer.sample(batch_size=n, beta=beta))))


def update(buffer, indexes, priorities):
    buffer.update_priorities(idxes=indexes, priorities=priorities)


def size(buffer):
    return len(buffer)
