"""Flashbax: the prioritised trajectory buffer. Its batch size and the sequences' length are fixed when it is made."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from stubs import mock

mock("tensorstore")
if not hasattr(jax, "tree_map"):  # until jax 0.4.25
    jax.tree_map = jax.tree_util.tree_map
from flashbax.buffers.prioritised_trajectory_buffer import make_prioritised_trajectory_buffer  # noqa: E402

DRAWN = 32  # sequences per call


@functools.cache
def _functions(capacity, length, alpha):
    names = {"sample_sequence_length": length, "period": 1, "min_length_time_axis": length}
    names |= {"max_length_time_axis": capacity, "priority_exponent": alpha}
    made = make_prioritised_trajectory_buffer(1, DRAWN, **names)
    return made.init, jax.jit(made.add), jax.jit(made.sample), jax.jit(made.set_priorities)


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, seed, alpha, length):
    functions = _functions(capacity, length, alpha)
    shapes = {"obs": (obs_shape, obs_dtype), "act": (act_shape, act_dtype), "rew": ((), "float32")}
    shapes |= {"next_obs": (obs_shape, obs_dtype), "done": ((), "bool")}
    state = functions[0]({name: jnp.zeros(*each) for name, each in shapes.items()})
    return {"functions": functions, "state": state, "key": jax.random.PRNGKey(seed), "length": length}


def add(buffer, obs, act, rew, next_obs, done):
    step = {"obs": obs, "act": act, "rew": np.float32(rew), "next_obs": next_obs, "done": bool(done)}
    row = {name: np.asarray(value)[None, None] for name, value in step.items()}
    buffer["state"] = buffer["functions"][1](buffer["state"], row)


def _drawn(buffer, size):
    parts = []
    for _ in range(-(-size // DRAWN)):
        buffer["key"], key = jax.random.split(buffer["key"])
        parts.append(buffer["functions"][2](buffer["state"], key))
    columns = {name: [part.experience[name] for part in parts] for name in parts[0].experience}
    columns["indexes"] = [part.indices for part in parts]
    return {name: np.concatenate(each)[:size] for name, each in columns.items()}


def sample(buffer, size):
    return {name: each if name == "indexes" else each[:, 0] for name, each in _drawn(buffer, size).items()}


def windows(buffer, size, length):
    if length != buffer["length"]:
        raise NotImplementedError("the length of sequences is fixed when the buffer is made")
    return _drawn(buffer, size)


def update(buffer, indexes, priorities):
    set_priorities = buffer["functions"][3]
    buffer["state"] = set_priorities(buffer["state"], jnp.asarray(indexes), jnp.asarray(priorities, "float32"))
