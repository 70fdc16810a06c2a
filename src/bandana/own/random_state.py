"""What scikit-learn calls `random_state`, as the one number that decides everything random here."""

from numbers import Integral
from typing import Any

from sklearn.utils import check_random_state

from bandana.engine.streams import LARGEST_SEED
from bandana.errors import UserError

LARGEST_DRAWN = 2**31 - 1


def seed_of(random_state: Any) -> int:
    """A whole number is its own seed; a numpy ``RandomState`` draws one, and for None numpy's own does.

    Raises:
        UserError: It is none of these, or a number that numpy would not take.
    """
    if isinstance(random_state, Integral):
        if not 0 <= int(random_state) <= LARGEST_SEED:
            raise UserError(f"random_state: must be from 0 to {LARGEST_SEED}, got {random_state}; give another number.")
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(LARGEST_DRAWN))
    except ValueError:
        raise UserError(
            f"random_state: must be a whole number, a numpy RandomState or None, got {type(random_state).__name__}; "
            f"give one of them."
        ) from None
