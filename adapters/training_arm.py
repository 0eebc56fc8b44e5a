"""The protocol of buffers inside a library's own learner: the arms of a paired training.

An arm determines a training run's algorithm, and the arguments that make the algorithm use the arm's buffer. Everything
else is the same for all arms.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from adapters.base import Peer


@dataclass(frozen=True)
class TrainingKind:
    """What an arm must know about a training run."""

    algorithm: str  # "DQN", "SAC"
    images: bool = False  # whether observations are stacks of images


class TrainingArm(Peer):
    """A way of using a buffer inside a learner. Arms are never constructed."""

    #: whether it draws the same rows as the library's own buffer would, so that training runs have identical results
    exact: ClassVar[bool] = False
    #: whether learning distinguishes a time limit from the end of an episode
    handles_timeouts: ClassVar[bool] = True
    #: number of steps whose rewards are summed in each row that it returns
    n_steps: ClassVar[int] = 1
    #: whether it stores the last next_obs of each episode
    keeps_last_next_obs: ClassVar[bool] = True

    @classmethod
    def refusal(cls, _learner: TrainingKind) -> str | None:
        """Return why this arm cannot be used in this training run, or None if it can."""
        return None

    @classmethod
    @abstractmethod
    def algorithm(cls, learner: TrainingKind) -> tuple[type[Any], Mapping[str, Any]]:
        """Import the library; return the class of the algorithm, and the arguments that select this arm's buffer."""
