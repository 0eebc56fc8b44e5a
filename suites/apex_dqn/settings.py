"""The settings of a training run, and each explorer's epsilon."""

from __future__ import annotations

from dataclasses import dataclass, fields

# Smallest and largest values. Larger buffers are refused if their memory cannot be allocated.
RANGES: dict[str, tuple[float, float]] = {
    "explorers": (1, 1_000),
    "seed": (0, 2**32 - 1),
    "n": (1, 10_000),
    "gamma": (0, 1),
    "alpha": (0, 10),
    "beta": (0, 10),
    "local_rows": (1, 1_000_000),
    "batch": (1, 1_000_000),
    "learning_rate": (0, 1),
    "hidden": (1, 10_000),
    "evaluate_every": (0, 1_000_000),
    "episodes": (1, 10_000),
}


class BadSetting(ValueError):  # noqa: N818 (named after what it is about)
    """A setting or option with this name is invalid."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name, self.problem = name, problem


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings of a training run. The defaults suit small environments such as CartPole on a few cores. The values
    of Horgan et al. 2018, for Atari on hundreds of cores, are in parentheses."""

    env: str = "CartPole-v1"
    peer: str = "cpprb_impl[lock=none]"
    explorers: int = 4  # (360)
    seed: int = 0
    capacity: int = 100_000  # (2,000,000)
    n: int = 3  # steps of a transition (3)
    gamma: float = 0.99  # (0.99)
    alpha: float = 0.6  # (0.6)
    beta: float = 0.4  # (0.4)
    local_rows: int = 100  # transitions that an explorer adds per call (50)
    batch: int = 128  # (512)
    learning_rate: float = 5e-4  # of Adam (RMSProp, 6.25e-5)
    hidden: int = 128  # units of each layer
    target_every: int = 500  # learner steps between copies to the target network (2,500)
    publish_every: int = 25  # learner steps between two publications of the weights
    refresh_every: int = 400  # environment steps after which an explorer fetches the newest weights (400)
    least_rows: int = 1_000  # stored before the learner starts (50,000)
    evaluate_every: float = 5.0  # seconds from the end of an evaluation to the start of the next one
    episodes: int = 100  # of an evaluation, played greedily

    def __post_init__(self) -> None:
        """Raise `BadSetting`."""
        for each in fields(self):
            value, kind = getattr(self, each.name), type(each.default)
            if type(value) is not kind:
                raise BadSetting(each.name, f"must be of type {kind.__name__}, got {value!r}")
            smallest, largest = RANGES.get(each.name, (1, 10**12))
            if kind is not str and not smallest <= value <= largest:  # this also refuses NaN
                raise BadSetting(each.name, f"must be from {smallest} to {largest}, got {value}")

    def epsilon(self, explorer: int) -> float:
        """Return the probability with which this explorer, counted from 0, acts at random (section 4.1):
        0.4^(1 + 7 i / (N - 1))."""
        return 0.4 ** (1 + 7 * explorer / max(1, self.explorers - 1))
