"""Progress of a training cell, as lines in its log."""

import sys
import time
from typing import TextIO

from fedrepro.core.engine import Progress


class ProgressLog:
    """An observer that writes a line whenever a run was evaluated, and at most every ten seconds."""

    def __init__(self, stream: TextIO = sys.stderr, every_seconds: float = 10.0):
        self._stream, self._every = stream, every_seconds
        self._started = self._last = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Note one round."""
        now = time.monotonic()
        if not progress.test and now - self._last < self._every:
            return
        self._last = now
        spent = now - self._started
        left = (
            spent / progress.completed * (progress.rounds - progress.completed) if progress.completed else 0
        )
        scores = "".join(f"  {name} {100 * value:.1f} %" for name, value in progress.test.items())
        print(
            f"round {progress.completed}/{progress.rounds}  {spent:.0f} s, {left:.0f} s left{scores}",
            file=self._stream,
            flush=True,
        )
