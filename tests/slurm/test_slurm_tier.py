"""The whole tiny tier, its training cells on a real SLURM."""

import re
import shutil
from dataclasses import replace

from tests.slurm.conftest import SLURM, SLURM_PYTHON
from tests.workflow.conftest import Workflow


def test_training_cells_give_the_same_bytes_as_on_this_machine(cluster: None, workflow: Workflow) -> None:
    """After a run on this machine all are deleted and run again as jobs; then nothing is left to do."""
    cells = workflow.cells("train")
    results = workflow.folder / "results/tiny"
    here = {cell: (results / f"cells/{cell}/metrics.parquet").read_bytes() for cell in cells}
    for cell in cells:
        shutil.rmtree(results / f"cells/{cell}")
    own = replace(workflow, variables={"FEDREPRO_MAX_MINUTES": "30"})  # the partition allows 60
    wanted = [f"results/tiny/cells/{cell}/manifest.json" for cell in cells]
    run = own.snakemake("all", *wanted, *SLURM, python=str(SLURM_PYTHON))
    assert run.returncode == 0, run.stderr
    assert len(re.findall(r"SLURM jobid \d+ \(log: \S*-s\d+-[0-9a-f]{12}", run.stderr)) == len(cells)
    assert workflow.cells("train") == cells
    for cell, content in here.items():
        assert (results / f"cells/{cell}/metrics.parquet").read_bytes() == content
    assert workflow.planned() == set()
