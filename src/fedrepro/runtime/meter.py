"""Progress of a long step: a bar on a terminal, else a line every ten seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY = 10.0  # seconds


@contextmanager
def meter(what: str) -> Iterator[Callable[[float], None]]:
    """Give a function to be told the share that is done, from 0 to 1."""
    if not sys.stderr.isatty():
        yield _Lines(what)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


class _Lines:
    def __init__(self, what: str):
        self._what = what
        self._started = self._last = time.monotonic()

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        if now - self._last >= EVERY:
            self._last = now
            spent = now - self._started
            print(f"{self._what}: {share:.0%}, {spent:.0f} s", file=sys.stderr, flush=True)
