"""Names that authors of buffers give to arguments, columns and methods."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

#: Names of one thing, as an argument, a column or an attribute. The first is this project's.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "obs": ("obs", "obs_t", "state", "observation", "s", "o", "ob", "s_t", "cur_obs", "last_obs", "current_state"),
    "act": ("act", "action", "a", "a_t", "u"),
    "rew": ("rew", "reward", "r", "r_t"),
    "next_obs": (
        *("next_obs", "obs_tp1", "next_state", "next_observation", "obs_next", "obs2", "new_obs", "new_state", "s2"),
        *("s_next", "s_prime", "s_", "state_", "obs_", "observation_", "o2", "next_s", "n_state", "next_ob"),
        *("sp", "s1"),
    ),
    "done": (
        *("done", "terminal", "is_state_terminal", "is_terminal", "d", "is_done", "dw", "end", "terminate", "term"),
        *("t", "done_mask"),
    ),
    "terminated": ("terminated", "termination"),
    "truncated": ("truncated", "truncation", "trunc", "timeout"),
    "not_done": ("not_done", "nonterminal", "mask", "not_terminal", "masks"),
    "not_terminated": ("not_done_no_max", "not_dones_no_max", "not_terminated"),
    "capacity": (
        *("capacity", "size", "buffer_size", "max_size", "limit", "maxlen", "max_len", "max_length", "replay_capacity"),
        *("memory_size", "mem_size", "buffer_capacity", "max_capacity", "replay_size", "total_size", "max_buffer_size"),
        *("max_replay_buffer_size", "buffer_limit"),
    ),
    "obs_dim": ("obs_dim", "state_dim", "observation_dim", "n_obs", "state_size", "obs_size", "n_states", "o_dim"),
    "act_dim": ("act_dim", "action_dim", "n_actions", "action_size", "act_size", "a_dim"),
    "obs_shape": ("obs_shape", "state_shape", "input_shape", "observation_shape", "input_dims", "input_dim"),
    "act_shape": ("act_shape", "action_shape"),
    "batch_size": ("batch_size", "num_experiences", "num_items", "n", "size", "k", "sample_size", "num_samples"),
    "weights": ("weights", "weight", "is_weights", "importance_weights", "w"),
    "indexes": (
        *("idxes", "indexes", "indices", "idx", "index", "inds", "ind", "idxs", "tree_idx", "tree_idxs", "ids"),
        *("batch_indices", "batch_indexes", "batch_idxs"),
    ),
    "priorities": (
        *("priorities", "priority", "new_priorities", "new_priority", "prios", "new_weight"),
        "batch_priorities",
    ),
    "transition": ("transition", "experience", "exp", "sample", "step", "item", "data", "trans"),
    "seed": ("seed", "random_seed", "rng_seed"),
    "beta": ("beta", "beta0"),
    "n_step": ("n_step", "n_steps", "nstep", "multi_step", "n_multi_step"),
    "gamma": ("gamma", "discount", "discount_factor"),
}
#: The same for methods.
METHODS = (
    (
        *("add", "push", "store", "append", "store_transition", "add_transition", "add_experience", "remember", "put"),
        *("add_sample", "insert"),
    ),
    (
        *("sample", "sample_batch", "sample_buffer", "get_batch", "sample_transitions", "sample_transition_batch"),
        "random_batch",
    ),
    ("update_priorities", "update_priority", "set_priorities", "set_priority", "update_weight", "batch_update"),
    ("__len__", "size", "get_stored_size", "get_size", "get_num_timesteps", "nb_entries", "num_steps_can_sample"),
)
COUNTERS = ("size", "_size", "current_size", "num_in_buffer", "count", "n_entries", "length")  # attributes
COLUMNS = ("obs", "act", "rew", "next_obs", "done", "terminated", "truncated", "not_done", "not_terminated")
COLUMNS += ("weights", "indexes")
COLUMN = {name: column for column in COLUMNS for name in SYNONYMS.get(column, ())}
AFFIXES = re.compile(r"^(_|b_|batch_)+|(_batch|_buf|_buffer|_memory|_arr|_list|_lst|_mem)+$")


def alike(name: str) -> tuple[str, ...]:
    """Return the synonyms of a name, itself among them."""
    return next((names for names in SYNONYMS.values() if name in names), (name,))


def column(name: str) -> str | None:
    """Return the column that a name means, which may be a plural or have an affix: "obses_t", "b_next_states_buf"."""
    name = AFFIXES.sub("", name.lower())
    tries = (name, name.rstrip("s"), name.replace("obses", "obs"), name.replace("states", "state"), name[:-2] + "_")
    return next((COLUMN[each] for each in tries if each in COLUMN), None)


def ends(roles: Sequence[str]) -> tuple[str, ...]:
    """Name the column "done" or "not_done" that says whether bootstrapping ends, where another says that an episode
    does."""
    renamed = {"not_done": "not_ended", "not_terminated": "not_done"} if "not_terminated" in roles else {}
    renamed |= {"terminated": "done"} if "done" not in roles else {}
    return tuple(renamed.get(role, role) for role in roles)
