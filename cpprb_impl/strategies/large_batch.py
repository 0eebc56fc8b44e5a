"""Large Batch Experience Replay: draw a large batch, and keep rows with large expected gradients.

T. Lahire, M. Geist and E. Rachelson, "Large Batch Experience Replay", ICML 2022, arXiv:2110.01528. A batch of
m * batch_size transitions is sampled uniformly, the learner computes a surrogate priority for each (an upper bound on
its gradient's norm), and batch_size transitions are drawn in proportion to their priorities. The classes differ only in
how they normalise the importance weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpprb_impl.layout.arrays import array_of
from cpprb_impl.layout.fields import parse_seed, positive_integer
from cpprb_impl.layout.options import check_exponent
from cpprb_impl.ring.hooks import check_option
from cpprb_impl.ring.own_random import OwnRandom


class LaBER(OwnRandom):
    """Draw rows of a large batch in proportion to priority + eps. Subclasses define `_normalize_weight`."""

    def __init__(self, batch_size: int, m: float = 4, *, eps: float = 1e-6, seed: int | None = None) -> None:
        self.batch_size = positive_integer("batch_size", batch_size)
        if not 0 < m < float("inf"):
            raise ValueError(f"m must be positive and finite, got {m!r}")
        self.eps = check_exponent("eps", eps)
        self.idx = np.arange(positive_integer("batch_size * m", self.batch_size * m))
        self.rng = np.random.default_rng(parse_seed(seed))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("batch_size", "eps"):  # these take effect from the next call on, like idx and rng
            check_option(self, name, frozenset({"m"}))
        super().__setattr__(name, value)

    def __call__(self, *, priorities: Any, **arrays: Any) -> dict[str, Any]:
        """Draw `batch_size` rows of a large batch, with replacement.

        Parameters
        ----------
        priorities : array_like (batch_size * m,)
            Surrogate priorities of the large batch: finite and not negative.
        **arrays : array_like (batch_size * m, ...)
            The large batch's columns, as returned by `sample`.

        Returns
        -------
        dict
            The drawn rows of each column (batch_size, ...); their "weights" (batch_size,), in the dtype of the
            priorities if that is a floating type, else float64; and "indexes" (batch_size,), their positions in the
            large batch. Columns already called "weights" or "indexes", as in a prioritized sample, are replaced.

        Raises
        ------
        TypeError
            If the priorities are None or not numbers.
        ValueError
            If the number of rows is wrong, or no row can be drawn with these priorities. The random state is then
            unchanged.
        """
        mass, dtype = self._mass(priorities)
        columns = {name: self._column(name, value) for name, value in arrays.items()}
        chances = mass / mass.sum()
        drawn = self.rng.choice(self.idx, size=self.batch_size, p=chances)
        batch = {name: column[drawn] for name, column in columns.items()}
        batch["weights"] = self._normalize_weight(chances, drawn).astype(dtype)
        batch["indexes"] = drawn
        return batch

    def _mass(self, priorities: Any) -> tuple[np.ndarray, np.dtype]:
        """Return priority + eps as float64, and the dtype of the weights."""
        if priorities is None:
            raise TypeError("priorities must be numbers, got None")
        given = array_of("priorities", priorities)
        if given.dtype.kind not in "biuf" and not np.can_cast(given.dtype, np.float64):  # such as bfloat16
            raise TypeError(f"priorities must be real numbers, got {given.dtype}")
        if given.shape != self.idx.shape:
            raise ValueError(f"priorities must have shape ({self.idx.size},), batch_size * m, got {given.shape}")
        bad = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
        if bad.size:
            raise ValueError(f"priorities[{bad[0]}] must be finite and not negative, got {given[bad[0]]}")
        mass = given.astype(np.float64) + self.eps
        if not 0 < mass.sum() < float("inf"):
            raise ValueError("the sum of priorities + eps must be positive and finite")
        return mass, given.dtype if given.dtype.kind == "f" else np.dtype(np.float64)

    def _column(self, name: str, value: Any) -> Any:
        # Other libraries' tensors can be indexed like NumPy arrays, so they are not converted.
        column = value if hasattr(value, "shape") else np.asarray(value)
        if not len(column.shape) or column.shape[0] != self.idx.size:
            raise ValueError(f"{name} must have {self.idx.size} rows, batch_size * m, got shape {tuple(column.shape)}")
        return column

    def _normalize_weight(self, p: np.ndarray, idx: np.ndarray) -> np.ndarray:
        """Return the weights (batch_size,) of the drawn rows `idx`; `p` holds P(i) for the whole large batch."""
        raise NotImplementedError


_PARAMETERS = """

    Parameters
    ----------
    batch_size : int
        Number of rows that a call returns.
    m : float
        A call takes m * batch_size rows, truncated to an integer. Must be positive.
    eps : float
        Added to each priority, so that every row can be drawn. Must not be negative.
    seed : int, optional
        Makes the draws reproducible. By default, the seed comes from the operating system.

    Raises
    ------
    ValueError, TypeError
        If a parameter is invalid; see `__call__` for what a call raises.
    """


class LaBERmean(LaBER):  # noqa: D101 - its docstring is assembled below
    __doc__ = (
        """LaBER with weights mean(p) / p_i, where p = priority + eps over the large batch.

    The weight is 1 / (n P(i)) for a large batch of n rows, so that the expected weighted mean of the drawn rows'
    gradients is the large batch's mean gradient. This is the recommended variant to start with (Lahire et al. 2022)."""
        + _PARAMETERS
    )

    def _normalize_weight(self, p: np.ndarray, idx: np.ndarray) -> np.ndarray:
        weights: np.ndarray = 1.0 / (p.size * p[idx])
        return weights


class LaBERlazy(LaBER):  # noqa: D101
    __doc__ = (
        """LaBER with weights 1 / P(i), where P(i) = p_i / sum(p) and p = priority + eps over the large batch.

    The weights are not normalised (Lahire et al. 2022): they are batch_size * m times those of `LaBERmean`, for
    learners with their own scaling."""
        + _PARAMETERS
    )

    def _normalize_weight(self, p: np.ndarray, idx: np.ndarray) -> np.ndarray:
        weights: np.ndarray = 1.0 / p[idx]
        return weights


class LaBERmax(LaBER):  # noqa: D101
    __doc__ = (
        """LaBER with weights (1 / p_i) / max_j (1 / p_j), where p = priority + eps and j runs over the drawn rows.

    Weights are at most 1, as in prioritized replay (Lahire et al. 2022; Schaul et al. 2015)."""
        + _PARAMETERS
    )

    def _normalize_weight(self, p: np.ndarray, idx: np.ndarray) -> np.ndarray:
        weights: np.ndarray = p[idx].min() / p[idx]
        return weights
