"""RLlib's EpisodeReplayBuffer and PrioritizedEpisodeReplayBuffer: episodes, which are passed step by step."""

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

OPTIONAL = ("alpha", "beta", "sample_episodes")
EVICTS_EPISODES = True


def make(capacity, alpha):
    buffer = Buffer(capacity=capacity, alpha=alpha)
    buffer.episode = None  # that goes on
    return buffer


def add(buffer, obs, act, rew, next_obs, terminated, truncated):
    if buffer.episode is None or not np.array_equal(buffer.episode.get_observations(-1), obs):
        buffer.episode = SingleAgentEpisode(observations=[obs])
    buffer.episode.add_env_step(next_obs, act, rew, terminated=terminated, truncated=truncated)
    buffer.add(episodes=[buffer.episode])
    buffer.episode = None if buffer.episode.is_done else buffer.episode.cut()


def columns(rows):
    batch = {"obs": [row.get_observations(0) for row in rows], "act": [row.get_actions(0) for row in rows]}
    batch |= {"rew": [row.get_rewards(0) for row in rows], "next_obs": [row.get_observations(-1) for row in rows]}
    return batch | {"done": [row.is_terminated for row in rows]}


def sample(buffer, n):
    return columns(buffer.sample(num_items=n, n_step=1, sample_episodes=True))


def sample__prioritized(buffer, n, beta=0.4):
    rows = buffer.sample(num_items=n, n_step=1, beta=beta)
    weights = [row.get_extra_model_outputs("weights", 0) for row in rows]
    return columns(rows) | {"weights": weights, "indexes": list(buffer._last_sampled_indices)}


def update(buffer, indexes, priorities):
    buffer.update_priorities(priorities=np.asarray(priorities))


def size(buffer):
    return buffer.get_num_timesteps()
