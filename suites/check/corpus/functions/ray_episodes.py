"""RLlib: PrioritizedEpisodeReplayBuffer, to which each step is added as a chunk of its episode."""

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer

#: A ring in which the oldest episode is still being played while it is evicted.
WAYS = {"a ring of 12 steps": {"ring": 12}}


def make(capacity, alpha, ring=None):
    buffer = PrioritizedEpisodeReplayBuffer(capacity=ring or capacity, alpha=alpha)
    buffer.running = {}  # environment -> its episode
    return buffer


def add(buffer, obs, act, rew, next_obs, terminated, truncated, env):
    episode = buffer.running.pop(env, None)
    if episode is None:
        episode = SingleAgentEpisode()
        episode.add_env_reset(observation=obs)
    episode.add_env_step(next_obs, act, rew, terminated=terminated, truncated=truncated)
    buffer.add([episode])
    if not terminated and not truncated:
        buffer.running[env] = episode.cut()


def sample(buffer, size, beta=0.4):
    steps = buffer.sample(num_items=size, n_step=1, beta=beta)
    names = {"obs": [e.get_observations(0) for e in steps], "act": [e.get_actions(0) for e in steps]}
    names |= {"rew": [e.get_rewards(0) for e in steps], "next_obs": [e.get_observations(-1) for e in steps]}
    weights = [e.get_extra_model_outputs("weights", 0) for e in steps]
    return names | {"done": [e.is_terminated for e in steps], "weights": weights, "indexes": list(range(size))}


def update(buffer, indexes, priorities):  # those of the last batch, in its order
    buffer.update_priorities(np.asarray(priorities))


def size(buffer):
    return buffer.get_num_timesteps()
