"""What one cell computes, and what would make it run again."""

import json
from pathlib import Path

from fedrepro.plan.messages import unknown
from fedrepro.plan.plan import Plan
from fedrepro.provenance import jobs
from fedrepro.provenance.code import closure
from fedrepro.provenance.files import checked
from fedrepro.provenance.header import resolved
from fedrepro.provenance.manifest import CellError, cell_spec, read_manifest


def print_cell(plan: Plan, beginning: str) -> None:
    """Print specification, users, files and state of a cell."""
    cells = [cell for cell in plan.cells if cell.startswith(beginning)]
    if beginning in plan.cells:
        cells = [beginning]
    if len(cells) != 1:
        raise unknown("plan explain", f"cell ({len(cells)} begin so)", beginning, cells or plan.cells)
    cell = cells[0]
    job = plan.cells[cell]
    spec = cell_spec(cell, job.spec)
    used = [
        f"{name} ({member.reading})" if member.reading else name
        for name, item in plan.experiments.items()
        for member in item.members
        if member.cell == cell
    ]
    print(f"cell         {cell}\nexperiments  {', '.join(used)}")
    print(f"folder       {plan.cell_folder(cell)}\nlog          {plan.out}/logs/cells/{cell}.log")
    print(f"code         {job.code}\nspecification")
    for key, value in resolved(spec).items():
        print(f"  {key:<16}{json.dumps(value)}")
    print("state")
    for line in reasons(plan, cell):
        print(f"  {line}")


def reasons(plan: Plan, cell: str) -> list[str]:
    """Why a cell would run again, or that it is up to date."""
    job = plan.cells[cell]
    try:
        manifest = read_manifest(plan.cell_folder(cell))
    except CellError as error:
        return [f"{error.kind}: {error}"]
    if manifest["canonical"] != job.spec:
        return ["invalid: the manifest describes another specification"]
    found = []
    now = closure(jobs.modules(job.step, cell_spec(cell, job.spec)))
    before = manifest["modules"]
    for module in sorted(now.keys() | before.keys()):
        if now.get(module) != before.get(module):
            change = "changed" if module in now and module in before else "added"
            found.append(f"stale: module {module} {change if module in now else 'gone'}")
    for name, path in job.inputs.items():
        if manifest["inputs"].get(name, {}).get("sha256") != checked(Path(path)):
            found.append(f"stale: input {path} changed")
    return found or [f"up to date, status {manifest['status']}, {manifest['seconds']:.1f} s"]
