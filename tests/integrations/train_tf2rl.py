"""Train an algorithm of tf2rl for a short time, with cpprb or with our buffer under its name.

    .peers/tf2rl/bin/python -m tests.integrations.train_tf2rl SAC --buffer cpprb_impl

Prints a digest of the weights, unless it trains with Ape-X.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import sys
import tempfile
import types
from typing import Any

import numpy as np

STEPS, WARMUP, BATCH = 400, 100, 32
WITH_ERRORS = "SAC with TD errors"  # one error per transition, as prioritized replay needs
ENVS = {"DQN": "CartPole-v1", "DDPG": "Pendulum-v1", "SAC": "Pendulum-v1", WITH_ERRORS: "Pendulum-v1"}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("algorithm", choices=ENVS)
    parser.add_argument("--buffer", choices=["cpprb", "cpprb_impl"], required=True)
    parser.add_argument("--draws", choices=["cpprb's", "ours"], default="cpprb's")
    parser.add_argument("--prioritized", action="store_true")
    parser.add_argument("--apex", action="store_true", help="with explorers in processes of their own")
    return parser.parse_args()


def replace_cpprb(exact: bool) -> None:
    """Import our buffer as cpprb. With `exact`, the uniform buffer draws the same rows as cpprb's."""
    import cpprb_impl

    sys.modules["cpprb"] = cpprb_impl
    if not exact:
        return

    class ReplayBuffer(cpprb_impl.ReplayBuffer):
        def sample(self, batch_size: int) -> dict[str, np.ndarray]:
            return self._encode_sample(np.random.randint(0, self.get_stored_size(), batch_size))

    module = types.ModuleType("cpprb")
    module.__dict__.update(vars(cpprb_impl), ReplayBuffer=ReplayBuffer)
    sys.modules["cpprb"] = module


def make_env(name: str) -> Any:
    import gym

    env = gym.make(name)
    env.reset(seed=0)
    env.action_space.seed(0)
    return env


def make_policy(algorithm: str, env: Any, **options: Any) -> Any:
    from tf2rl.algos.ddpg import DDPG
    from tf2rl.algos.dqn import DQN
    from tf2rl.algos.sac import SAC

    class SACWithErrors(SAC):
        def compute_td_error(self, states: Any, actions: Any, next_states: Any, rewards: Any, dones: Any) -> Any:
            return super().compute_td_error(states, actions, next_states, rewards.ravel(), dones.ravel())

    common: dict[str, Any] = {"gpu": -1, "n_warmup": WARMUP, "batch_size": BATCH, "memory_capacity": 10_000, **options}
    continuous = {"max_action": 2.0, "actor_units": (32, 32), "critic_units": (32, 32)}
    shape = env.observation_space.shape
    if algorithm == "DQN":
        return DQN(shape, env.action_space.n, units=(32, 32), update_interval=1, **common)
    kind = {"DDPG": DDPG, "SAC": SAC, WITH_ERRORS: SACWithErrors}[algorithm]
    return kind(shape, env.action_space.high.size, **continuous, **common)


def train(options: argparse.Namespace) -> Any:
    from tf2rl.experiments.trainer import Trainer

    env = make_env(ENVS[options.algorithm])
    policy = make_policy(options.algorithm, env)
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            policy,
            env,
            {
                "max_steps": STEPS,
                "use_prioritized_rb": options.prioritized,
                "logdir": folder,
                "test_interval": STEPS + 1,
                "save_model_interval": STEPS + 1,
                "logging_level": "WARNING",
            },
        )()
    return policy


def train_apex(options: argparse.Namespace) -> None:
    from tf2rl.algos import apex

    np.int = int  # type: ignore[attr-defined]  # which tf2rl uses and NumPy 1.24 removed

    def get_weights(policy: Any) -> list[Any]:
        return [policy.q_func.get_weights(), policy.q_func_target.get_weights()]

    def set_weights(policy: Any, weights: list[Any]) -> None:
        policy.q_func.set_weights(weights[0])
        policy.q_func_target.set_weights(weights[1])

    def policy_of(env: Any, name: str, memory_capacity: int = 10_000, gpu: int = -1, noise_level: float = 0.3) -> Any:
        return make_policy(options.algorithm, env, name=name, epsilon=noise_level, epsilon_min=None)

    settings = apex.apex_argument().parse_args([])
    settings.n_training, settings.param_update_freq, settings.test_freq, settings.n_explorer = 60, 10, 30, 1
    settings.replay_buffer_size, settings.local_buffer_size, settings.logging_level = 2000, 50, "WARNING"
    settings.gpu_explorer = settings.gpu_learner = settings.gpu_evaluator = -1
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        apex.run(settings, lambda: make_env(ENVS[options.algorithm]), policy_of, get_weights, set_weights)
        os.chdir("/")
    assert not multiprocessing.active_children()


def main() -> None:
    options = parse()
    if options.buffer == "cpprb_impl":
        replace_cpprb(exact=options.draws == "cpprb's")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(0)
    tf.config.experimental.enable_op_determinism()
    if options.apex:
        train_apex(options)
        return
    policy = train(options)
    digest = hashlib.sha256()
    modules = [module for module in vars(policy).values() if isinstance(module, tf.Module)]
    for weights in (weight for module in modules for weight in getattr(module, "weights", [])):
        digest.update(weights.numpy().tobytes())
    print(digest.hexdigest())


if __name__ == "__main__":
    main()
