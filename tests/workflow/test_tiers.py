"""Every tier plans what it should; the tiny tier runs from end to end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from tests.workflow.conftest import Workflow, copy_workflow

SHARED = {"prepare": 1, "draw": 9 + 8, "make": 2, "write": 1, "collect": 4 + 6 + 7}
SCALAR = {"tiny": 2 + 8 + 4 + 2 + 1, "full": 4 + 24 + 32 + 4 + 1}
TINY = {"partition": 4, "trace": 5, "train": 12 + 4, "simulate": SCALAR["tiny"], "analyse": 5 + 2 + 3}
DEMO = {"partition": 7, "trace": 21, "train": 36 + 42, "simulate": SCALAR["full"], "analyse": 5 + 2 + 5}
PAPER = {"partition": 7, "trace": 96, "train": 36 + 231, "simulate": SCALAR["full"], "analyse": 5 + 2 + 5}


@pytest.mark.parametrize(("tier", "cells"), [("tiny", TINY), ("demo", DEMO), ("paper", PAPER)])
def test_job_counts(tier: str, cells: dict[str, int], tmp_path: Path) -> None:
    """Table 2: 3 dynamics x 4 algorithms x seeds on one data set; demo and paper have three seeds.

    Partitions: one a seed for Table 2, one a seed for Section 7.1, and those of Figures 14 (20 clients) and
    15 (100 clients) for the first seed; in demo Figure 14 shares Table 2's, in the paper tier Figure 15 does.
    Traces: of every dynamics and seed; in demo Figure 3 has the first seed only. The scalar cells of the
    partial-participation paper: Figure 1, Table II, Figure 3, Theorems 2 and 3.
    """
    planned = copy_workflow(tmp_path / "fresh").planned(tier=tier)
    assert Counter(job.split()[0] for job in planned) == SHARED | cells


def test_one_figure_plans_no_training(tmp_path: Path) -> None:
    planned = copy_workflow(tmp_path / "fresh").planned("fedswe_fig14")
    assert {job.split()[0] for job in planned} == {"prepare", "partition", "analyse", "collect", "draw"}


@pytest.mark.parametrize("target", ["all", "fedswe", "partial", "report", "fedswe_fig14", "partial_table2"])
def test_targets_exist_and_are_done(target: str, finished: Workflow) -> None:
    assert finished.planned(target) == set()


def test_table_is_complete(finished: Workflow) -> None:
    """24 rows of the headline model, 12 of the clients' mean, each beside the published number."""
    table = pd.read_csv(finished.folder / "results/tiny/tables/fedswe_table2.csv")
    rows = table[table["evaluated"] == "server"]
    assert len(rows) == 3 * 4 * 2 and len(table) == len(rows) + 3 * 2 * 2
    assert (table["status"] == "ok").all() and table["published_mean"].notna().all()
    assert not table["comparable"].any() and table["ours_mean"].between(0, 100).all()
    cell = rows.query("dynamics == 'sine' and algorithm == 'fedswe' and k_over_m == 1 and split == 'test'")
    assert cell["published_mean"].item() == 85.8
    markdown = (finished.folder / "results/tiny/tables/fedswe_table2.md").read_text()
    assert "not comparable" in markdown and "85.8 ± 0.8" in markdown
    latex = (finished.folder / "results/tiny/tables/fedswe_table2.tex").read_text()
    assert latex.count(r"\midrule") == 3 and r"\toprule" in latex and r"$\pm$" in latex


def test_table_value_follows_from_the_cells(finished: Workflow) -> None:
    """One value recomputed from a cell's own file: the mean over the evaluations after round 4 of 6."""
    (cell,) = finished.cells("stationary", "fedavg_active")
    metrics = pd.read_parquet(finished.folder / f"results/tiny/cells/{cell}/metrics.parquet")
    window = metrics[(metrics["split"] == "test") & (metrics["round"] > 4)]
    assert list(window["round"]) == [5, 6]
    table = pd.read_csv(finished.folder / "results/tiny/tables/fedswe_table2.csv")
    row = table.query("dynamics == 'stationary' and algorithm == 'fedavg_active' and split == 'test'")
    assert row["ours_mean"].item() == pytest.approx(100 * window["accuracy"].mean(), abs=1e-9)


def test_report_shows_everything(finished: Workflow) -> None:
    page = (finished.folder / "results/tiny/report/index.html").read_text()
    for name in ("fedswe_fig03", "fedswe_fig12", "fedswe_fig14", "fedswe_fig16", "fedswe_table2"):
        assert f'id="{name}"' in page
    assert page.count("data:image/png;base64,") == 17 and "<table>" in page
    assert "Reduced scale: not comparable" in page and "PARTIAL" not in page
    assert not re.search(r'(src|href)="(https?:)?//', page), "the page must work without a network"
    links = re.findall(r'href="(\.\./[^"]+)"', page)
    assert links and all((finished.folder / "results/tiny/report" / link).exists() for link in links)
    anchors = re.findall(r'href="#([^"]+)"', page)
    assert anchors and all(f'id="{anchor}"' in page for anchor in anchors)


def test_figures_are_drawn_from_their_csv(finished: Workflow) -> None:
    folder = finished.folder / "results/tiny/figures"
    counts = pd.read_csv(folder / "fedswe_fig14.csv")
    assert len(counts) == 200 and counts.groupby("client")["share"].sum().sub(1).abs().max() < 1e-12
    assert counts["images"].sum() == 4000
    assert len(pd.read_csv(folder / "fedswe_fig15.csv")) == 100
    assert len(pd.read_csv(folder / "fedswe_fig16.csv")) == 3 * 3 * 60
    for name in ("fedswe_fig14", "fedswe_fig15", "fedswe_fig16"):
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_killed_run_continues_to_the_same_result(finished: Workflow, tmp_path: Path) -> None:
    """kill -9 of the whole run while cells train; the next run ends with byte-identical tables."""
    workflow = copy_workflow(tmp_path / "killed")
    command = [sys.executable, "-m", "snakemake", "-c2", "--config", "tier=tiny"]
    with subprocess.Popen(
        command, cwd=workflow.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as run:  # fmt: skip
        deadline = time.monotonic() + 120
        while not workflow.cells("train") and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(run.pid, signal.SIGKILL)
    assert 0 < len(workflow.cells("train")) < 16
    assert workflow.snakemake("--unlock").returncode == 0
    again = workflow.snakemake("-c2", "--rerun-incomplete", "fedswe_table2")
    assert again.returncode == 0, again.stderr
    name = "results/tiny/collected/fedswe_table2.parquet"
    assert (workflow.folder / name).read_bytes() == (finished.folder / name).read_bytes()
    assert not list(workflow.folder.glob("results/**/.*.tmp"))


def test_manifest_holds_what_identifies_a_result(finished: Workflow) -> None:
    (cell,) = finished.cells("sine", "fedavg_all")
    manifest = json.loads((finished.folder / f"results/tiny/cells/{cell}/manifest.json").read_text())
    assert manifest["cell"] == cell and manifest["status"] == "ok" and manifest["seconds"] > 0
    assert manifest["spec"]["dynamics"] == {"name": "sine", "params": {"gamma": 0.3, "period": 20}}
    assert set(manifest["inputs"]) == {"train", "test", "partition", "trace"}
    assert {"lock", "python", "torch", "cpu", "device"} <= set(manifest["environment"])
    assert str(finished.folder) not in json.dumps(manifest), "no path of a machine"
    log = (finished.folder / f"results/tiny/logs/cells/{cell}.log").read_text()
    assert "round 6/6" in log and "server" in log
