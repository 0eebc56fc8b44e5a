"""Flashbax's make_prioritised_flat_buffer: pure functions on a state, which return pairs of consecutive steps."""

import functools

import jax
import numpy as np


@functools.cache
def functions(capacity, alpha, n=1):
    b = Buffer(
        max_length=capacity,
        min_length=2,
        sample_batch_size=n,
        add_sequences=False,
        add_batch_size=None,
        priority_exponent=alpha,
    )
    return b.init, jax.jit(b.add), jax.jit(b.sample), jax.jit(b.set_priorities)


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, alpha, seed):
    jax.config.update("jax_enable_x64", True)  # otherwise JAX makes 32 bits of 64
    row = {"obs": np.zeros(obs_shape, obs_dtype), "act": np.zeros(act_shape, act_dtype)}
    row |= {"rew": np.float32(0), "done": np.bool_(0)}
    kind = (capacity, alpha)
    return {"kind": kind, "state": functions(*kind)[0](row), "key": jax.random.PRNGKey(seed)}


def add(buffer, obs, act, rew, done):
    row = {"obs": obs, "act": act, "rew": np.float32(float(rew)), "done": np.bool_(done)}
    buffer["state"] = functions(*buffer["kind"])[1](buffer["state"], row)


def sample(buffer, n):
    buffer["key"], key = jax.random.split(buffer["key"])
    batch = functions(*buffer["kind"], n)[2](buffer["state"], key)
    return batch.experience.first | {"next_obs": batch.experience.second["obs"], "indexes": batch.indices}


def update(buffer, indexes, priorities):
    buffer["state"] = functions(*buffer["kind"])[3](buffer["state"], indexes, np.float32(priorities))
