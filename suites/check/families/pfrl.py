"""PFRL's and ChainerRL's ReplayBuffer and PrioritizedReplayBuffer: lists of n steps, which are dicts."""

OPTIONAL = ("alpha", "beta0", "betasteps", "error_min", "error_max", "num_steps", "env_id", "eps")
EPS, WITHHOLDS = 0.01, True


def make(capacity, alpha, beta, n_step):
    return Buffer(
        capacity=capacity,
        num_steps=n_step,
        alpha=alpha,
        beta0=beta,
        betasteps=None,
        eps=0.01,
        error_min=None,
        error_max=None,
    )


def add(buffer, obs, act, rew, next_obs, terminated, truncated, env):
    buffer.append(state=obs, action=act, reward=rew, next_state=next_obs, is_state_terminal=terminated, env_id=env)
    if terminated or truncated:
        buffer.stop_current_episode(env_id=env)


def add__alone(buffer, obs, act, rew, next_obs, terminated):
    buffer.append(state=obs, action=act, reward=rew, next_state=next_obs, is_state_terminal=terminated)


def columns(rows):
    return {
        "obs": [row[0]["state"] for row in rows],
        "act": [row[0]["action"] for row in rows],
        "rew": [sum(0.99**i * step["reward"] for i, step in enumerate(row)) for row in rows],
        "next_obs": [row[-1]["next_state"] for row in rows],  # of the last of n steps
        "done": [row[-1]["is_state_terminal"] for row in rows],
        "discount": [0.99 ** len(row) for row in rows],
    }


def sample(buffer, n):
    return columns(buffer.sample(num_experiences=n))


def sample__prioritized(buffer, n):
    rows = buffer.sample(n=n)
    weights = [row[0]["weight"] for row in rows]
    return columns(rows) | {"weights": weights, "indexes": buffer.memory.sampled_indices}


def update(buffer, indexes, priorities):
    buffer.update_errors(errors=list(priorities))


def size(buffer):
    return len(buffer)


def save(buffer, path):
    buffer.save(path)


def load(buffer, path):
    buffer.load(path)
