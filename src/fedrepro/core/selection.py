"""What the IncentFedAvg paper reports of its welfare-selected equilibrium (Section 5.2, Figure 3).

Clients 0, 2 and 4 end at their caps and the others at zero, so that the total settles at 46,000 images, from
about round 1,000 on.
"""

import numpy as np
from numpy.typing import NDArray

from fedrepro.errors import FedreproError

Floats = NDArray[np.float64]
STAYING = [0, 2, 4]
LEAVING = [1, 3]
TOLERANCE = 0.01  # relative
SETTLED, WATCHED = 1000, 10000  # rounds between which the total must stay


def is_reported(total: Floats, upper: Floats) -> NDArray[np.bool_]:
    """Whether totals (...) are within `TOLERANCE` of the caps (m,) of those who stay, shape (...)."""
    if len(upper) <= max(STAYING + LEAVING):
        raise FedreproError(
            f"key 'participation.upper': {len(upper)} bounds, but Figure 3 is about clients 0 to "
            f"{max(STAYING + LEAVING)}; give one for each"
        )
    wanted = upper[STAYING].sum()
    return np.abs(total - wanted) <= TOLERANCE * wanted


def stays(total: Floats, upper: Floats) -> bool:
    """Whether totals of rounds 0, 1, ... are as reported from round `SETTLED` to `WATCHED`."""
    if len(total) <= WATCHED:
        raise FedreproError(
            f"key 'rounds': {len(total) - 1} rounds are too few to see whether the total stays until round "
            f"{WATCHED}; use at least that many"
        )
    return bool(is_reported(total[SETTLED : WATCHED + 1], upper).all())
