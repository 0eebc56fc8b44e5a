"""Dopamine's OutOfGraphReplayBuffer and its prioritized version: frames, stacked when they are drawn."""

OPTIONAL = ("episode_end", "update_horizon", "gamma", "action_shape", "action_dtype", "priority")
WAYS = {"stack_size": {"stack": 4}, "update_horizon": {"n_step": 3}}


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


def add(buffer, obs, act, rew, terminated, truncated):
    buffer.add(observation=obs, action=act, reward=rew, terminal=terminated, episode_end=terminated or truncated)


def sample(buffer, n):
    names = [each.name for each in buffer.get_transition_elements(n)]
    batch = dict(zip(names, buffer.sample_transition_batch(batch_size=n)))
    frames = {"obs": batch["state"], "next_obs": batch["next_state"]}
    frames = {name: x if x.shape[-1] > 1 else x[..., 0] for name, x in frames.items()}
    return frames | {"act": batch["action"], "rew": batch["reward"], "done": batch["terminal"]}


def size(buffer):
    return min(int(buffer.add_count), buffer._replay_capacity)
