"""`make atari-million`: 10^6 steps of Pong in the replay buffer of Stable-Baselines3's DQN, with frames stored once.

DQN plays with random actions; nothing is learned. Episodes end at a time limit.
The buffer must need at most the given bytes per step, store each step, and record which steps ended by the time limit.
The time of a sample is only printed, since it depends on the machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import ale_py
import gymnasium
import psutil
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

from cpprb_impl import sb3

ENVS, SAMPLES = 4, 2_000
LIMIT = 3_000  # frames per episode; a step consists of four
MOST_BYTES = {None: 7_500, "lz4": 1_200}  # per step of the environment


def fill(steps: int, compress: str | None) -> tuple[Any, int, int]:
    """Return the buffer, the number of steps that ended by the time limit, and the growth of the process in bytes."""
    gymnasium.register_envs(ale_py)
    limit = {"max_num_frames_per_episode": LIMIT}
    env = make_atari_env("PongNoFrameskip-v4", n_envs=ENVS, seed=0, env_kwargs=limit, vec_env_cls=SubprocVecEnv)
    model = DQN(
        "CnnPolicy",
        VecFrameStack(env, 4),
        buffer_size=steps,
        learning_starts=2 * steps,
        device="cpu",
        seed=0,
        replay_buffer_class=sb3.ReplayBuffer,
        replay_buffer_kwargs={"compress": compress},
        optimize_memory_usage=True,
    )
    timeouts, process = 0, psutil.Process()

    def count(names: dict[str, Any], _globals: dict[str, Any]) -> bool:
        nonlocal timeouts
        timeouts += sum(bool(info.get("TimeLimit.truncated")) for info in names["infos"])
        return True

    before = process.memory_info().rss
    model.learn(steps, callback=count, progress_bar=False)
    env.close()
    return model.replay_buffer, timeouts, process.memory_info().rss - before


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--compress", choices=["lz4"])
    options = parser.parse_args()
    buffer, timeouts, grown = fill(options.steps, options.compress)
    took = []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        buffer.sample(32)
        took.append(time.perf_counter() - began)
    stored, per_step = buffer.size() * ENVS, buffer.nbytes / options.steps
    print(
        f"compress={options.compress}: {stored:,} steps, {timeouts:,} time limits; {per_step:,.0f} bytes per step "
        f"(the process grew by {grown / options.steps:,.0f}); sample(32) takes {1e6 * statistics.median(took):,.0f} us"
    )
    assert stored == options.steps, f"the buffer holds {stored:,} steps"
    assert timeouts > 0, "no episode ended by the time limit"
    assert buffer.timeouts.sum() == timeouts, f"the buffer knows {buffer.timeouts.sum():,} time limits"
    assert per_step <= MOST_BYTES[options.compress], "too many bytes per step"
    return 0


if __name__ == "__main__":
    sys.exit(main())
