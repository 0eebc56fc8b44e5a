"""Complete programs such as users of cpprb write, based on its documentation: only the import differs."""

from __future__ import annotations

import importlib
import multiprocessing
import time

import numpy as np
import pytest

from .linear_q import LinearQ

gymnasium = pytest.importorskip("gymnasium")
pytestmark = pytest.mark.timeout(120)

GAMMA = 0.99
ENV_DICT = {
    "obs": {"shape": (4,)},
    "act": {"shape": 1, "dtype": np.ubyte},
    "rew": {},
    "next_obs": {"shape": (4,)},
    "done": {},
}


@pytest.fixture(params=["cpprb", "cpprb_impl"])
def rb_module(request):
    return pytest.importorskip(request.param)


def cart_pole(rb, get_action, steps, seed=0):
    """Play and store steps; yield after each step, before the end of an episode is reported."""
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=seed)
    for _ in range(steps):
        act = get_action(obs)
        next_obs, rew, terminated, truncated, _ = env.step(act)
        rb.add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=terminated)
        yield
        if terminated or truncated:
            obs, _ = env.reset()
            rb.on_episode_end()
        else:
            obs = next_obs


def epsilon_greedy(q, rng, epsilon=0.3):
    return lambda obs: int(rng.integers(2)) if rng.random() < epsilon else int(np.argmax(q(obs[None])))


def targets_of(q_target, sample, discount=GAMMA):
    return sample["rew"].ravel() + discount * (1 - sample["done"].ravel()) * q_target(sample["next_obs"]).max(axis=1)


@pytest.mark.parametrize("nstep", [None, 3])
@pytest.mark.parametrize("prioritized", [False, True])
def test_dqn_trains_with_both_libraries(rb_module, prioritized, nstep):
    rng = np.random.default_rng(1)
    q, q_target = LinearQ(4, 2), LinearQ(4, 2)
    options = {"Nstep": {"size": nstep, "rew": "rew", "gamma": GAMMA, "next": "next_obs"}} if nstep else {}
    kind = rb_module.PrioritizedReplayBuffer if prioritized else rb_module.ReplayBuffer
    rb = kind(1e4, ENV_DICT, **options)
    batch_size, steps, warm_up = 32, 300, 50
    beta, largest, losses = 0.4, 1.0, []
    given = []  # the raw priority of each stored row

    for step, _ in enumerate(cart_pole(rb, epsilon_greedy(q, rng), steps)):
        if prioritized:
            given += [rb.get_max_priority()] * (rb.get_stored_size() - len(given))
        if step < warm_up:
            continue
        sample = rb.sample(batch_size, beta) if prioritized else rb.sample(batch_size)
        assert all(len(column) == batch_size for column in sample.values())
        assert sample["obs"].shape == (batch_size, 4) and sample["act"].dtype == np.ubyte
        weights = sample["weights"].ravel() if prioritized else 1.0
        acts = sample["act"].ravel()
        targets = targets_of(q_target, sample, GAMMA ** (nstep or 1))
        losses.append(q.learn(sample["obs"], acts, targets, weights))
        if prioritized:
            assert (weights > 0).all() and (weights <= 1 + 1e-6).all()
            td = np.abs(q.td(sample["obs"], acts, targets))
            rb.update_priorities(sample["indexes"], td)
            largest = max(largest, td.max())
            for index, priority in zip(sample["indexes"].tolist(), td.tolist(), strict=True):
                given[index] = priority
            beta = min(1.0, beta + 0.6 / steps)
        if step % 20 == 0:
            q_target.weights = q.weights.copy()

    assert len(losses) == steps - warm_up and np.isfinite(losses).all()
    rb.on_episode_end()
    assert rb.get_stored_size() == steps
    if prioritized:
        # cpprb returns the largest priority ever set; ours the largest of stored rows, if lower by more than rounding.
        expected = largest if rb_module.__name__ == "cpprb" else max(1.0, *given)
        assert rb.get_max_priority() == pytest.approx(expected, rel=2e-4)
        assert len(np.unique(rb.sample(batch_size, 1.0)["weights"])) > 1
    rew = rb.get_all_transitions()["rew"]
    assert rew.max() == pytest.approx(sum(GAMMA**k for k in range(nstep or 1)))


@pytest.mark.parametrize("variant", ["LaBERmean", "LaBERlazy", "LaBERmax"])
def test_laber_trains_with_both_libraries(rb_module, variant):
    rng = np.random.default_rng(1)
    batch_size, m, steps, warm_up = 16, 4, 120, 40
    q, q_target = LinearQ(4, 2), LinearQ(4, 2)
    rb = rb_module.ReplayBuffer(1e4, ENV_DICT)
    laber = getattr(rb_module, variant)(batch_size, m)
    losses = []

    for step, _ in enumerate(cart_pole(rb, epsilon_greedy(q, rng), steps)):
        if step < warm_up:
            continue
        large = rb.sample(batch_size * m)
        acts, targets = large["act"].ravel(), targets_of(q_target, large)
        td = np.abs(q.td(large["obs"], acts, targets))
        small = laber(priorities=td, **large)
        chosen = small["indexes"]
        assert small["obs"].shape == (batch_size, 4) and small["weights"].shape == (batch_size,)
        assert np.array_equal(small["obs"], large["obs"][chosen])
        losses.append(q.learn(small["obs"], acts[chosen], targets[chosen], small["weights"]))
    assert len(losses) == steps - warm_up and np.isfinite(losses).all()
    assert rb.get_stored_size() == steps


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("strategy", ["future", "episode", "random", "final"])
def test_hindsight_trains_with_both_libraries(rb_module, strategy, prioritized):
    bits, longest, episodes, batch_size = 5, 6, 25, 16
    rng = np.random.default_rng(1)

    def reward(next_obs, act, goal):
        return -1.0 * (next_obs != goal).any(axis=1)

    field = {"shape": bits, "dtype": np.float32}
    hrb = rb_module.HindsightReplayBuffer(
        1e4,
        {"obs": field, "act": {"shape": 1, "dtype": np.ubyte}, "next_obs": field},
        max_episode_len=longest,
        reward_func=reward,
        strategy=strategy,
        additional_goals=3,
        prioritized=prioritized,
    )
    q, losses, played = LinearQ(2 * bits, bits), [], 0
    for _ in range(episodes):
        obs, goal = rng.integers(2, size=(2, bits)).astype(float)
        for _ in range(longest):
            explore = rng.random() < 0.3
            act = int(rng.integers(bits) if explore else np.argmax(q(np.hstack([obs, goal])[None])))
            next_obs = obs.copy()
            next_obs[act] = 1 - next_obs[act]
            hrb.add(obs=obs, act=act, next_obs=next_obs)
            obs, played = next_obs, played + 1
            if (obs == goal).all():
                break
        hrb.on_episode_end(goal)

        sample = hrb.sample(batch_size)
        assert np.isin(sample["goal"], [0, 1]).all() and sample["goal"].shape == (batch_size, bits)
        assert np.array_equal(sample["rew"].ravel(), reward(sample["next_obs"], sample["act"], sample["goal"]))
        states, after = (np.hstack([sample[name], sample["goal"]]) for name in ("obs", "next_obs"))
        targets = sample["rew"].ravel() + GAMMA * (sample["rew"].ravel() < 0) * q(after).max(axis=1)
        weights = sample["weights"] if prioritized else 1.0
        losses.append(q.learn(states, sample["act"].ravel(), targets, weights))
        if prioritized:
            hrb.update_priorities(sample["indexes"], np.abs(q.td(states, sample["act"].ravel(), targets)))
    assert np.isfinite(losses).all()
    copies = 2 if strategy == "final" else 4
    assert hrb.get_stored_size() == copies * played
    if strategy in ("future", "final"):  # the last step of each episode reaches its own goal
        assert (hrb.get_all_transitions()["rew"] == 0).sum() >= episodes


def explorer(module_name, global_rb, is_training_done, weights_queue, seed):
    rb_module = importlib.import_module(module_name)
    local_rb = rb_module.ReplayBuffer(20, ENV_DICT)
    q, rng = LinearQ(4, 2), np.random.default_rng(seed)
    while not is_training_done.is_set():
        for _ in cart_pole(local_rb, epsilon_greedy(q, rng), 100, seed):
            while not weights_queue.empty():
                q.weights = weights_queue.get()
            if local_rb.get_stored_size() == local_rb.get_buffer_size():
                local = local_rb.get_all_transitions()
                local_rb.clear()
                td = np.abs(q.td(local["obs"], local["act"].ravel(), targets_of(q, local)))
                global_rb.add(**local, priorities=td)
            if is_training_done.is_set():
                break


def test_apex_trains_with_both_libraries(rb_module):
    steps, warm_up, batch_size = 60, 100, 32
    global_rb = rb_module.MPPrioritizedReplayBuffer(10_000, ENV_DICT)
    is_training_done = multiprocessing.Event()
    queues = [multiprocessing.SimpleQueue() for _ in range(2)]
    explorers = [
        multiprocessing.Process(
            target=explorer, args=(rb_module.__name__, global_rb, is_training_done, weights_queue, seed), daemon=True
        )
        for seed, weights_queue in enumerate(queues)
    ]
    q, losses = LinearQ(4, 2), []
    for process in explorers:
        process.start()
    try:
        until = time.monotonic() + 60
        while global_rb.get_stored_size() < warm_up:
            assert time.monotonic() < until, "the explorers add nothing"
            time.sleep(0.01)
        for step in range(steps):
            sample = global_rb.sample(batch_size)
            acts, targets = sample["act"].ravel(), targets_of(q, sample)
            losses.append(q.learn(sample["obs"], acts, targets, sample["weights"]))
            global_rb.update_priorities(sample["indexes"], np.abs(q.td(sample["obs"], acts, targets)))
            if step % 10 == 0:
                for weights_queue in queues:
                    weights_queue.put(q.weights)
    finally:
        is_training_done.set()
        for process in explorers:
            process.join(timeout=30)
            if process.is_alive():
                process.kill()
                process.join()
    assert [process.exitcode for process in explorers] == [0, 0]
    assert len(losses) == steps and np.isfinite(losses).all()
    assert sample["obs"].shape == (batch_size, 4) and len(np.unique(sample["weights"])) > 1
    assert warm_up <= global_rb.get_stored_size() <= global_rb.get_buffer_size()


def test_fields_of_an_environment_work_with_both_libraries(rb_module):
    env = gymnasium.make("Blackjack-v1")
    rb = rb_module.ReplayBuffer(64, rb_module.create_env_dict(env))
    before_add = rb_module.create_before_add_func(env)
    obs, _ = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(100):
        act = env.action_space.sample()
        next_obs, rew, terminated, truncated, _ = env.step(act)
        rb.add(**before_add(obs=obs, act=act, next_obs=next_obs, rew=rew, done=terminated))
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
            rb.on_episode_end()
    batch = rb.sample(8)
    assert rb.get_stored_size() == 64
    assert {"obs0", "obs1", "obs2", "act", "rew", "next_obs0", "next_obs1", "next_obs2", "done"} == set(batch)
    assert ((batch["obs1"] >= 1) & (batch["obs1"] <= 10)).all()  # the card of the dealer
