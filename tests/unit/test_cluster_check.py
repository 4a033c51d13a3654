"""What `fedrepro cluster check` finds, from answers of SLURM's commands; real ones are in tests/slurm."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fedrepro.errors import FedreproError
from fedrepro.plan import cluster
from fedrepro.plan.cost import Cost, write_costs
from fedrepro.plan.plan import Plan, make_plan
from tests.helpers import ROOT

SINFO = (
    "gpu|up|1-00:00:00|gpu:a100:4(S:0-1)|256000+\ncpu|up|infinite|(null)|64000\nold|down|1:00:00|gpu:4|64000"
)
CONFIG = "MinJobAge               = 300 sec"
Check = Callable[..., str]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(ROOT, {"tier": "tiny"})


@pytest.fixture
def check(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Check the tiny tier, nothing of which has run, against a cluster that answers with given texts."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("FEDREPRO_MAX_MINUTES", raising=False)

    def run(
        sinfo: str = SINFO, squeue: str = "", config: str = CONFIG, code: int = 0, **resources: str
    ) -> str:
        for name, answer in {"sinfo": sinfo, "squeue": squeue, "scontrol": config}.items():
            program = tmp_path / "bin" / name
            program.write_text(
                f"#!/bin/sh\ncat <<'TEXT'\n{answer}\nTEXT\necho 'no answer' >&2\nexit {code}\n"
            )
            program.chmod(0o755)
        text = (ROOT / "profiles/slurm/config.yaml").read_text()
        for key, value in ({"slurm_partition": "gpu"} | resources).items():
            text = re.sub(rf"^  {key}: .*$", "", text, flags=re.M)
            text = text.replace("default-resources:\n", f"default-resources:\n  {key}: {value}\n")
        (tmp_path / "profile").mkdir(exist_ok=True)
        (tmp_path / "profile/config.yaml").write_text(text)
        return cluster.check(plan, tmp_path / "profile")

    return run


def test_a_cluster_that_takes_the_jobs(check: Check) -> None:
    """Unknown cells ask for 190 minutes, and four attempts for four times as long: less than a day."""
    training, scalar, jobs = check().splitlines()
    assert training == "cell_train: 20 jobs of up to 190 minutes, partition gpu"
    assert scalar.startswith("cell_scalar: ")
    assert jobs == "no job of an earlier run is in the queue"
    assert "partition gpu" in check(gpu_model="a100")


FAULTS = [
    ({"slurm_partition": "gpus"}, r"slurm_partition 'gpus' does not exist here; did you mean 'gpu'\?"),
    ({"slurm_partition": "old"}, r"cell_train: partition old is down"),
    (
        {"slurm_partition": "cpu"},
        r"cell_train: partition cpu has no GPU \(its GRES: \(null\)\), .*wait for ever",
    ),
    ({"gpu_model": "h100"}, r"partition gpu has no GPU of model 'h100' \(its GRES: gpu:a100:4"),
    (
        {"sinfo": SINFO.replace("1-00:00:00", "4:00:00")},
        r"760 minutes in 4 attempts.* allows 240.*MAX_MINUTES=240",
    ),
    (
        {"sinfo": SINFO.replace("256000", "4000")},
        r"jobs ask for up to 4200 MB, but no node .* more than 4000",
    ),
    ({"config": "MinJobAge = 30 sec"}, r"forgets a finished job after 30 s \(MinJobAge\).* to 10 or less"),
    ({"code": 1}, r"sinfo fails, so the cluster does not answer: no answer"),
]


@pytest.mark.parametrize(("answers", "message"), FAULTS)
def test_what_would_wait_for_ever(check: Check, answers: dict[str, str], message: str) -> None:
    with pytest.raises(FedreproError, match=message):
        check(**answers)


def test_a_limit_on_run_time_is_kept(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDREPRO_MAX_MINUTES", "240")
    assert "up to 190 minutes" in check(SINFO.replace("1-00:00:00", "4:00:00"))


def test_the_estimate_is_what_the_jobs_ask_for(check: Check, plan: Plan) -> None:
    """1,000 s times 1.5 and ten minutes: 35."""
    write_costs(plan.out, dict.fromkeys(plan.cells, Cost(1000.0, 2000.0)))
    assert "up to 35 minutes" in check()


def test_jobs_of_an_earlier_run_here_and_of_nobody_else(check: Check) -> None:
    here, mine = Path.cwd(), "rule_cell_train_wildcards_train-x"
    jobs = (
        f"7|RUNNING|fedrepro_0a|{here}|{mine}\n8|PENDING|fedrepro_0a|/elsewhere|{mine}\n9|RUNNING|x|{here}|y"
    )
    with pytest.raises(
        FedreproError, match=rf"1 jobs of an earlier run.*\n  job 7 RUNNING: {mine}\n.*scancel 7$"
    ):
        check(squeue=jobs)


def test_without_slurm_it_says_where_to_run(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FedreproError, match=r"sinfo is not here; run .* on a login node"):
        cluster.check(plan, ROOT / "profiles/slurm")


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("30:00", 30), ("2:00:00", 120), ("1-00:00:00", 1440), ("7-12:30:00", 10830), ("infinite", math.inf)],
)
def test_time_limits(text: str, minutes: float) -> None:
    assert cluster.limit_minutes(text) == minutes
