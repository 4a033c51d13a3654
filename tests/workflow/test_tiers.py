"""Every tier plans what it should; the tiny tier runs from end to end."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from fedrepro.plan.deviations import load_deviations
from fedrepro.provenance.files import describe, sidecar_path
from tests.helpers import ROOT
from tests.workflow.conftest import Workflow, copy_workflow

SHARED = {
    "prepare": 1, "draw": 13 + 8 + 6, "make": 6 + 1 + 1 + 1, "write": 1, "collect": 6 + 11 + 8 + 6 + 19 + 4,
    "decide": 3,
}  # fmt: skip
FULL = SHARED | {
    "simulate": 4 + 24 + 32 + 4 + 1 + 3 + 2 + 3 + 2, "analyse": 5 + 5 + 18 + 2 + 10 + 16,
    "play": 1 + 3 + 2 + 2,
}  # fmt: skip
TIERS = {
    "tiny": SHARED
    | {
        "partition": 3 + 1 + 1 + 1,
        "trace": 1 + 2 + 2 + 1,
        "train": 10 + 2 + 4 + 3 + 1,
        "simulate": 2 + 8 + 4 + 2 + 1 + 2 + 1 + 2 + 1,
        "analyse": 5 + 3 + 18 + 2 + 10 + 16,
        "play": 1 + 3 + 2 + 2,
    },
    "demo": FULL | {"partition": 4 + 6 + 3 + 3, "trace": 9 + 12 + 12 + 4, "train": 90 + 24 + 42 + 20 + 1},
    "paper": FULL
    | {
        "download": 4 + 4,
        "prepare": 4 + 1,
        "partition": 2 + 18 + 6 + 6 + 6,
        "trace": 54 + 12 + 75 + 12 + 9,
        "train": 540 + 84 + 75 + 2 * (42 + 36) + 48 + 12,
        "play": 2 + 3 + 2,
    },
    "decide": FULL
    | {
        "download": 4 + 4,
        "prepare": 4 + 1,
        "partition": 2 + 11 * (3 + 2 + 2 + 2),
        "trace": 11 * (9 + 4 + 25 + 4 + 3),
        "train": 11 * (90 + 28 + 25 + 2 * (14 + 12) + 12 + 4),
        "play": 2 + 3 + 2,
    },
}


@pytest.mark.parametrize("tier", TIERS)
def test_job_counts(tier: str, tmp_path: Path) -> None:
    """Table 2: dynamics x 10 algorithms x seeds and data sets; three of each but in tiny and demo.

    In the paper tier Table 2 has two readings, with partitions and traces of their own. Tables 8 and 9 add
    two values each (tiny: one), of two algorithms in the demo and seven in the paper tier; the two values of
    alpha have partitions of their own, all four have traces. Figure 3 and Section 7.1 come last in each sum:
    in the paper tier 25 dynamics on Table 2's partitions, and groups on both data sets under two dynamics.
    The tier decide is the paper tier with 11 seeds for 3, and one reading of each block.
    Partitions further: those of Figures 14 (20 clients) and 15 (100 clients) for the first seed; in the demo
    Figure 14 shares Table 2's. The scalar cells of the partial-participation paper: Figure 1, Table II,
    Figure 3, Theorems 2 and 3, and the speedup of Remarks 2 and 3 on two problems, over S and over T, which
    share a cell (tiny: none). The cells of FedSWE without training: one for Figures 1 and 2, two for 4 and
    5, and for the checks one a dynamics and two more; two for the dynamics of Section 7.1. Ten more check
    closed forms: one, rates: two, cost: four algorithms, and the lemmas of the other paper: three problems.

    IncentFedAvg stands last: Figures 1, 2 (in the paper tier under two readings) and 4 are trained, with
    partitions by size; games are played once a setting, and Figures 1 and 2 share one on the digits. Its
    analyses: three steps of Lemma 4.3, Lemma 4.4, three games, two games' theorems, three nearest settings,
    and for the claims four games from many starts. FedAvg on all data, once a H, and the two games of
    Figures 1 and 2 at full size are for the claims as well; in the paper tier the figures have the same.
    """
    cells = TIERS[tier]
    planned = copy_workflow(tmp_path / "fresh").planned(tier=tier)
    assert Counter(job.split()[0] for job in planned) == SHARED | cells


def test_one_figure_plans_no_training(tmp_path: Path) -> None:
    planned = copy_workflow(tmp_path / "fresh").planned("fedswe_fig14")
    assert {job.split()[0] for job in planned} == {"prepare", "partition", "analyse", "collect", "draw"}


@pytest.mark.parametrize(
    "target", ["all", "fedswe", "partial", "incentive", "report", "fedswe_fig14", "partial_table2", "claims"]
)
def test_targets_exist_and_are_done(target: str, finished: Workflow) -> None:
    assert finished.planned(target) == set()


def test_the_search_for_rates_runs_when_asked_for(workflow: Workflow) -> None:
    """Four pairs of rates, the printed one as in Table 2, and two of gFedAvg; the report shows none of it."""
    planned = Counter(job.split()[0] for job in workflow.planned("fedswe_tuning"))
    assert planned == {"train": 3 + 2, "collect": 2, "make": 1}
    found = workflow.snakemake("-c2", "fedswe_tuning")
    assert found.returncode == 0, found.stderr + found.stdout
    table = pd.read_csv(workflow.folder / "results/tiny/tables/fedswe_tuning.csv")
    assert table["searched"].tolist() == [4, 2] and table["best_accuracy_percent"].between(0, 100).all()
    assert workflow.planned() == set()
    assert 'id="fedswe_tuning"' not in (workflow.folder / "results/tiny/report/index.html").read_text()


def test_table_is_complete(finished: Workflow) -> None:
    """20 rows of the server's model, 6 of other ones, each beside the published number."""
    table = pd.read_csv(finished.folder / "results/tiny/tables/fedswe_table2.csv")
    rows = table[table["evaluated"] == "server"]
    assert len(rows) == 10 * 2 and len(table) == len(rows) + 3 * 2
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
    (cell,) = finished.cells("sine", "fedavg_active")
    metrics = pd.read_parquet(finished.folder / f"results/tiny/cells/{cell}/metrics.parquet")
    window = metrics[(metrics["split"] == "test") & (metrics["round"] > 4)]
    assert list(window["round"]) == [5, 6]
    table = pd.read_csv(finished.folder / "results/tiny/tables/fedswe_table2.csv")
    row = table.query("dynamics == 'sine' and algorithm == 'fedavg_active' and split == 'test'")
    assert row["ours_mean"].item() == pytest.approx(100 * window["accuracy"].mean(), abs=1e-9)


def test_report_shows_everything(finished: Workflow) -> None:
    page = (finished.folder / "results/tiny/report/index.html").read_text()
    names = [*(f"fedswe_fig{n:02}" for n in range(1, 17) if n != 13), "fedswe_theory", "incentive_theory"]
    names += [f"fedswe_table{n}" for n in (2, 5, 6, 7, 8, 9)]
    names += [f"incentive_{name}" for name in ("fig1", "fig2", "fig3", "fig4", "lemma43", "lemma44")]
    for name in names:
        assert f'id="{name}"' in page
    assert page.count("data:image/png;base64,") == 13 + 8 + 6 and "<table><caption>" in page
    assert "Reduced scale: not comparable" in page and "PARTIAL" not in page
    assert not re.search(r'(src|href)="(https?:)?//', page), "the page must work without a network"
    links = re.findall(r'href="(\.\./[^"]+)"', page)
    assert links and all((finished.folder / "results/tiny/report" / link).exists() for link in links)
    for paper in ("fedswe", "partial", "incentive"):  # demo-size stands in two ledgers
        for entry in load_deviations(ROOT / "config/papers" / paper / "deviations.yaml"):
            assert f'id="deviation-{paper}-{entry}"' in page
    anchors = re.findall(r'href="#([^"]+)"', page)
    assert anchors and all(f'id="{anchor}"' in page for anchor in anchors)


def test_claims_are_decided_and_open_in_the_report(finished: Workflow) -> None:
    """The tiny tier is no evidence for training; printed numbers and theory at full scale decide."""
    page = (finished.folder / "results/tiny/report/index.html").read_text()
    verdicts: dict[str, str] = {}
    for paper, number in (("fedswe", 108), ("partial", 31), ("incentive", 37)):
        rows = pd.read_csv(finished.folder / f"results/tiny/claims/{paper}.csv")
        assert len(rows) == number
        verdicts |= dict(zip(rows["id"], rows["verdict"], strict=True))
        trained = rows[rows["by"] == "training"]
        assert set(trained["verdict"]) <= {"not comparable", "not run"}
        shown = trained[(trained["verdict"] == "not comparable") & trained["reason"].str.startswith("not at")]
        assert shown["deviations"].notna().all()
    assert page.count('class="forest"') > len(verdicts) / 2
    for claim in verdicts:
        assert f'<details id="claim-{claim}">' in page
    assert page.count('<a href="#claim-fedswe.lemma11.bound.p1">') == 2, "from the ledger and from its table"
    assert verdicts["fedswe.lemma11.bound.p1"] == "disagrees"
    assert verdicts["fedswe.cor14.identity.rate"] == "disagrees"
    assert verdicts["fedswe.cor14.identity.order"] == verdicts["fedswe.lemma9.bound.descent"] == "disagrees"
    assert verdicts["fedswe.lemma21.bound.errors"] == "agrees"
    assert verdicts["partial.lemma3.identity.sampling"] == "agrees"
    assert verdicts["partial.t2.value.gap"] == verdicts["fedswe.cost.value.hours"] == "not comparable"
    assert "without deciding: median absolute difference" in page
    assert verdicts["incentive.lemma42.identity.mean"] == "disagrees"
    assert verdicts["incentive.th46.bound.ne"] == "agrees"
    assert verdicts["incentive.fig4.trend.absorb"] == "not comparable"  # fewer rounds than the paper's


def test_verdicts_rebuild_without_cells(workflow: Workflow) -> None:
    """From what is collected alone, to the same bytes; a changed number changes its verdict."""
    folder = workflow.folder / "results/tiny"
    for name in ("cells", "partitions", "traces"):
        shutil.rmtree(folder / name)
    collected = sorted(str(path) for path in folder.glob("collected/fedswe_*.parquet"))
    outputs = [folder / "claims/fedswe.csv", folder / "claims/fedswe.json"]
    before = [path.read_bytes() for path in outputs]
    for path in outputs:
        path.unlink()
    run = workflow.fedrepro("claims", "fedswe", "--collected", *collected, "--out", *map(str, outputs))
    assert run.returncode == 0, run.stderr
    assert [path.read_bytes() for path in outputs] == before

    table = folder / "collected/fedswe_theory_closed.parquet"
    rows = pd.read_parquet(table)
    rows.loc[rows["check"] == "Rates of Corollary 14", "computed"] = 1.0
    rows.to_parquet(table)
    facts = json.loads(sidecar_path(table).read_text())
    sidecar_path(table).write_text(json.dumps(facts | describe(table.read_bytes(), len(rows))))
    run = workflow.fedrepro("claims", "fedswe", "--collected", *collected, "--out", *map(str, outputs))
    assert run.returncode == 0, run.stderr
    verdicts = pd.read_csv(outputs[0]).set_index("id")["verdict"]
    old = pd.read_csv(io.BytesIO(before[0])).set_index("id")["verdict"]
    changed = verdicts[verdicts != old]
    assert dict(changed) == {"fedswe.cor14.identity.rate": "agrees"}


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
    command = [sys.executable, "-m", "snakemake", "-c2", "fedswe_table2", "--config", "tier=tiny"]
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
