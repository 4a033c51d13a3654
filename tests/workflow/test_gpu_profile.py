"""The profile for one machine with several GPUs, with two that are made up."""

import json
import re
import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

from tests.workflow.conftest import Workflow

CUDA = """    if torch.cuda.is_available():
        devices = visible(torch.cuda.device_count())
        if len(devices) > 1 and "SLURM_JOB_ID" not in os.environ:
            torch.cuda.set_device(take(devices, cells_per_gpu()))
        return "cuda"
"""
MADE_UP = """    print(f"on GPU {take(visible(2), cells_per_gpu())}", file=sys.stderr, flush=True)
    time.sleep(1)
    return "cpu"
"""
SECOND = timedelta(seconds=1)  # to which manifests know a start


def test_every_cell_has_a_gpu_of_its_own(workflow: Workflow) -> None:
    """All training cells of Table 2, two at a time; cells on the same GPU follow one another."""
    workflow.edit("src/fedrepro/runtime/device.py", CUDA, MADE_UP)
    cells = sorted(workflow.cells("train", "sine", "s3"))
    for cell in cells:
        shutil.rmtree(workflow.folder / f"results/tiny/cells/{cell}")
    own = replace(workflow, variables={"TMPDIR": str(workflow.folder)})  # where the GPUs' locks are
    wanted = [f"results/tiny/cells/{cell}/manifest.json" for cell in cells]
    run = own.snakemake(*wanted, "-c2", "--workflow-profile", "profiles/gpu", "--resources", "gpu=2")
    assert run.returncode == 0, run.stderr
    spans: dict[str, list[tuple[datetime, datetime]]] = {"0": [], "1": []}
    for cell in cells:
        log = (workflow.folder / f"results/tiny/logs/cells/{cell}.log").read_text()
        (gpu,) = re.findall(r"^on GPU (\d)$", log, flags=re.M)
        facts = json.loads((workflow.folder / f"results/tiny/cells/{cell}/manifest.json").read_text())
        begin = datetime.fromisoformat(facts["started"])
        spans[gpu].append((begin, begin + timedelta(seconds=facts["seconds"])))
    for gpu, taken in spans.items():
        assert len(taken) >= 3, f"GPU {gpu} is hardly used"
        ordered = sorted(taken)
        assert all(end <= begin + SECOND for (_, end), (begin, _) in pairwise(ordered))
