"""Collecting the cells of an experiment into one table, after checking every one of them."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc

from fedrepro.core.tables import LABEL, encode
from fedrepro.errors import FedreproError
from fedrepro.provenance.files import describe, json_bytes, read_json, sidecar_path
from fedrepro.provenance.header import leaves, resolved
from fedrepro.provenance.manifest import CellError, Planned, Verified, cell_spec, verify
from fedrepro.runtime.atomic import write_all

MAX_LISTED = 20


def collect(plan: Path, cells: Path, out: Path, missing: str, mixed: str) -> None:
    """Write the collected table, its sidecar, and the provenance of its cells.

    The table has the rows of every cell's ``metrics.parquet`` with the cell's id, status and resolved
    specification, one column a field; a missing cell has one row of status ``missing``, and a cell that has
    several labels in the experiment (``paper_dataset``, ``reading``) its rows once for each. The sidecar says
    how many cells were planned and which are missing. A table that is replaced moves to ``history/``.

    Parameters
    ----------
    plan : Path
        ``plan/<experiment>.json``.
    cells : Path
        Folder of the cells.
    out : Path
        The Parquet file to write.
    missing : ``refuse`` or ``show``
        Whether a cell that is missing or may not be published stops the collection.
    mixed : ``refuse`` or ``allow``
        Whether results of one seed may come from different environments.

    Raises
    ------
    FedreproError
        If a cell is refused; the message lists the cells and the command that runs them again.
    """
    planned = read_json(plan)
    facts_of = {facts["cell"]: facts for facts in planned["cells"]}
    found: dict[str, Verified] = {}
    refused: dict[str, CellError] = {}
    for cell, facts in facts_of.items():
        expected = Planned(facts["canonical"], facts["code"], facts["inputs"])
        try:
            found[cell] = verify(cells / cell, expected)
        except CellError as error:
            refused[cell] = error
    if refused and missing == "refuse":
        raise FedreproError(_refusal(planned, cells, out, refused))
    if not found:
        raise FedreproError(f"{planned['experiment']}: none of its {len(refused)} cells can be used")
    mixtures = _mixtures(found)
    if mixtures and mixed == "refuse":
        raise FedreproError(_mixture_message(planned["experiment"], cells, mixtures))
    table = _table(planned["cells"], found, set(mixtures))
    content = encode(table)
    sidecar = describe(content, len(table)) | {
        "experiment": planned["experiment"],
        "published": planned["published"],
        "planned": len(facts_of),
        "missing": {cell: str(error) for cell, error in sorted(refused.items())},
        "mixed_environments": bool(mixtures),
    }
    _archive(out)
    write_all(
        {
            out: content,
            sidecar_path(out): json_bytes(sidecar),
            out.with_suffix(".cells.json"): json_bytes(_provenance(planned, found)),
        }
    )
    print(f"{planned['experiment']}: {len(found)} of {len(facts_of)} cells collected")
    if refused:
        print(f"PARTIAL: {len(refused)} of {len(facts_of)} not run")


def _table(members: Sequence[Mapping[str, Any]], found: Mapping[str, Verified], mixed: set[int]) -> pa.Table:
    parts = []
    for facts in members:
        cell = facts["cell"]
        verified = found.get(cell)
        spec = resolved(cell_spec(cell, facts["canonical"]))
        labels = {
            "cell": cell,
            "status": verified.manifest["status"] if verified else "missing",
            "paper_dataset": facts["paper_dataset"],
            "reading": facts["reading"],
            "mixed_environments": spec["seed"] in mixed,
        }
        columns = labels | dict(leaves(spec))
        table = verified.metrics if verified else pa.table({"cell": [cell]})  # one row says "missing"
        for name, value in columns.items():
            if name not in table.column_names:
                table = table.append_column(name, pa.array([value] * len(table)))
        parts.append(table)
    table = pa.concat_tables(parts, promote_options="permissive")
    for position, column in enumerate(table.schema):
        if pa.types.is_string(column.type) and pc.count_distinct(table[column.name]).as_py() < 128:
            values = table[column.name].combine_chunks().dictionary_encode()
            table = table.set_column(position, column.name, values.cast(LABEL))
    return table.combine_chunks()


def _mixtures(found: Mapping[str, Verified]) -> dict[int, Counter[str]]:
    """Seeds whose cells were run in more than one environment, with the environments' counts."""
    seen: dict[int, Counter[str]] = defaultdict(Counter)
    for verified in found.values():
        environment = json.dumps(verified.manifest["environment"], sort_keys=True)
        seen[json.loads(verified.manifest["canonical"])["seed"]][environment] += 1
    return {seed: counts for seed, counts in seen.items() if len(counts) > 1}


def _mixture_message(experiment: str, cells: Path, mixtures: Mapping[int, Counter[str]]) -> str:
    lines = [f"{experiment}: cells of one seed were run in different environments:"]
    for seed, counts in mixtures.items():
        lines += [f"  seed {seed}: {n} cells in {text}" for text, n in counts.most_common()]
    lines.append(
        f"delete the cells of one environment from {cells} and run snakemake again, or accept the "
        "mixture with: snakemake -c2 --config mixed_environments=allow"
    )
    return "\n".join(lines)


def _refusal(planned: Mapping[str, Any], cells: Path, out: Path, refused: Mapping[str, CellError]) -> str:
    counts = Counter(error.kind for error in refused.values())
    lines = [
        f"{planned['experiment']}: refused, "
        + ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))
        + f" of {len({facts['cell'] for facts in planned['cells']})} cells"
    ]
    lines += [f"  {cell}: {error}" for cell, error in list(refused.items())[:MAX_LISTED]]
    if len(refused) > MAX_LISTED:
        lines.append(f"  and {len(refused) - MAX_LISTED} more")
    files = " ".join(str(cells / cell / "manifest.json") for cell in refused)
    lines += [
        "Run them again with (add your --configfile or profile before --forcerun):",
        f"  snakemake -c2 --config tier={planned['tier']} --forcerun {files} -- {out}",
    ]
    return "\n".join(lines)


def _provenance(planned: Mapping[str, Any], found: Mapping[str, Verified]) -> dict[str, Any]:
    """What the report says of the cells: everything in their manifests but spec and module digests."""
    cells = {}
    for cell, verified in found.items():
        kept = {k: v for k, v in verified.manifest.items() if k not in ("spec", "modules", "cell")}
        cells[cell] = kept
    return {"experiment": planned["experiment"], "where": planned["where"], "cells": cells}


def _archive(out: Path) -> None:
    """Move the table that is about to be replaced to ``history/<utc>_<hash12>/``."""
    sidecar = sidecar_path(out)
    if not (out.exists() and sidecar.exists()):
        return
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}_{read_json(sidecar)['sha256'][:12]}"
    folder = out.parent.parent / "history" / name
    folder.mkdir(parents=True, exist_ok=True)
    for path in (out, sidecar, out.with_suffix(".cells.json")):
        if path.exists():
            path.replace(folder / path.name)
