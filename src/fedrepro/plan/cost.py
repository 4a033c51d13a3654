"""What each cell is expected to take: ``results/<tier>/cost.json``, which the rules' resources are made from.

`fedrepro plan estimate` writes it. It is one file because every SLURM job reads the workflow three times.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fedrepro.errors import FedreproError
from fedrepro.provenance.files import read_json
from fedrepro.runtime.atomic import write_all

SNAKEMAKE_MB = 400  # of the two that surround a job on a cluster
SPARE_MEMORY, SPARE_TIME, SPARE_MINUTES = 1.25, 1.5, 10


class Cost(NamedTuple):
    """Seconds of one job, and its peak memory in MB."""

    seconds: float
    memory_mb: float


UNKNOWN = Cost(seconds=2 * 3600.0, memory_mb=3000.0)
LIMIT = "FEDREPRO_MAX_MINUTES"


class Costs:
    """The expected cost of every cell that an estimate was made for, and the longest job a queue takes."""

    def __init__(self, cells: Mapping[str, Cost], limit_minutes: float = math.inf):
        self._cells, self._limit = cells, limit_minutes

    def memory_mb(self, cell: str, attempt: int) -> int:
        """What to ask the queue for, in MB: some to spare, and more with every attempt."""
        memory = self._cells.get(cell, UNKNOWN).memory_mb * SPARE_MEMORY + SNAKEMAKE_MB
        return math.ceil(memory / 100) * 100 * attempt

    def minutes(self, cell: str, attempt: int) -> int:
        """What to ask the queue for: some to spare, more with every attempt, never more than it takes.

        A training cell that runs out of it goes on from its checkpoint.
        """
        seconds = self._cells.get(cell, UNKNOWN).seconds
        return int(min(math.ceil(seconds * SPARE_TIME / 60 + SPARE_MINUTES) * attempt, self._limit))


def cost_path(out: str) -> Path:
    """The file of a tier."""
    return Path(out, "cost.json")


def limit_minutes() -> float:
    """``FEDREPRO_MAX_MINUTES``: the longest run time that the queue allows."""
    text = os.environ.get(LIMIT)
    if text is None:
        return math.inf
    if not text.isdecimal() or int(text) < 1:
        raise FedreproError(f"environment variable {LIMIT} is {text!r}; allowed: whole minutes, at least 1")
    return int(text)


def read_costs(out: str) -> Costs:
    """The estimate of a tier; without one, every cell gets `UNKNOWN`."""
    path, limit = cost_path(out), limit_minutes()
    if not path.exists():
        return Costs({}, limit)
    try:
        cells = {cell: Cost(*map(float, values)) for cell, values in read_json(path)["cells"].items()}
        return Costs(cells, limit)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FedreproError(
            f"{path} is no estimate of this version; run `fedrepro plan estimate` again, or delete it"
        ) from error


def write_costs(out: str, cells: Mapping[str, Cost]) -> None:
    """Write the estimate of a tier: seconds and MB of every cell."""
    values = {cell: [round(cost.seconds, 1), round(cost.memory_mb)] for cell, cost in cells.items()}
    write_all({cost_path(out): (json.dumps({"cells": values}, indent=0) + "\n").encode()})
