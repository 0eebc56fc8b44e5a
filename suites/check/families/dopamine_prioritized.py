"""Dopamine's OutOfGraphPrioritizedReplayBuffer: frames, stacked when they are drawn, by priorities without alpha."""

OPTIONAL = ("episode_end",)
NEEDS = ("update",)
ALPHA = 1.0


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, stack, n_step, gamma):
    return Buffer(
        observation_shape=obs_shape,
        stack_size=stack,
        replay_capacity=capacity,
        batch_size=32,
        update_horizon=n_step,
        gamma=gamma,
        observation_dtype=obs_dtype,
        action_shape=act_shape,
        action_dtype=act_dtype,
    )


def add(buffer, obs, act, rew, terminated, truncated, priority=None):
    priority = buffer.sum_tree.max_recorded_priority if priority is None else priority
    end = terminated or truncated
    buffer.add(observation=obs, action=act, reward=rew, terminal=terminated, priority=priority, episode_end=end)


def sample(buffer, n):
    names = [each.name for each in buffer.get_transition_elements(n)]
    batch = dict(zip(names, buffer.sample_transition_batch(batch_size=n)))
    frames = {"obs": batch["state"], "next_obs": batch["next_state"]}
    frames = {name: x if x.shape[-1] > 1 else x[..., 0] for name, x in frames.items()}
    columns = {"act": batch["action"], "rew": batch["reward"], "done": batch["terminal"]}
    return frames | columns | {"indexes": batch["indices"]}


def update(buffer, indexes, priorities):
    buffer.set_priority(indices=indexes, priorities=priorities)


def size(buffer):
    return min(int(buffer.add_count), buffer._replay_capacity)
