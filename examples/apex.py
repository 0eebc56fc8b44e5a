"""Ape-X (Horgan et al. 2018) in one file: explorers fill a shared prioritized buffer, and a learner trains a DQN.

Install cpprb_impl, gymnasium and torch, and run it: it solves CartPole-v1 in a few minutes. The learner
sends weights to the explorers through a second, tiny shared buffer. `make apex` runs a complete program with
evaluation, checkpoints and logs.
"""

from __future__ import annotations

import multiprocessing
import sys
import time

import gymnasium
import numpy as np
import torch
from torch import nn

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, ReplayBuffer

ENV, EXPLORERS, LOCAL_ROWS, GAMMA, N_STEPS = "CartPole-v1", 3, 50, 0.99, 3
FIELDS = {
    "obs": {"shape": 4},
    "act": {"dtype": np.int64},
    "rew": {},
    "next_obs": {"shape": 4},
    "done": {},
}
NSTEP = {"size": N_STEPS, "gamma": GAMMA, "rew": "rew", "next": "next_obs"}


def make_network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))


def flat(network: nn.Module) -> np.ndarray:
    return nn.utils.parameters_to_vector(network.parameters()).detach().numpy()


def td_errors(network: nn.Module, target: nn.Module, batch: dict[str, np.ndarray]) -> torch.Tensor:
    """Double DQN: `network` chooses the next action, and `target` values it."""
    obs, act, rew, next_obs, done = (torch.from_numpy(batch[key]) for key in FIELDS)
    with torch.no_grad():
        following = target(next_obs).gather(1, network(next_obs).argmax(1, keepdim=True))
    return (rew + GAMMA**N_STEPS * (1 - done) * following - network(obs).gather(1, act)).flatten()


def explore(
    shared: MPPrioritizedReplayBuffer,
    weights: MPReplayBuffer,
    number: int,
    explorers: int = EXPLORERS,
    report: bool = True,
) -> None:
    torch.set_num_threads(1)
    random, env, network = np.random.default_rng(number), gymnasium.make(ENV), make_network()
    epsilon = 0.4 ** (1 + 7 * number / max(1, explorers - 1))
    local = ReplayBuffer(1_000, FIELDS, Nstep=NSTEP)  # an episode has at most 500 steps
    obs, _ = env.reset(seed=number)
    total = 0.0
    while True:
        with torch.no_grad():
            greedy = int(network(torch.from_numpy(obs)).argmax())
        act = int(random.integers(2)) if random.random() < epsilon else greedy
        next_obs, rew, terminated, truncated, _ = env.step(act)
        local.add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=terminated)
        obs, total = next_obs, total + float(rew)
        if not (terminated or truncated):
            continue
        if report and number == explorers - 1:
            print(f"return {total:.0f} with epsilon {epsilon:.4f}", flush=True)
        obs, total = env.reset()[0], 0.0
        local.on_episode_end()  # completes the pending n-step transitions
        if local.get_stored_size() >= LOCAL_ROWS:
            rows = local.get_all_transitions()
            with torch.no_grad():
                shared.add(**rows, priorities=td_errors(network, network, rows).abs().numpy())
            local.clear()
            newest = torch.from_numpy(weights.sample(1)["flat"][0])
            nn.utils.vector_to_parameters(newest, network.parameters())


def make_buffers() -> tuple[MPPrioritizedReplayBuffer, MPReplayBuffer]:
    """Return the buffer of transitions, and the one that holds the newest weights."""
    weights = MPReplayBuffer(1, {"flat": {"shape": flat(make_network()).size}})
    weights.add(flat=flat(make_network()))
    return MPPrioritizedReplayBuffer(100_000, FIELDS), weights


def learn(shared: MPPrioritizedReplayBuffer, weights: MPReplayBuffer, seconds: float) -> int:
    """Learn for this long; return the number of steps."""
    torch.set_num_threads(1)
    network, target = make_network(), make_network()
    optimizer, steps = torch.optim.Adam(network.parameters(), lr=5e-4), 0
    while shared.get_stored_size() < 1000:
        time.sleep(0.01)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        batch = shared.sample(128, beta=0.4)
        errors = td_errors(network, target, batch)
        losses = nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none")
        optimizer.zero_grad()
        (torch.from_numpy(batch["weights"]) * losses).mean().backward()
        optimizer.step()
        shared.update_priorities(batch["indexes"], errors.detach().abs().numpy())
        steps += 1
        if steps % 25 == 0:
            weights.add(flat=flat(network))
        if steps % 500 == 0:
            target.load_state_dict(network.state_dict())
    return steps


def main(seconds: float) -> None:
    shared, weights = make_buffers()
    context = multiprocessing.get_context("spawn")
    explorers = [context.Process(target=explore, args=(shared, weights, i), daemon=True) for i in range(EXPLORERS)]
    for explorer in explorers:
        explorer.start()
    steps = learn(shared, weights, seconds)
    print(f"{steps} learner steps alongside {EXPLORERS} explorers; {shared.get_stored_size()} transitions are stored")
    for explorer in explorers:
        explorer.terminate()
        explorer.join()
    shared.close()
    weights.close()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 120)
