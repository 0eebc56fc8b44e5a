"""Flashbax's make_prioritised_trajectory_buffer: pure functions on a state, which return sequences of steps."""

import functools

import jax
import numpy as np


@functools.cache
def functions(capacity, alpha, n=1, length=1):
    return jax.tree.map(
        jax.jit,
        Buffer(
            add_batch_size=1,
            sample_batch_size=n,
            sample_sequence_length=length,
            period=1,
            min_length_time_axis=length,
            max_length_time_axis=capacity,
            priority_exponent=alpha,
        ),
    )


def row(obs, act, rew, next_obs, done):
    return {"obs": obs, "act": act, "rew": np.float32(float(rew)), "next_obs": next_obs, "done": np.bool_(done)}


def sequence(*step):
    return {name: np.asarray(value)[None, None] for name, value in row(*step).items()}


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, alpha, seed):
    jax.config.update("jax_enable_x64", True)  # otherwise JAX makes 32 bits of 64
    obs, act = np.zeros(obs_shape, obs_dtype), np.zeros(act_shape, act_dtype)
    state = functions(capacity, alpha).init(row(obs, act, 0, obs, False))
    return {"kind": (capacity, alpha), "state": state, "key": jax.random.PRNGKey(seed)}


def add(buffer, obs, act, rew, next_obs, done):
    dict.update(buffer, state=functions(*buffer["kind"]).add(buffer["state"], sequence(obs, act, rew, next_obs, done)))


def draw(buffer, n, length):
    buffer["key"], key = jax.random.split(buffer["key"])
    return functions(*buffer["kind"], n, length).sample(buffer["state"], key)


def windows(buffer, n, length):
    batch = draw(buffer, n, length)
    return batch.experience | {"indexes": batch.indices}


def sample(buffer, n):
    batch = draw(buffer, n, 1)
    return {name: column[:, 0] for name, column in batch.experience.items()} | {"indexes": batch.indices}


def update(buffer, indexes, priorities):
    dict.update(
        buffer, state=functions(*buffer["kind"]).set_priorities(buffer["state"], indexes, np.float32(priorities))
    )


def size(buffer):
    state = buffer["state"]
    return buffer["kind"][0] if state.is_full else int(state.current_index)
