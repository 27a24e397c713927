"""Values over time in bounded memory: neighbours are joined when there are too many."""

from __future__ import annotations

from dataclasses import dataclass, field

LIMIT = 512


@dataclass(slots=True)
class Series:
    """Sums of so many values each, in the order they came: `points` of `width` values. The last point may hold fewer:
    `open` are those in it. The number of points stays between a half of `LIMIT` and `LIMIT`."""

    columns: int
    width: int = 1
    open: int = 0
    points: list[list[int]] = field(default_factory=list)

    def add(self, *values: int) -> None:
        """Take the values of the next moment, one a column."""
        if not self.points or self.open == self.width:
            if len(self.points) == LIMIT:
                pairs = zip(self.points[::2], self.points[1::2], strict=True)
                self.points = [[a + b for a, b in zip(one, other, strict=True)] for one, other in pairs]
                self.width *= 2
            self.points.append([0] * self.columns)
            self.open = 0
        last = self.points[-1]
        for column, value in enumerate(values):
            last[column] += value
        self.open += 1

    def counts(self) -> list[int]:
        """How many values each point holds."""
        return [self.width] * (len(self.points) - 1) + [self.open] if self.points else []
