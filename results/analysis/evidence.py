"""Evidence that may be examined after every pair, so that pairs can be measured until a question is decided.

A bettor starts with a wealth of 1, and bets on the sign of each difference minus a limit. The wealth is the evidence
that the differences are centred above the limit. If the centre is at the limit and the noise is symmetric, each sign is
like the toss of a fair coin, given the size of the difference. The wealth is then a martingale, whatever the bets, and
the probability that it *ever* reaches 1/p is at most p (Ville 1939). If the centre is below the limit, this is also
true, provided that the noise is unimodal as well. The differences between two equal builds are symmetric, since
exchanging the builds changes nothing.

Ramdas, Ruf, Larsson and Koolen (2020), "Admissible anytime-valid sequential inference must rely on nonnegative
martingales", show that for symmetric noise, only bets of this kind need to be considered. The bettor assumes that the
differences follow Student's t, with the centre and spread of the differences so far (the predictable plug-in of
Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting"). If this assumption is wrong,
the wealth grows more slowly, but the bound remains valid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

FREEDOM = 3.0  # degrees of freedom of Student's t: an unusually large difference says little about the centre
MOST = 0.95  # share of the wealth that is bet, so that one contrary sign does not lose everything
PRIOR_PAIRS = 2  # weight, in pairs, of what is assumed before the first pair
PRIOR_SPREAD = 0.02
LEAST_SPREAD = 0.001
#: Distances from a median to the limits that are tried for its bounds: 0.001 to 2.5, each 4% larger than the one
#: before.
DISTANCES = [0.001 * 1.04**step for step in range(200)]


def log_wealth(differences: Sequence[float], limit: float, expected: float) -> list[float]:
    """Return the log of the wealth after each difference, for bets that the differences are centred above `limit`.

    `expected` is the distance of the centre above the limit that is assumed before the first difference.
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
    """Return the share of the wealth to bet on a positive sign, P(positive) - P(negative), given the size."""
    above, below = (
        float((1 + ((size + side * centre) / spread) ** 2 / FREEDOM) ** (-(FREEDOM + 1) / 2)) for side in (-1.0, 1.0)
    )
    return min(MOST, (above - below) / (above + below))


def bounds(differences: Sequence[float], probability: float, expected: float) -> tuple[float, float]:
    """Return a lower and an upper bound of the centre, each wrong with at most this probability at any time.

    A bound is infinite if nothing can be said yet.
    """
    low = _bound(differences, probability, expected)
    high = -_bound([-each for each in differences], probability, expected)
    return low, high


def _bound(differences: Sequence[float], probability: float, expected: float) -> float:
    """Return the highest limit for which there is enough evidence that the centre lies above it.

    Limits are tried from the median downwards: bets on differences that are far above a limit are small.
    """
    enough, middle = -math.log(probability), median(differences)
    if len(differences) * math.log1p(MOST) < enough:
        return -math.inf
    tried = (middle - distance for distance in DISTANCES)
    return next((limit for limit in tried if log_wealth(differences, limit, expected)[-1] >= enough), -math.inf)
