"""The rerun matrix: which jobs run again after which change, exactly."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedrepro.plan.plan import make_plan
from tests.workflow.conftest import ROOT, Workflow

PLAN = make_plan(ROOT, {"tier": "tiny"})
ALGORITHMS = "src/fedrepro/algorithms"
GRID = "config/papers/fedswe/grid.yaml"
REPORT = {"write results/tiny/report/index.html"}
SPEEDUPS = {f"partial_speedup_{name}" for name in ("sampled", "rounds", "sampled_huber", "rounds_huber")}
SIMULATED = {
    "partial_fig1", "partial_table2", "partial_fig3", "partial_theorem2", "partial_theorem3", *SPEEDUPS,
}  # fmt: skip
FROM_SIMULATED = {"partial_fig1", "partial_fig2", "partial_fig3", "partial_theorem2", "partial_theorem3"}

Change = Callable[[Workflow], None]
Jobs = Callable[[Workflow], set[str]]


def edit(path: str, old: str, new: str) -> Change:
    return lambda workflow: workflow.edit(path, old, new)


def append(path: str, text: str) -> Change:
    def change(workflow: Workflow) -> None:
        with (workflow.folder / path).open("a") as file:
            file.write(text)

    return change


def nothing(workflow: Workflow) -> set[str]:
    return set()


def jobs(*names: str) -> Jobs:
    return lambda workflow: set(names)


def outputs(cells: set[str]) -> set[str]:
    """What is collected, drawn and made from cells, and the report."""
    experiments = {name for name in PLAN.reported_experiments if cells & set(PLAN.experiments[name].cells)}
    targets = [target for target in PLAN.reported.values() if experiments & set(target.needs)]
    verbs = {"figure": "draw", "table": "make"}
    made = {f"{verbs[target.kind]} {target.name}" for target in targets}
    decided = {f"decide {p}_claims" for p in PLAN.claims if experiments & set(PLAN.claim_needs(p))}
    return {f"collect {name}" for name in experiments} | made | decided | REPORT


def trained(*words: str) -> Jobs:
    def again(workflow: Workflow) -> set[str]:
        cells = workflow.cells("train", *words)
        return {f"train {cell}" for cell in cells} | outputs(cells)

    return again


def analysed(workflow: Workflow, *words: str) -> set[str]:
    cells = workflow.cells("analysis", *words)
    return {f"analyse {cell}" for cell in cells} | outputs(cells)


def convolutional(workflow: Workflow) -> set[str]:
    """Training with a network that has convolutions: all but the third paper's."""
    cells = {cell for cell in workflow.cells("train") if '"name":"cnn"' in PLAN.cells[cell].spec}
    return {f"train {cell}" for cell in cells} | outputs(cells)


def played(workflow: Workflow, game: str) -> set[str]:
    cells = workflow.cells("game", game)
    return {f"play {cell}" for cell in cells} | outputs(cells)


def of_zero_sum(workflow: Workflow) -> set[str]:
    return played(workflow, "zero_sum") | trained("zero_sum")(workflow) | analysed(workflow, "zero_sum")


def shared(workflow: Workflow, folder: str, word: str = "mnist5k") -> set[str]:
    files = workflow.folder.glob(f"results/tiny/{folder}/*.parquet")
    return {f"{folder.removesuffix('s')} {file.stem}" for file in files if word in file.stem.split("-")}


def simulated(workflow: Workflow) -> set[str]:
    cells = {f"simulate {cell}" for cell in workflow.cells("scalar")}
    outputs = {f"collect {name}" for name in SIMULATED} | {f"draw {name}" for name in FROM_SIMULATED}
    return cells | outputs | {"make partial_table2", "decide partial_claims"} | REPORT


def from_data(workflow: Workflow) -> set[str]:
    analyses = {
        job
        for name in ("class_counts", "base_probabilities", "availability_trace")
        for job in analysed(workflow, name)
    }
    return trained()(workflow) | analyses | shared(workflow, "partitions") | shared(workflow, "traces")


def random(workflow: Workflow) -> set[str]:
    drawn = (
        "availability_sample", "fedavg_bias", "spectral_norm", "alternating_clients", "availability_checks",
        "algorithm_checks", "linear_rate", "welfare_bounds", "participation_checks",
        "closed_form_checks", "descent_checks", "auxiliary_checks", "algorithm_cost", "convergence_bounds",
        "game_starts", "nearest_costs", "nearest_weight", "nearest_draws",
    )  # fmt: skip
    analyses = {job for name in drawn for job in analysed(workflow, name)}
    games = played(workflow, "discovery") | played(workflow, "discovery_welfare")
    claims = {f"decide {paper}_claims" for paper in PLAN.claims}
    return from_data(workflow) | analyses | games | simulated(workflow) | claims


def of_fedavg_active(workflow: Workflow) -> set[str]:
    return trained("fedavg_active")(workflow) | analysed(workflow, "fedavg_active")


def everything_of_the_data_set(workflow: Workflow) -> set[str]:
    return {"prepare mnist5k"} | from_data(workflow)


def on_huber40(workflow: Workflow) -> set[str]:
    cells = {f"simulate {cell}" for cell in workflow.cells("scalar", "huber40")}
    cells |= {f"analyse {cell}" for cell in workflow.cells("analysis", "huber40")}
    collected = {f"collect partial_{name}" for name in ("table2", "fig3", "heterogeneity", "theory")}
    collected |= {f"collect {name}" for name in SPEEDUPS if name.endswith("huber")}
    drawn = {f"draw partial_{name}" for name in ("fig2", "fig3", "theorem2")}
    return cells | collected | drawn | {"make partial_table2", "decide partial_claims"} | REPORT


def sine(workflow: Workflow) -> set[str]:
    return trained("sine")(workflow) | analysed(workflow, "sine") | shared(workflow, "traces", "sine")


def touch_all(workflow: Workflow) -> None:
    sizes = []
    for path in sorted(workflow.folder.rglob("*")):
        if path.is_file():
            path.touch()
            sizes.append(path.stat().st_size)
    assert max(sizes) > 10**6, "the case needs a file above Snakemake's checksum limit"


def leave(workflow: Workflow) -> None:
    """Change nothing: the fixture itself is a ``cp -r``."""


MATRIX: dict[str, tuple[Change, Jobs]] = {
    "copied tree": (leave, nothing),
    "touched files": (touch_all, nothing),
    "algorithm": (
        edit(f"{ALGORITHMS}/fedavg_active.py", "delta.mean(0)", "2 * delta.mean(0)"),
        of_fedavg_active,
    ),
    "comment": (append(f"{ALGORITHMS}/fedavg_active.py", "# a comment\n"), nothing),
    "docstring": (
        edit(f"{ALGORITHMS}/fedavg_active.py", "Move the server by the mean update.", "Take a mean step."),
        nothing,
    ),
    "citation": (edit(f"{ALGORITHMS}/fedavg_active.py", "McMahan et al., Comm", "McMahan, Comm"), nothing),
    "model": (
        edit("src/fedrepro/models/cnn.py", "F.relu(layers.linear", "F.silu(layers.linear"),
        convolutional,
    ),
    "dynamics": (edit("src/fedrepro/dynamics/sine.py", "* base", "* base**2"), sine),
    "random streams": (edit("src/fedrepro/core/rng.py", '"little"', '"big"'), random),
    "data set": (edit("src/fedrepro/datasets/mnist5k.py", "0.1307", "0.1308"), everything_of_the_data_set),
    "problem": (edit("src/fedrepro/problems/huber40.py", "CLIENTS - 2", "CLIENTS - (1 + 1)"), on_huber40),
    "game": (
        edit("src/fedrepro/games/zero_sum.py", "- values) - values", "- values) - 2 * values"),
        of_zero_sum,
    ),
    "kernel": (edit("src/fedrepro/core/scalar.py", "/= sampled", "*= 1 / sampled"), simulated),
    "licence": (edit("src/fedrepro/datasets/mnist5k.yaml", "free for research use", "free"), nothing),
    "runtime module": (edit("src/fedrepro/runtime/progress.py", "10.0", "5.0"), nothing),
    "command line": (append("src/fedrepro/cli.py", "UNUSED = 1\n"), nothing),
    "version": (edit("src/fedrepro/__init__.py", "0.", "9."), nothing),
    "figure": (
        edit("src/fedrepro/figures/fedswe_fig15.py", 'ylabel="Number', 'ylabel="The number'),
        jobs("draw fedswe_fig15", *REPORT),
    ),
    "table": (
        append("src/fedrepro/tables/fedswe_table2.py", "UNUSED = 1\n"),
        jobs("make fedswe_table2", *REPORT),
    ),
    "published number": (
        edit("config/papers/fedswe/reference.csv", "86.5,0.7", "86.4,0.7"),
        jobs(*(f"make fedswe_table{n}" for n in (2, 5, 6, 7, 8, 9)), "decide fedswe_claims", *REPORT),
    ),
    "caption": (append("workflow/report/fedswe_fig14.rst", "More words.\n"), jobs(*REPORT)),
    "deviation": (
        append("config/papers/fedswe/deviations.yaml", "# a remark\n"),
        jobs("decide fedswe_claims", *REPORT),
    ),
    "claim": (
        edit("config/papers/partial/claims.yaml", "factor: 1.5", "factor: 1.4"),
        jobs("decide partial_claims", *REPORT),
    ),
    "profile": (append("profiles/default/config.yaml", "printshellcmds: true\n"), nothing),
}


@pytest.mark.parametrize("case", MATRIX)
def test_change_reruns_exactly(case: str, workflow: Workflow) -> None:
    change, expected = MATRIX[case]
    jobs_before = expected(workflow)
    change(workflow)
    assert workflow.planned() == jobs_before


def test_swapped_values_rerun_their_cells(workflow: Workflow) -> None:
    """Snakemake compares params as a set; the ids of the cells are what keeps swapped values apart."""
    unchanged = workflow.cells("train", "fedavg_all")
    workflow.edit(GRID, "fedswe: {local_lr: 0.1}", "fedswe: {local_lr: 0.05}")
    workflow.edit(GRID, "fedavg_active: {local_lr: 0.05}", "fedavg_active: {local_lr: 0.1}")
    planned = workflow.planned()
    again = outputs(workflow.cells("train", "fedswe") | workflow.cells("train", "fedavg_active"))
    assert planned >= again
    cells = {job.removeprefix("train ") for job in planned - again}
    assert len(cells) == 5 + 4 and not cells & (unchanged | workflow.cells("train"))
    assert {cell.split("-")[3] for cell in cells} == {"fedswe", "fedavg_active"}


def test_added_seed_runs_its_cells(workflow: Workflow) -> None:
    (workflow.folder / "mine.yaml").write_text("seeds: [3, 4]\n")
    planned = workflow.planned("--configfile", "mine.yaml")
    again = outputs(workflow.cells("train"))
    new = planned - again
    assert planned >= again and all("-s4-" in job for job in new)
    kinds = [job.split()[0] for job in new]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "train": 12 + 4 + 4,
        "partition": 3 + 1,
        "trace": 5 + 1,
    }


def test_other_virtual_environment(workflow: Workflow, tmp_path: Path) -> None:
    other = tmp_path / "another" / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
    site = next(path for path in sys.path if path.endswith("site-packages"))
    target = next(other.glob("lib/python*/site-packages"))
    (target / "packages.pth").write_text(f"{site}\n")
    assert workflow.planned(python=str(other / "bin" / "python")) == set()


def test_other_profile(workflow: Workflow) -> None:
    run = workflow.snakemake("-n", "--workflow-profile", "profiles/gpu")
    assert run.returncode == 0 and "Nothing to be done" in run.stdout + run.stderr


def test_lost_metadata_and_edited_code_refuse(workflow: Workflow) -> None:
    """Without ``.snakemake`` Snakemake cannot know; the cells' manifests still do."""
    assert workflow.snakemake("--touch", "--forceall", "-c1").returncode == 0  # undo the copy's times
    shutil.rmtree(workflow.folder / ".snakemake")
    workflow.edit(f"{ALGORITHMS}/fedavg_all.py", "cohort.total", "(2 * cohort.total)")
    stale = workflow.cells("train", "fedavg_all")
    table = workflow.folder / "results/tiny/collected/fedswe_table2.parquet"
    before = table.read_bytes()
    target = "fedswe_table2"
    run = workflow.snakemake(target, "-c2")
    said = run.stdout + run.stderr
    assert run.returncode != 0 and "refused, 1 stale of 10 cells" in said
    assert all(f"{cell}: made by other code" in said for cell in stale)
    assert table.read_bytes() == before, "a refused collection must leave the old table"
    command = next(
        line for line in said.splitlines() if line.startswith("  snakemake -c2 --config tier=tiny")
    )
    assert command.count("manifest.json") == 1
    mended = workflow.command("bash", "-c", command)
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "10 of 10 cells collected" in mended.stdout + mended.stderr
    assert workflow.snakemake(target, "-c2").returncode == 0
    assert workflow.planned(target) == set()
    history = list(workflow.folder.glob("results/tiny/history/*/fedswe_table2.parquet"))
    assert [path.read_bytes() for path in history] == [before]


def test_copied_results_are_recovered(workflow: Workflow) -> None:
    """Results that came without ``.snakemake`` and with scrambled times: verify, then touch."""
    shutil.rmtree(workflow.folder / ".snakemake")
    for number, path in enumerate(sorted(workflow.folder.glob("results/**/*"), reverse=True)):
        os.utime(path, (10**9 + number, 10**9 + number))
    verified = workflow.fedrepro("plan", "verify", "--config", "tier=tiny")
    assert verified.returncode == 0 and f"{len(workflow.cells())} verified" in verified.stdout
    assert workflow.snakemake("--touch", "--forceall", "-c1").returncode == 0
    assert workflow.planned() == set()
