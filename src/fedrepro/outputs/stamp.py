"""What an output must say on its face about the cells behind it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Stamp:
    """What an output must say about the cells behind it; empty where there is nothing to say."""

    planned: int
    missing: int
    published: bool
    mixed: bool

    @property
    def lines(self) -> list[str]:
        """The sentences that stand on the output's face."""
        out = []
        if self.missing:
            out.append(f"PARTIAL: {self.missing} of {self.planned} cells not run")
        if not self.published:
            out.append("Reduced scale: not comparable with the published numbers")
        if self.mixed:
            out.append("Mixed environments: rows of one seed were run on different systems")
        return out


def stamp(sidecars: Iterable[Mapping[str, Any]]) -> Stamp:
    """The stamp of an output made from experiments with these sidecars."""
    facts = list(sidecars)
    return Stamp(
        planned=sum(fact["planned"] for fact in facts),
        missing=sum(len(fact["missing"]) for fact in facts),
        published=all(fact["published"] for fact in facts),
        mixed=any(fact["mixed_environments"] for fact in facts),
    )
