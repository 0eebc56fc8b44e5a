"""Stable-Baselines3: HerReplayBuffer. `cut` is what loading a buffer calls with truncate_last_traj."""

import numpy as np
from stubs import box, mock

mock("gymnasium.wrappers.monitoring", "gymnasium.wrappers.monitoring.video_recorder")
from stable_baselines3.common.buffers import spaces  # noqa: E402
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer  # noqa: E402


class Env:
    """Computes the rewards of goals that were drawn."""

    def env_method(self, name, achieved_goal, desired_goal, infos, indices):
        return [np.zeros(len(achieved_goal))]


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype):
    act, goal = box(spaces, act_shape, act_dtype) if act_shape else spaces.Discrete(5), box(spaces, (1,), "float32")
    space = spaces.Dict({"observation": box(spaces, obs_shape, obs_dtype), "achieved_goal": goal, "desired_goal": goal})
    return HerReplayBuffer(capacity, space, act, env=Env(), device="cpu")


GOAL = np.zeros(1, "float32")


def add(
    buffer, obs, act, rew, next_obs, done, truncated, achieved_goal=GOAL, next_achieved_goal=GOAL, desired_goal=GOAL
):
    goal = {"desired_goal": desired_goal[None]}
    now = {"observation": obs[None], "achieved_goal": achieved_goal[None], **goal}
    after = {"observation": next_obs[None], "achieved_goal": next_achieved_goal[None], **goal}
    infos = [{"TimeLimit.truncated": True} if truncated else {}]
    buffer.add(now, after, np.array([act]), np.array([rew]), np.array([done]), infos)


def cut(buffer):
    buffer.truncate_last_trajectory()


def sample(buffer, size):
    if (buffer.ep_length > 0).any():
        batch = buffer.sample(size)
    else:  # it refuses to draw before an episode has ended
        batch = buffer._get_real_samples(np.arange(size) % buffer.pos, np.zeros(size, int))
    obs, next_obs = batch.observations, batch.next_observations
    names = {"obs": obs["observation"], "act": batch.actions, "rew": batch.rewards, "done": batch.dones}
    return names | {"next_obs": next_obs["observation"], "desired_goal": obs["desired_goal"]}
