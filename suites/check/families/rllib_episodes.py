"""RLlib's EpisodeReplayBuffer and PrioritizedEpisodeReplayBuffer: episodes, which are passed step by step."""

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

OPTIONAL = ("alpha", "beta", "sample_episodes")
EVICTS_EPISODES = True


def make(capacity, alpha):
    return Buffer(capacity=capacity, alpha=alpha)


def add(buffer, obs, act, rew, next_obs, terminated, truncated):
    episode = getattr(buffer, "episode", None)  # that goes on
    if episode is None or not np.array_equal(episode.get_observations(-1), obs):
        episode = SingleAgentEpisode(observations=[obs])
    episode.add_env_step(next_obs, act, rew, terminated=terminated, truncated=truncated)
    buffer.add(episodes=[episode])
    buffer.episode = None if episode.is_done else episode.cut()


def columns(rows):
    return {
        "obs": [row.get_observations(0) for row in rows],
        "act": [row.get_actions(0) for row in rows],
        "rew": [row.get_rewards(0) for row in rows],
        "next_obs": [row.get_observations(-1) for row in rows],
        "done": [row.is_terminated for row in rows],
    }


def sample(buffer, n):
    return columns(buffer.sample(num_items=n, n_step=1, sample_episodes=True))


def sample__prioritized(buffer, n, beta=0.4):
    rows = buffer.sample(num_items=n, n_step=1, beta=beta)
    weights = [row.get_extra_model_outputs("weights", 0) for row in rows]
    return columns(rows) | {"weights": weights, "indexes": list(buffer._last_sampled_indices)}


def update(buffer, indexes, priorities):
    if min(indexes) < 0 or max(indexes) >= buffer._sum_segment.capacity:
        raise IndexError("indexes cannot be passed")
    buffer._last_sampled_indices = list(indexes)  # an update applies to the last batch, and only once
    buffer.update_priorities(priorities=np.asarray(priorities))


def size(buffer):
    return buffer.get_num_timesteps()
