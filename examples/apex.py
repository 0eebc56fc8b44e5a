"""A minimal Ape-X: explorers step CartPole and add to one shared buffer, from which a learner samples.

Run it with `.venv/bin/python examples/apex.py` after `make setup`, or wherever cpprb_impl and gymnasium are
installed. The learner uses random numbers as TD errors; replace them with those of your network where marked.
"""

from __future__ import annotations

import multiprocessing
import time

import gymnasium
import numpy as np

from cpprb_impl import MPPrioritizedReplayBuffer, ReplayBuffer

EXPLORERS, LOCAL_ROWS, SECONDS = 2, 100, 5
FIELDS = {
    "obs": {"shape": 4},
    "act": {"dtype": np.int64},
    "rew": {},
    "next_obs": {"shape": 4},
    "done": {"dtype": bool},
}


def explore(shared: MPPrioritizedReplayBuffer, seed: int) -> None:
    env = gymnasium.make("CartPole-v1")
    local = ReplayBuffer(LOCAL_ROWS, FIELDS)
    obs, _ = env.reset(seed=seed)
    env.action_space.seed(seed)
    while True:
        act = env.action_space.sample()  # your policy
        next_obs, rew, terminated, truncated, _ = env.step(act)
        local.add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=terminated)
        obs = env.reset()[0] if terminated or truncated else next_obs
        if local.get_stored_size() == LOCAL_ROWS:
            shared.add(**local.get_all_transitions())  # priorities=... once you have TD errors here
            local.clear()


def main() -> None:
    context = multiprocessing.get_context("spawn")
    shared = MPPrioritizedReplayBuffer(100_000, FIELDS)
    explorers = [context.Process(target=explore, args=(shared, i), daemon=True) for i in range(EXPLORERS)]
    for explorer in explorers:
        explorer.start()
    while shared.get_stored_size() < 1000:
        time.sleep(0.01)

    random, steps, until = np.random.default_rng(0), 0, time.monotonic() + SECONDS
    while time.monotonic() < until:
        batch = shared.sample(64, beta=0.4)
        td_errors = random.uniform(0, 1, 64)  # your network: |Q(obs, act) - target|, weighted by batch["weights"]
        shared.update_priorities(batch["indexes"], td_errors)
        steps += 1
    print(f"{steps} learner steps alongside {EXPLORERS} explorers; {shared.get_stored_size()} transitions are stored")

    for explorer in explorers:
        explorer.terminate()
        explorer.join()
    shared.close()


if __name__ == "__main__":
    main()
