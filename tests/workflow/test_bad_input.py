"""Bad input: each message names the file or key, the value and what is allowed, without a traceback."""

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.conftest import Workflow, copy_workflow

GRID = "config/papers/fedswe/grid.yaml"


@pytest.fixture
def fresh(tmp_path: Path) -> Workflow:
    """A workflow that has not run."""
    return copy_workflow(tmp_path / "fresh")


def refused(run: subprocess.CompletedProcess[str], *words: str) -> str:
    """The run failed, said all these words, and showed no traceback."""
    said = run.stdout + run.stderr
    assert run.returncode != 0, said
    assert "Traceback" not in said, said
    for word in words:
        assert word in said, f"{word!r} is not in:\n{said}"
    return said


CONFIG = {
    "unknown key": ("seedz=3", ["--config", "unknown key 'seedz'", "did you mean 'seeds'?"]),
    "wrong type": ("missing=7", ["--config", "key 'missing'", "7", "'refuse', 'show' or 'collected'"]),
    "list through --config": ("seeds=[5]", ["key 'seeds'", "['5']", "--configfile"]),
    "mapping through --config": ("only={seeds:3}", ["key 'only'", "seeds:3", "--configfile"]),
    "unknown tier": ("tier=huge", ["key 'tier'", "'huge'", "tiny, demo, paper"]),
}


@pytest.mark.parametrize("case", CONFIG)
def test_config_on_the_command_line(case: str, fresh: Workflow) -> None:
    pair, words = CONFIG[case]
    refused(fresh.command(sys.executable, "-m", "snakemake", "-n", "--config", pair), *words)


FILES = {
    "duplicate seeds": ("seeds: [3, 4, 3]", ["mine.yaml", "seeds", "[3]", "more than once"]),
    "no seeds": ("seeds: []", ["mine.yaml", "seeds", "at least 1"]),
    "unknown nested key": ("evaluation: {test_evry: 2}", ["mine.yaml", "test_evry", "'test_every'"]),
    "zero cadence": ("evaluation: {test_every: 0}", ["mine.yaml", "evaluation.test_every", "0", "greater"]),
    "seed as text": ("seeds: ['three']", ["mine.yaml", "seeds.0", "'three'", "integer"]),
    "unknown algorithm in only": ("only: {algorithms: [fedsw]}", ["only.algorithms", "'fedswe'"]),
    "unknown paper in only": ("only: {papers: [fedprox]}", ["only.papers", "'fedprox'", "fedswe"]),
    "seed outside the configured": ("only: {seeds: [7]}", ["only.seeds", "7", "3, 4, 6"]),
    "not YAML": ("seeds: [3", ["mine.yaml"]),
}


@pytest.mark.parametrize("case", FILES)
def test_config_file(case: str, fresh: Workflow) -> None:
    text, words = FILES[case]
    (fresh.folder / "mine.yaml").write_text(text + "\n")
    refused(fresh.fedrepro("plan", "list", "--configfile", "mine.yaml"), *words)


GRIDS = {
    "unknown algorithm": ("- fedavg_all", "- fedavg_al", ["'fedavg_al'", "did you mean 'fedavg_all'?"]),
    "alpha": ("alpha: 0.1} # S", "alpha: 0.0} # S", ["alpha", "0.0", "greater than 0"]),
    "more clients than samples": (
        "clients: 20}", "clients: 4001}",
        ["partition.clients", "4001", "4000 training images of mnist5k"],
    ),
    "empty grid": ("dataset: [svhn, cifar10, cinic10]", "dataset: []", ["axes.dataset", "empty list"]),
    "unknown field": ("      rounds: 2000", "      round: 2000", ["unknown key 'round'", "'rounds'"]),
    "unknown parameter": ("k_over_m: 0.0", "k_over: 0.0", ["fedswe", "unknown key 'k_over'", "'k_over_m'"]),
    "parameter out of range": ("k_over_m: 0.0", "k_over_m: -1.0", ["k_over_m", "-1.0", "or equal"]),
    "unknown data set": ("{svhn: mnist5k}", "{svhn: mnist6k}", ["'mnist6k'", "did you mean 'mnist5k'?"]),
    "fraction of rounds": ("          rounds: 100", "          rounds: 10.5", ["rounds", "10.5", "integer"]),
    "unknown block key": ("    where: \"Figure 14", "    were: \"Figure 14", ["fig14.were'", "'where'"]),
}  # fmt: skip


@pytest.mark.parametrize("case", GRIDS)
def test_grid(case: str, fresh: Workflow) -> None:
    old, new, words = GRIDS[case]
    fresh.edit(GRID, old, new)
    refused(fresh.fedrepro("plan", "list"), "grid.yaml", *words)


SCALAR = {
    "more sampled than clients": (", 20, 40]", ", 41]", ["'sampled'", "41", "40 of problem"]),
    "no local steps": ("local_steps: 10,", "local_steps: 0,", ["local_steps", "0", "or equal to 1"]),
    "negative step": ("step_size: 0.0125", "step_size: -0.1", ["step_size", "-0.1", "greater than 0"]),
    "no step": ("step_size: 0.0125", "step_size: 0.0", ["step_size", "0.0", "greater than 0"]),
    "unknown problem": ("softplus16, r", "softplus, r", ["did you mean 'softplus16'"]),
    "problem out of range": ("d_max: 50.0", "d_max: 0.0", ["d_max", "0.0", "greater than 0"]),
    "one trial": ("trials: 20", "trials: 1", ["trials", "1", "or equal to 2"]),
}  # fmt: skip


@pytest.mark.parametrize("case", SCALAR)
def test_grid_of_scalar_cells(case: str, fresh: Workflow) -> None:
    old, new, words = SCALAR[case]
    fresh.edit("config/papers/partial/grid.yaml", old, new)
    refused(fresh.fedrepro("plan", "list"), "partial/grid.yaml", *words)


GAMES = {
    "N_min above N_max": (
        "lower: 0.0 #", "lower: 7000.0 #", ["participation", "lower = 7000.0", "upper[3] = 6000"],
    ),
    "theta out of range": (
        "0.9, 0.1", "1.1, 0.1", ["cost_share", "[0, highest_cost = 1.0]", "larger highest_cost"],
    ),
    "N_max above the data": (
        "{upper: *mnist, step_size: 2000.0} #",
        "{upper: [15000, 8001, 18000, 6000, 13000], step_size: 2.0} #",
        ["fig1", "participation.upper", "client 1 may contribute 8001", "sizes gives it 8000"],
    ),
    "too few bounds": (
        "{upper: *mnist, step_size: 2000.0} #", "{upper: [9, 9], step_size: 2.0} #",
        ["participation.upper", "2 bounds for the 5 clients"],
    ),
    "too few coefficients": (
        "[0.1, 0.6, 0.6, 0.6, 0.11]}", "[0.1, 0.6]}", ["'game.beta'", "2 values for the 5"],
    ),
    "beta above one": ("0.6, 0.6, 0.6", "1.6, 0.6, 0.6", ["beta", "1.6", "less than or equal to 1"]),
    "unknown algorithm": ("algorithm: incentfedavg", "algorithm: incentfed", ["mean 'incentfedavg'"]),
    "no participation": (
        "participation: &heavy {<<: *schedules", "particip: &heavy {<<: *schedules",
        ["fig3_weight", "participation", "required"],
    ),
    "no step": ("step_size: 100000.0", "step_size: 0.0", ["step_size", "0.0", "greater than 0"]),
}  # fmt: skip


@pytest.mark.parametrize("case", GAMES)
def test_grid_of_games(case: str, fresh: Workflow) -> None:
    old, new, words = GAMES[case]
    fresh.edit("config/papers/incentive/grid.yaml", old, new)
    refused(fresh.fedrepro("plan", "list", "--config", "tier=paper"), "incentive/grid.yaml", *words)


def test_an_algorithm_without_its_game(fresh: Workflow) -> None:
    fresh.edit(GRID, "- fedavg_all\n", "- incentfedavg\n")
    fresh.edit(GRID, "fedavg_all: {local_lr: 0.05}", "incentfedavg: {local_lr: 0.05}")
    refused(fresh.fedrepro("plan", "list"), "'incentfedavg' needs the keys 'game' and 'participation'")


def test_grid_mistake_stops_snakemake_before_any_job(fresh: Workflow) -> None:
    fresh.edit(GRID, "- fedavg_all", "- fedavg_al")
    refused(fresh.snakemake("-c1"), "grid.yaml: experiments.table2", "'fedavg_al'")
    assert not (fresh.folder / "results").exists()


def test_published_number_without_a_cell(fresh: Workflow) -> None:
    fresh.edit("config/papers/fedswe/reference.csv", "sine,,,fedavg_all,,test", "cosine,,,fedavg_all,,test")
    refused(fresh.fedrepro("plan", "list"), "reference.csv, line", "cosine", "no cell of table2")


def test_broken_plugin_names_its_line(fresh: Workflow) -> None:
    (fresh.folder / "src/fedrepro/algorithms/fedavg_all.py").write_text('"""Broken."""\ndef (:\n')
    refused(fresh.snakemake("-n"), "fedavg_all.py, line 2", "invalid syntax")


def test_truncated_partition(workflow: Workflow) -> None:
    (cell,) = workflow.cells("sine", "fedavg_all")
    manifest = json.loads((workflow.folder / f"results/tiny/cells/{cell}/manifest.json").read_text())
    partition = workflow.folder / manifest["inputs"]["partition"]["path"]
    partition.write_bytes(partition.read_bytes()[:-100])
    target = f"results/tiny/cells/{cell}/manifest.json"
    run = workflow.snakemake("-c1", target, "--forcerun", target, "--show-failed-logs")
    refused_log(run, partition.name, "does not match its sidecar", "Delete it and run snakemake again")


def test_truncated_metrics_and_foreign_manifest(workflow: Workflow) -> None:
    (broken,) = workflow.cells("sine", "fedavg_all")
    (foreign,) = workflow.cells("sine", "fedavg_active")
    (donor,) = workflow.cells("sine", "fedau")
    cells = workflow.folder / "results/tiny/cells"
    metrics = cells / broken / "metrics.parquet"
    metrics.write_bytes(metrics.read_bytes()[:-10])
    shutil.copyfile(cells / donor / "manifest.json", cells / foreign / "manifest.json")
    verified = workflow.fedrepro("plan", "verify", "--config", "tier=tiny")
    refused(verified, f"{broken}: invalid", "truncated or changed", f"{foreign}: invalid", "foreign manifest")
    run = workflow.snakemake("-c1", "fedswe_table2")
    refused_log(run, "2 invalid of 10 cells", "--forcerun", broken, foreign)


def test_missing_show_makes_partial_outputs(workflow: Workflow) -> None:
    """One damaged and one absent cell of 10: the outputs are made and say so; nothing is trained."""
    (broken,) = workflow.cells("sine", "fedavg_all")
    (absent,) = workflow.cells("sine", "fedau")
    cells = workflow.folder / "results/tiny/cells"
    (cells / broken / "manifest.json").write_text("{")
    shutil.rmtree(cells / absent)
    (workflow.folder / "one.yaml").write_text("only: {papers: [fedswe]}\n")
    planned = workflow.planned("--configfile", "one.yaml", config=("missing=show",))
    assert not [job for job in planned if job.startswith("train")]
    run = workflow.snakemake("-c2", "--configfile", "one.yaml", config=("missing=show",))
    assert run.returncode == 0 and "PARTIAL: 2 of 10 not run" in run.stdout + run.stderr
    results = workflow.folder / "results/tiny"
    for name in ("tables/fedswe_table2.md", "report/index.html"):
        assert "PARTIAL: 2 of 10 cells not run" in (results / name).read_text()
    table = (results / "tables/fedswe_table2.md").read_text()
    assert table.count("| 1/1 missing |") == 2 * 2, "train and test of two cells"
    assert absent in (results / "report/index.html").read_text()
    assert workflow.planned() >= {f"train {absent}", "collect fedswe_table2"}


def test_failed_cell_does_not_stop_the_others(workflow: Workflow) -> None:
    """keep-going: another cell runs although one fails, and missing=show then makes the table."""
    workflow.edit(
        "src/fedrepro/algorithms/fedavg_all.py", "    state[", '    raise RuntimeError("broken")\n    state['
    )
    (other,) = workflow.cells("sine", "mifa")
    shutil.rmtree(workflow.folder / f"results/tiny/cells/{other}")
    run = workflow.snakemake("fedswe_table2", "-c1", "--keep-going", "--show-failed-logs")
    assert run.returncode != 0 and "RuntimeError: broken" in run.stdout + run.stderr
    assert not workflow.cells("fedavg_all"), "a failed cell leaves no result"
    assert workflow.cells("sine", "mifa") == {other}
    shown = workflow.snakemake("fedswe_table2", "-c1", config=("missing=show",))
    assert shown.returncode == 0 and "PARTIAL: 1 of 10 not run" in shown.stdout + shown.stderr


def test_full_disk_leaves_nothing_half_written(fresh: Workflow) -> None:
    """A limit on the size of files stands for a full disk: the training images are 3.1 MB."""
    plan = fresh.snakemake("-n", "--printshellcmds", "fedswe_fig14")
    line = next(item for item in plan.stdout.splitlines() + plan.stderr.splitlines() if "run prepare" in item)
    command = line[line.index("-m fedrepro") :].split(" 2>&1")[0]
    folder = fresh.folder / "results/data/mnist5k"
    run = subprocess.run(
        f"ulimit -f 1024; exec {sys.executable} {command}", shell=True, executable="/bin/bash",
        cwd=fresh.folder, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": "src"},
    )  # fmt: skip
    refused(run, "cannot write", "train.npy", "File too large", "nothing was changed")
    assert list(folder.iterdir()) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_unwritable_results_folder(fresh: Workflow) -> None:
    """A file in the place of the folder, since root may write anywhere."""
    (fresh.folder / "results").write_text("not a folder")
    refused(fresh.snakemake("-c1"), "cannot write results/tiny/plan", "nothing was changed")
    assert (fresh.folder / "results").read_text() == "not a folder"


def test_code_edited_after_planning(workflow: Workflow) -> None:
    (cell,) = workflow.cells("sine", "fedavg_all")
    spec = json.loads((workflow.folder / f"results/tiny/cells/{cell}/manifest.json").read_text())["canonical"]
    run = workflow.fedrepro(
        "run", "train", "--spec", spec, "--code", "0" * 12, "--output", "metrics=x/m",
        "manifest=x/manifest.json",
    )  # fmt: skip
    refused(run, "the code changed after this job was planned", "0" * 12)
    assert not (workflow.folder / "x").exists()


def test_another_copy_of_the_package(fresh: Workflow, tmp_path: Path) -> None:
    other = copy_workflow(tmp_path / "other")
    run = subprocess.run(
        [sys.executable, "-m", "fedrepro", "plan", "list"], cwd=fresh.folder, capture_output=True,
        text=True, check=False, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(other.folder / "src")},
    )  # fmt: skip
    refused(run, "another copy of the workflow")


def refused_log(run: subprocess.CompletedProcess[str], *words: str) -> None:
    """As `refused`, for a job: Snakemake adds words of its own around the job's message."""
    said = run.stdout + run.stderr
    assert run.returncode != 0, said
    for word in words:
        assert word in said, f"{word!r} is not in:\n{said}"
    assert "Traceback" not in said
