"""The GPU check runs from end to end with NumPy and PyTorch alone, and skips where there is no GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.helpers import ROOT, python

REHEARSE = """
import sys
for name in ("annotated_types", "numba", "pandas", "pyarrow", "pydantic", "scipy", "snakemake", "yaml"):
    sys.modules[name] = None
from benchmarks import gpu_check
sys.argv = ["gpu_check", "--rehearse", "--out", sys.argv[1]]
gpu_check.main()
"""


def test_rehearsal_without_other_libraries(tmp_path: Path) -> None:
    """On the CPU and at tiny sizes: every design runs, agrees with the loop, and is in the report."""
    python(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{REHEARSE}", tmp_path / "gpu.json")
    report = json.loads((tmp_path / "gpu.json").read_text())
    assert set(report["difference_to_cpu_float64"]) == {"grouped", "unfolded", "hybrid", "vmap"}
    assert all(value < 1e-9 for value in report["difference_to_cpu_float64"].values())
    assert len(report["designs"]) == 12
    for found in report["designs"].values():
        assert "error" not in found
        assert found["client_steps_per_second"] > 0
    assert report["fastest_fp32"].endswith("fp32")
    assert report["versions"]["torch"] == torch.__version__


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so_and_writes_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu_check", "--out", str(tmp_path / "gpu.json")]
    environment = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "skipped: PyTorch sees no CUDA device" in done.stdout
    assert not (tmp_path / "gpu.json").exists()
