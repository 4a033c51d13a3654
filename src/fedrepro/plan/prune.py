"""Results on disk that the plan does not need."""

import shutil
from pathlib import Path

from fedrepro.errors import FedreproError
from fedrepro.plan.config import Only
from fedrepro.plan.plan import Plan
from fedrepro.runtime.execute import KERNELS


def unneeded(plan: Plan) -> list[Path]:
    """What nothing uses: cells, checkpoints, shared inputs, collected and plan files, compiled kernels."""
    out = Path(plan.out)
    kept = ("cells", ".checkpoints")
    found = [p for name in kept for p in sorted(out.glob(f"{name}/*")) if p.name not in plan.cells]
    codes = {job.code for job in plan.cells.values()}
    found += [p for p in sorted(Path(KERNELS).glob("*")) if p.name not in codes]
    for folder, known in (
        ("partitions", plan.partitions),
        ("traces", plan.traces),
        ("collected", plan.experiments),
        ("plan", plan.experiments),
    ):
        for path in sorted(out.joinpath(folder).glob("*")):
            if path.name.split(".")[0] not in known:
                found.append(path)
    return found


def prune(plan: Plan, *, delete: bool) -> None:
    """List what is not needed, with sizes; delete it only when asked to.

    Raises
    ------
    FedreproError
        If the plan is a subset: what the subset leaves out is needed all the same.
    """
    if plan.config.only != Only():
        raise FedreproError("plan prune looks at a whole tier; run it without the key 'only'")
    paths = unneeded(plan)
    total = 0
    for path in paths:
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        size = sum(file.stat().st_size for file in files)
        total += size
        print(f"{size / 1e6:9.2f} MB  {path}")
        if delete:
            path.unlink() if path.is_file() else shutil.rmtree(path)
    if paths:
        print(f"{total / 1e6:9.2f} MB  {'deleted' if delete else 'in all; delete with --delete'}")
    else:
        print("nothing to prune")
