"""A minimal Ape-X with Ray: explorers are actors, and the shared buffer is passed to them as an argument.

Run it with `.venv/bin/python examples/apex_ray.py` after `make setup`, or wherever cpprb_impl, gymnasium and ray are
installed. Explorers and learner must run on the machine that holds the buffer's memory: an actor that Ray places on
another machine gets an error that says so. The learner uses random numbers as TD errors; replace them with those of
your network where marked.
"""

from __future__ import annotations

import time

import gymnasium
import numpy as np
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cpprb_impl import MPPrioritizedReplayBuffer, ReplayBuffer

EXPLORERS, LOCAL_ROWS, SECONDS = 2, 100, 5
FIELDS = {
    "obs": {"shape": 4},
    "act": {"dtype": np.int64},
    "rew": {},
    "next_obs": {"shape": 4},
    "done": {"dtype": bool},
}


@ray.remote
class Explorer:
    def __init__(self, shared: MPPrioritizedReplayBuffer, seed: int) -> None:
        self.shared, self.local = shared, ReplayBuffer(LOCAL_ROWS, FIELDS)
        self.env = gymnasium.make("CartPole-v1")
        self.env.action_space.seed(seed)
        self.obs, _ = self.env.reset(seed=seed)

    def explore(self, seconds: float) -> int:
        """Step the environment and add transitions; return how many were added."""
        added, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            act = self.env.action_space.sample()  # your policy
            next_obs, rew, terminated, truncated, _ = self.env.step(act)
            self.local.add(obs=self.obs, act=act, rew=rew, next_obs=next_obs, done=terminated)
            self.obs = self.env.reset()[0] if terminated or truncated else next_obs
            if self.local.get_stored_size() == LOCAL_ROWS:
                self.shared.add(**self.local.get_all_transitions())  # priorities=... once you have TD errors here
                self.local.clear()
                added += LOCAL_ROWS
        return added


def main() -> None:
    ray.init(num_cpus=EXPLORERS, include_dashboard=False)
    shared = MPPrioritizedReplayBuffer(100_000, FIELDS)
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    explorers = [Explorer.options(scheduling_strategy=here).remote(shared, seed) for seed in range(EXPLORERS)]
    exploring = [explorer.explore.remote(SECONDS) for explorer in explorers]

    random, steps, running = np.random.default_rng(0), 0, exploring
    while running:
        _, running = ray.wait(running, num_returns=len(running), timeout=0)
        if shared.get_stored_size() < 1000:
            time.sleep(0.01)
            continue
        batch = shared.sample(64, beta=0.4)
        td_errors = random.uniform(0, 1, 64)  # your network: |Q(obs, act) - target|, weighted by batch["weights"]
        shared.update_priorities(batch["indexes"], td_errors)
        steps += 1
    print(f"{steps} learner steps alongside {EXPLORERS} explorers, which added {sum(ray.get(exploring))} transitions")
    shared.close()


if __name__ == "__main__":
    main()
