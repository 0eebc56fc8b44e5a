"""The protocol of buffers inside a library's own learner: an arm of a comparison of trainings.

An arm says which algorithm a training uses, and with which arguments that algorithm gets the arm's buffer. Everything
else of a training is the same for all arms.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from adapters.base import Peer


@dataclass(frozen=True)
class TrainingKind:
    """What an arm must know of a training."""

    algorithm: str  # "DQN", "SAC"
    images: bool = False  # whether observations are stacks of images


class TrainingArm(Peer):
    """A way of using a buffer inside a learner. It is never constructed."""

    #: whether it draws the rows that the library's own buffer would draw, so that trainings have identical results
    exact: ClassVar[bool] = False
    #: whether a time limit, as opposed to the end of an episode, is not learned as an end
    handles_timeouts: ClassVar[bool] = True
    #: steps whose rewards are summed in what it returns
    n_steps: ClassVar[int] = 1
    #: whether it stores the last next_obs of each episode
    keeps_last_next_obs: ClassVar[bool] = True

    @classmethod
    def refusal(cls, _learner: TrainingKind) -> str | None:
        """Return why this arm cannot be used in that training, or None if it can."""
        return None

    @classmethod
    @abstractmethod
    def algorithm(cls, learner: TrainingKind) -> tuple[type[Any], Mapping[str, Any]]:
        """Import the library; return the class of the algorithm, and the arguments that select this arm's buffer."""
