"""Evidence that may be looked at after each pair, so that one can measure until a question is decided.

A bettor starts with a wealth of 1, and bets on the sign of each difference to a limit. The wealth is the evidence that
the differences are centred above the limit. If the centre is at the limit and the noise is symmetric, the sign of a
difference is a fair coin, given its size. The wealth is then a martingale, whatever the bets are, and the probability
that it *ever* reaches 1/p is at most p (Ville 1939). If the centre is below the limit, the same holds for noise that is
also unimodal. Two equal builds give symmetric differences, since exchanging them changes nothing.

Ramdas, Ruf, Larsson and Koolen (2020), "Admissible anytime-valid sequential inference must rely on nonnegative
martingales", show that for symmetry nothing but such bets needs to be considered. The bets are those of a bettor who
believes in Student's t with the centre and spread of the differences so far (the predictable plug-in of Waudby-Smith
and Ramdas 2024, "Estimating means of bounded random variables by betting"). A wrong belief costs wealth, never the
bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

FREEDOM = 3.0  # of Student's t: an unusually large difference says little about the centre
MOST = 0.95  # of the wealth is bet, so that one contrary sign does not lose everything
PRIOR_PAIRS = 2  # that the belief before the first pair counts for
PRIOR_SPREAD = 0.02
LEAST_SPREAD = 0.001
#: From a median to the limits that are tried for its bounds: 0.001 to 2.5, each 4% farther than the one before.
DISTANCES = [0.001 * 1.04**step for step in range(200)]


def log_wealth(differences: Sequence[float], limit: float, expected: float) -> list[float]:
    """Return the log of the wealth after each difference, for bets that they are centred above `limit`.

    `expected` is the distance above it that is believed in before the first one.
    """
    wealth, said, past = 0.0, [], [expected] * PRIOR_PAIRS
    for difference in differences:
        above = difference - limit
        centre = median(past)
        spread = LEAST_SPREAD + 1.25 * median([*(abs(each - centre) for each in past), *[PRIOR_SPREAD] * PRIOR_PAIRS])
        if above:  # a difference of exactly 0 has no sign
            wealth += math.log1p(math.copysign(_bet(abs(above), max(0.0, centre), spread), above))
        said.append(wealth)
        past.append(above)
    return said


def _bet(size: float, centre: float, spread: float) -> float:
    """Return the share of the wealth to bet on a positive sign: P(positive) - P(negative), given the size."""
    above, below = (
        float((1 + ((size + side * centre) / spread) ** 2 / FREEDOM) ** (-(FREEDOM + 1) / 2)) for side in (-1.0, 1.0)
    )
    return min(MOST, (above - below) / (above + below))


def bounds(differences: Sequence[float], probability: float, expected: float) -> tuple[float, float]:
    """Return the limits that the centre is above and below, each wrong with at most this probability at any time.

    A bound is infinite if nothing can be said yet.
    """
    low = _bound(differences, probability, expected)
    high = -_bound([-each for each in differences], probability, expected)
    return low, high


def _bound(differences: Sequence[float], probability: float, expected: float) -> float:
    """Return the highest limit above which the centre lies with enough evidence.

    Limits are tried from the median downwards: bets on differences that are far above a limit are small.
    """
    enough, middle = -math.log(probability), median(differences)
    if len(differences) * math.log1p(MOST) < enough:
        return -math.inf
    tried = (middle - distance for distance in DISTANCES)
    return next((limit for limit in tried if log_wealth(differences, limit, expected)[-1] >= enough), -math.inf)
