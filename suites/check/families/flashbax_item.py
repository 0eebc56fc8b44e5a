"""Flashbax's make_item_buffer: pure functions on a state, which hold whole transitions."""

import functools

import jax
import numpy as np


@functools.cache
def functions(capacity, n=1):
    b = Buffer(max_length=capacity, min_length=1, sample_batch_size=n, add_batches=False)
    return b.init, jax.jit(b.add), jax.jit(b.sample)


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, seed):
    jax.config.update("jax_enable_x64", True)  # otherwise JAX makes 32 bits of 64
    row = {"obs": np.zeros(obs_shape, obs_dtype), "act": np.zeros(act_shape, act_dtype), "rew": np.float32(0)}
    row |= {"next_obs": np.zeros(obs_shape, obs_dtype), "done": np.bool_(0)}
    return {"capacity": capacity, "state": functions(capacity)[0](row), "key": jax.random.PRNGKey(seed)}


def add(buffer, obs, act, rew, next_obs, done):
    row = {"obs": obs, "act": act, "rew": np.float32(float(rew)), "next_obs": next_obs, "done": np.bool_(done)}
    buffer["state"] = functions(buffer["capacity"])[1](buffer["state"], row)


def sample(buffer, n):
    buffer["key"], key = jax.random.split(buffer["key"])
    return functions(buffer["capacity"], n)[2](buffer["state"], key).experience


def size(buffer):
    state = buffer["state"]
    return buffer["capacity"] if state.is_full else int(state.current_index)
