"""Names in TorchRL's buffers that have no counterpart in ours, and what to use instead, for error messages."""

from __future__ import annotations

_WRITING = "override add and extend"
# Methods that TorchRL's add, extend, sample and update_tensordict_priority call, and ours do not.
METHODS = {
    "_add": _WRITING,
    "_extend": _WRITING,
    "_is_consuming": _WRITING,
    "_set_index_in_td": _WRITING,
    "mark_update": _WRITING,
    "_sample": "override sample",
    "_get_priority_item": "override update_tensordict_priority",
    "_get_priority_vector": "override update_tensordict_priority",
    "_anchor_reduced_priority": "override update_tensordict_priority",
}

_TRANSFORM = "apply it to the TensorDicts that you add or sample"
_DRAW = (
    "rows are drawn uniformly, or by priority with TensorDictPrioritizedReplayBuffer; pass sequences to draw parts of "
    "episodes"
)
_ONE_PROCESS = "the buffer belongs to one process"
# Options and public attributes.
OPTIONS = {
    "storage": "pass max_size; rows are stored in native memory",
    "sampler": _DRAW,
    "sampler_device": "rows are drawn on the CPU",
    "prioritized_sampler": _DRAW,
    "writer": "the oldest row is overwritten",
    "write_count": "len returns the number of stored rows",
    "is_alive": "the buffer is ready until its process ends",
    "initialized": "the buffer is ready once it has been created",
    "transform": _TRANSFORM,
    "transform_factory": _TRANSFORM,
    "collate_fn": _TRANSFORM,
    "pin_memory": "pin the sampled TensorDict",
    "prefetch": "samples are drawn when they are requested",
    "dim_extend": "rows are added along the first dimension, or with n_envs along the second one",
    "sample_unit": "a sample consists of single rows, or with the option sequences of sequences",
    "reduction": "pass one priority for each row",
    "generator": "pass a seed, or call reseed",
    "checkpointer": "save buffer, the native buffer, with save_transitions",
    "consume_after_n_samples": "a row stays until it is overwritten",
    "compilable": "call the buffer outside of compiled functions",
    "delayed_init": "the first TensorDict determines the layout of the rows",
    "shared": _ONE_PROCESS,
    "sync": _ONE_PROCESS,
    "service_backend": _ONE_PROCESS,
    "service_backend_options": _ONE_PROCESS,
    "transport": _ONE_PROCESS,
    "transport_options": _ONE_PROCESS,
}
_OF_PRIORITIES = "only TensorDictPrioritizedReplayBuffer has priorities"
ONLY_OPTIONS = dict.fromkeys(("priority_key", "alpha", "beta", "eps"), _OF_PRIORITIES)


def refuse_methods(kind: type) -> None:
    """Raise TypeError if a class defines a method that TorchRL's buffers call and ours do not."""
    for name, instead in METHODS.items():
        if hasattr(kind, name):
            raise TypeError(f"{kind.__name__} must not override {name}, which is not called here: {instead}")


def refuse_options(kind: type, names: dict[str, object]) -> None:
    """Raise TypeError for unknown options, saying what to use instead of TorchRL's options."""
    for name in names:
        instead = OPTIONS.get(name) or ONLY_OPTIONS.get(name)
        more = f": {instead}" if instead else ""
        raise TypeError(f"{kind.__name__}() got an unexpected keyword argument {name!r}{more}")


def refuse_attribute(kind: type, name: str) -> None:
    """Raise AttributeError for assigning to an attribute of TorchRL's buffers that has no effect here."""
    instead = OPTIONS.get(name) or f"{METHODS[name]} in a subclass"
    raise AttributeError(f"{name} must not be assigned to a {kind.__name__}: {instead}")
