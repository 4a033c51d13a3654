"""Cost of preparing CINIC-10: ``python -m benchmarks.cinic10``.

The data set cannot be shipped, so that an archive of the same count is made: 90,000 images in each of train,
test and valid, about 2.5 kB each, with the published archive's layout and nearly its size. The command of the
workflow's rule then prepares it. Memory is the sum over all
processes of what each has for itself and its share of the rest (PSS), read every 0.1 s.

Writes ``results/bench/cinic10.json``.
"""

import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from fedrepro.datasets.cinic10 import NAMES
from fedrepro.plan.cards import card, prepare_spec
from fedrepro.provenance import jobs
from fedrepro.provenance.archives import Digest, digest
from fedrepro.provenance.code import closure, code_digest
from fedrepro.provenance.files import sidecar_path
from fedrepro.provenance.identity import canonical_json
from fedrepro.runtime.atomic import write_all
from fedrepro.runtime.device import cores

OUTPUT = Path("results/bench/cinic10.json")
SPLITS = ("train", "test", "valid")
PICTURES = 1000  # different ones; the archive repeats them


def make_archive(path: Path) -> None:
    """Write an archive of 270,000 PNGs."""
    rng = np.random.default_rng(1)
    pictures = []
    for _ in range(PICTURES):
        smooth = rng.integers(0, 256, (5, 5, 3), dtype=np.uint8)
        image = Image.fromarray(smooth).resize((32, 32), Image.Resampling.BICUBIC)
        noisy = np.asarray(image).astype(int) + rng.integers(-9, 10, (32, 32, 3))
        buffer = io.BytesIO()
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(buffer, "PNG")
        pictures.append(buffer.getvalue())
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for split in SPLITS:
            for name in NAMES:
                for number in range(card("cinic10").counts["train"][0]):
                    content = pictures[number % PICTURES]
                    member = tarfile.TarInfo(f"{split}/{name}/image-{number:05}.png")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))


def command(archive: Path, found: Digest) -> list[str]:
    """What the rule ``prepare`` runs, for another archive of the same counts."""
    checksum = f"sha256:{found.sidecar()['sha256']}"
    spec = replace(prepare_spec("cinic10"), archives={"archive": checksum})
    sidecar_path(archive).write_text(json.dumps(found.sidecar()))
    return [
        sys.executable, "-m", "fedrepro", "run", "prepare", "--spec", canonical_json(spec),
        "--code", code_digest(closure(jobs.modules("prepare", spec))),
        "--input", f"archive={archive}",
        "--output", *(f"{split}={archive.parent / split}.npy" for split in ("train", "test")),
    ]  # fmt: skip


def memory(session: int) -> int:
    """Bytes in use by all processes of a session."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                text = (folder / "smaps_rollup").read_text()
                total += 1024 * int(text.split("\nPss:")[1].split()[0])
        except (OSError, IndexError):
            continue  # it has just ended
    return total


def main() -> None:
    """Make, prepare, measure."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "CINIC-10.tar.gz")
        make_archive(archive)
        found = digest(archive, "sha256:")
        started, peak = time.monotonic(), 0
        with subprocess.Popen(command(archive, found), start_new_session=True) as run:
            while run.poll() is None:
                peak = max(peak, memory(run.pid))
                time.sleep(0.1)
        seconds = time.monotonic() - started
        if run.returncode:
            raise SystemExit(run.returncode)
        sizes = {split: Path(folder, f"{split}.npy").stat().st_size for split in ("train", "test")}
    result = {
        "archive_bytes": found.size,
        "cores": cores(),
        "seconds": round(seconds, 1),
        "peak_memory_bytes": peak,
        "prepared_bytes": sizes,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    write_all({OUTPUT: (json.dumps(result, indent=1) + "\n").encode()})
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
