"""When to stop, and which state was the best."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Monitor: TypeAlias = Literal["dot_product", "decoder", "none"]
"""What chooses the weights on validation links: dot products, the method's own decoder, or nothing (the last ones)."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What validation has said so far.

    Attributes:
        best_value: Highest monitored value; later epochs win ties, as in the authors' script.
        best_epoch: When it was reached.
        waited: Evaluations since then.
    """

    best_value: float = float("-inf")
    best_epoch: int = 0
    waited: int = 0

    def after(self, value: float, epoch: int) -> "Progress":
        """The state after one more evaluation."""
        if value >= self.best_value:
            return Progress(value, epoch, 0)
        return Progress(self.best_value, self.best_epoch, self.waited + 1)
