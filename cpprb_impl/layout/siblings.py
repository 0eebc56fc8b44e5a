"""Options of cpprb's other classes, which each constructor ignores with a warning.

cpprb's constructors ignore all unknown names. Programs therefore pass one dict of options to several classes, such as
`check_for_update` to uniform and prioritized buffers.
"""

from __future__ import annotations

from collections.abc import Iterable

from cpprb_impl.layout.caller import warn

# Sorted by the class that introduces them; `create_buffer` adds prioritized, which HindsightReplayBuffer also has.
OPTIONS = {
    "ReplayBuffer": ("size", "env_dict", "next_of", "stack_compress", "default_dtype", "Nstep", "mmap_prefix"),
    "PrioritizedReplayBuffer": ("alpha", "eps", "check_for_update", "normalize"),
    "ReverseReplayBuffer": ("stride",),
    "MPReplayBuffer": ("logger", "ctx", "backend"),
    "HindsightReplayBuffer": (
        *("max_episode_len", "reward_func", "goal_func", "goal_shape", "state", "action", "next_state"),
        *("strategy", "additional_goals", "prioritized"),
    ),
    "SelectiveReplayBuffer": (
        *("episode_len", "obs_dim", "act_dim", "Nepisodes", "rew_dim", "is_discrete_action", "obs_shape"),
    ),
}
KNOWN = frozenset(name for names in OPTIONS.values() for name in names)


def ignore_siblings(of: str, options: Iterable[str]) -> None:
    """Warn that the class `of` ignores `options`. Raises TypeError for a name that no class of cpprb has."""
    ignored = list(options)
    if not ignored:
        return
    for name in ignored:
        if name not in KNOWN:
            raise TypeError(f"{of}() got an unexpected keyword argument {name!r}")
    names = ", ".join(ignored)
    one = len(ignored) == 1
    belong = "which belongs to a different class; it is" if one else "which belong to other classes; they are"
    warn(f"{of} has no {'option' if one else 'options'} {names}, {belong} ignored")
