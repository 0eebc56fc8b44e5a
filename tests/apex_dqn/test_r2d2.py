"""R2D2 as a program: its learner agrees with a step-by-step computation, and it learns what only memory can."""

from __future__ import annotations

import copy
import itertools
import os
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from suites.r2d2 import explorer, replay, train
from suites.r2d2.learner import AGENTS, Agent, SequenceLearner, SequenceNetwork
from suites.r2d2.task import ACTIONS, BEST, OBS, Recall

SMALL = Agent(burn_in=3, size=6, units=8, n=3, gamma=0.9)
VARIANTS = {
    "R2D2": SMALL,
    "without burn-in": replace(SMALL, burn_in=0, size=9),
    "without the first steps": replace(SMALL, from_start=False),
    "feed-forward": replace(SMALL, memory=False),
}
STEPS = SMALL.burn_in + SMALL.size
LENGTHS = (9, 9, 7, 4)  # of the four sequences; the last two are padded after the end of their episode
STARTS = (True, False, True, False)  # whether they begin with their episode


@pytest.fixture
def batch():
    random = torch.Generator().manual_seed(0)
    mask = torch.arange(STEPS) < torch.tensor(LENGTHS)[:, None]
    obs = torch.randn(4, STEPS + 1, OBS, generator=random)
    is_first = torch.zeros(4, STEPS, dtype=torch.bool)
    is_first[:, 0] = torch.tensor(STARTS)
    done = torch.zeros(4, STEPS, dtype=torch.bool)
    for sequence, length in enumerate(LENGTHS):
        done[sequence, length - 1] = length < STEPS
    return {
        "obs": obs[:, :-1] * mask[:, :, None],
        "next_obs": obs[:, 1:] * mask[:, :, None],
        "act": torch.randint(ACTIONS, (4, STEPS), generator=random) * mask,
        "rew": torch.randn(4, STEPS, generator=random) * mask,
        "done": done,
        "mask": mask,
        "is_first": is_first,
        "state": torch.randn(4, 2 * SMALL.units, generator=random) * ~is_first[:, :1],
        "weights": torch.rand(4, generator=random),
    }


@pytest.fixture(params=VARIANTS)
def learner(request):
    torch.manual_seed(1)
    made = SequenceLearner(VARIANTS[request.param])
    torch.manual_seed(2)
    made.target = SequenceNetwork(made.agent)  # different weights, so that use of the wrong network would show
    return made


def unrolled(network: SequenceNetwork, obs: torch.Tensor, state: torch.Tensor) -> np.ndarray:
    """Return the action values of one sequence, computed one step at a time, (steps, actions)."""
    values = []
    for each in obs:
        value, state = network(each.reshape(1, 1, OBS), state)
        values.append(value.flatten())
    return torch.stack(values).detach().numpy()


def expected_errors(learner: SequenceLearner, batch: dict[str, torch.Tensor]) -> np.ndarray:
    agent, errors = learner.agent, np.zeros((4, STEPS))
    for sequence, length in enumerate(LENGTHS):
        of = {name: column[sequence] for name, column in batch.items()}
        obs = torch.cat([of["obs"][:length], of["next_obs"][length - 1 : length]])
        online, target = (unrolled(each, obs, of["state"][None]) for each in (learner.network, learner.target))
        begin = 0 if agent.from_start and STARTS[sequence] else agent.burn_in
        for step in range(begin, length):
            last = min(step + agent.n, length)
            goal = sum(agent.gamma ** (i - step) * float(of["rew"][i]) for i in range(step, last))
            if not of["done"][last - 1]:
                goal += agent.gamma ** (last - step) * target[last, online[last].argmax()]
            errors[sequence, step] = goal - online[step, of["act"][step]]
    return errors


def test_errors_are_those_of_a_step_by_step_computation(learner, batch):
    assert learner.errors(batch).detach().numpy() == pytest.approx(expected_errors(learner, batch), abs=1e-5)


def test_padded_steps_change_nothing(learner, batch):
    expected = learner.errors(batch)
    for name in ("obs", "next_obs", "rew"):
        batch[name][~batch["mask"]] = 7.0
    assert torch.equal(learner.errors(batch), expected)


def test_only_an_agent_with_memory_uses_the_stored_state(learner, batch):
    expected = learner.errors(batch)
    batch["state"] = torch.zeros_like(batch["state"])
    assert torch.equal(learner.errors(batch), expected) == (not learner.agent.memory)


def test_gradients_flow_through_the_burn_in_only_at_the_start_of_an_episode(learner, batch):
    batch["obs"].requires_grad_()
    learner.errors(batch)[:, learner.agent.burn_in :].sum().backward()
    flows = batch["obs"].grad[:, : learner.agent.burn_in].flatten(1).any(dim=1)
    wanted = torch.tensor(STARTS) & learner.agent.from_start & learner.agent.memory & (learner.agent.burn_in > 0)
    assert flows.tolist() == wanted.tolist()


def test_a_step_lowers_the_loss_and_copies_the_weights_in_time(learner, batch):
    learner.agent = replace(learner.agent, target_every=20)
    old = learner.target.head.weight.clone()
    losses = []
    for _ in range(19):
        losses.append(float((learner.step(batch).square().sum(dim=1) * batch["weights"]).sum()))
    assert losses[-1] < losses[0] and torch.equal(learner.target.head.weight, old)
    learner.step(batch)
    assert torch.equal(learner.target.head.weight, learner.network.head.weight)


def test_a_sequence_of_weight_0_is_not_learned_from(learner, batch):
    batch["weights"][1:] = 0
    other = copy.deepcopy(learner)
    learner.step(batch)
    batch["rew"][1:] += 5
    other.step(batch)
    assert torch.equal(learner.network.head.weight, other.network.head.weight)


class StopsAfter:
    """A flag that is false the first `count` times that it is read."""

    def __init__(self, count: int) -> None:
        self._read, self._count = itertools.count(), count

    @property
    def value(self) -> bool:
        return next(self._read) >= self._count


def test_explorers_store_the_state_before_each_step():
    agent, steps = SMALL, 200
    torch.manual_seed(0)
    network = SequenceNetwork(agent)
    weights = SimpleNamespace(newest=lambda: (0, train.flat_weights(network)))
    progress = SimpleNamespace(
        stop=StopsAfter(steps), transitions=[0] * explorer.EXPLORERS, steps=SimpleNamespace(value=0)
    )
    with closing(replay.buffer_for(agent, seed=0)) as buffer:
        explorer.explore(0, agent, 0, buffer, weights, progress)
        rows = buffer.get_all_transitions()
        batch = {name: torch.from_numpy(column) for name, column in buffer.sample_sequences(64).items()}
    streams = {name: column.reshape(steps, explorer.ENVIRONMENTS, -1) for name, column in rows.items() if name != "rew"}
    assert progress.transitions[0] == streams["done"].size and streams["done"].sum() > explorer.ENVIRONMENTS
    continues = ~streams["done"][:-1, :, 0]
    assert np.array_equal(streams["next_obs"][:-1][continues], streams["obs"][1:][continues])
    state = torch.zeros(explorer.ENVIRONMENTS, 2 * agent.units)
    for step in range(steps):
        assert streams["state"][step] == pytest.approx(state.numpy(), abs=1e-6)
        with torch.no_grad():
            _, state = network(torch.from_numpy(streams["obs"][step][:, None]), state)
        state *= ~torch.from_numpy(streams["done"][step])
    assert not batch["state"][batch["is_first"][:, 0]].any() and batch["state"][~batch["is_first"][:, 0]].any()


def test_priorities_over_reverb_are_those_of_the_shared_buffer():
    agent, envs, random = AGENTS["R2D2"], explorer.ENVIRONMENTS, np.random.default_rng(0)
    with closing(replay.buffer_for(agent, seed=0)) as buffer:
        names = {name: np.zeros((envs, *field.shape)) for name, field in replay.fields_for(agent).items()}
        for step in range(200):
            buffer.add(**{**names, "done": (step + np.arange(envs)) % 50 == 0})
        batch = buffer.sample_sequences(64)
        index = batch["indexes"]
        errors = torch.from_numpy(random.normal(size=(buffer.get_buffer_size(), agent.burn_in + agent.size)))[index]
        buffer.update_priorities(index, errors)
        leaves = buffer._get_leaves(index)
    mine = SimpleNamespace(burn_in=agent.burn_in)
    mask = torch.from_numpy(batch["mask"])
    assert not mask.all()
    np.testing.assert_allclose(replay.OverReverb.priorities(mine, mask, errors) ** replay.ALPHA, leaves, rtol=1e-5)


@pytest.mark.parametrize(("remembers", "mean"), [(True, BEST), (False, BEST / 2)])
def test_the_task_is_solved_by_memory_and_not_by_the_current_observation(remembers, mean):
    env, returns = Recall(), []
    for seed in range(200):
        obs, ended, total = env.reset(seed=seed)[0], False, 0.0
        cue, waited, delays = 0.0, 0, []
        while not ended:
            signal, is_cue, is_question = obs
            cue, waited = (signal, 0) if is_cue else (cue, waited + 1)
            if is_question:
                delays.append(waited - 1)
            obs, reward, ended, _, _ = env.step(int((cue if remembers else signal) > 0))
            assert is_question or not reward
            total += reward
        returns.append(total)
        assert len(delays) == BEST and all(10 <= delay <= 20 for delay in delays)
    assert np.mean(returns) == pytest.approx(mean, abs=0 if remembers else 0.3)


def test_r2d2_solves_the_task_and_a_feed_forward_agent_does_not():
    solved = train.train(AGENTS["R2D2"], seed=0)
    assert solved.solved and solved.scores[-1] >= 0.9 * BEST
    assert not train.train(AGENTS["feed-forward"], seed=0, last_step=solved.steps).solved


def test_the_error_for_a_dead_explorer_names_it(monkeypatch):
    monkeypatch.setattr(train, "explore", lambda number, *_: os._exit(3 + number))
    with pytest.raises(RuntimeError, match="explorer 0 died with exit code 3"):
        train.train(SMALL, seed=0)
