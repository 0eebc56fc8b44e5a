"""Flashbax's make_item_buffer: pure functions on a state, which hold whole transitions."""

import functools

import jax
import numpy as np


@functools.cache
def functions(capacity, n=1):
    return jax.tree.map(jax.jit, Buffer(max_length=capacity, min_length=1, sample_batch_size=n, add_batches=False))


def row(obs, act, rew, next_obs, done):
    return {"obs": obs, "act": act, "rew": np.float32(float(rew)), "next_obs": next_obs, "done": np.bool_(done)}


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, seed):
    jax.config.update("jax_enable_x64", True)  # otherwise JAX makes 32 bits of 64
    obs, act = np.zeros(obs_shape, obs_dtype), np.zeros(act_shape, act_dtype)
    state = functions(capacity).init(row(obs, act, 0, obs, False))
    return {"capacity": capacity, "state": state, "key": jax.random.PRNGKey(seed)}


def add(buffer, obs, act, rew, next_obs, done):
    dict.update(buffer, state=functions(buffer["capacity"]).add(buffer["state"], row(obs, act, rew, next_obs, done)))


def sample(buffer, n):
    buffer["key"], key = jax.random.split(buffer["key"])
    return functions(buffer["capacity"], n).sample(buffer["state"], key).experience


def size(buffer):
    state = buffer["state"]
    return buffer["capacity"] if state.is_full else int(state.current_index)
