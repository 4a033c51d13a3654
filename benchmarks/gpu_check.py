"""Measure the training engine on a GPU and compare it with the CPU: ``make gpu-check``.

Needs Python 3.11, NumPy and PyTorch 2.11 or later and nothing else; images are synthetic. Writes one JSON
file: client steps per second of every design and precision (the SVHN network, 40 clients a round, batches of
128, crops, clipping), their share of the device's measured matrix-product peak, memory, agreement with the
CPU in float64, and the time that one cell of the FedSWE paper's Table 2 would take on each data set.
"""

import argparse
import json
import platform
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

try:
    import annotated_types  # noqa: F401
except ImportError:  # ranges of parameters: only plans check them
    stub: Any = types.ModuleType("annotated_types")
    for name in ("Ge", "Gt", "Le", "Lt"):
        setattr(stub, name, lambda limit: limit)
    sys.modules["annotated_types"] = stub

from fedrepro.algorithms import fedswe, mifa
from fedrepro.core import engine, numerics
from fedrepro.core.algorithm import Algorithm
from fedrepro.core.cohort import DESIGNS, CohortPhase
from fedrepro.core.data import Split
from fedrepro.core.evaluation import evaluate
from fedrepro.core.local import LocalSteps, local_phase
from fedrepro.core.minibatches import Sampler
from fedrepro.core.model import Model
from fedrepro.core.spec import Choice, Evaluation, Partition, TrainSpec
from fedrepro.models import cnn

FLOPS_PER_IMAGE = 19_275_264  # forward and backward pass of the SVHN network, see docs/performance.md
PRECISIONS = ("fp32", "tf32", "bf16")
ACTIVE = 40  # clients of a mean round under stationary availability
NETWORKS = {
    "svhn": ((73_257, 26_032), cnn.Params((32, 32), (128,)), {"crop": 4}),
    "cifar10": ((50_000, 10_000), cnn.Params((32, 32), (256, 64)), {"crop": 4, "flip": True}),
    "cinic10": ((90_000, 90_000), cnn.Params((32, 32), (512, 256), 0.2), {"crop": 4, "flip": True}),
}
SPEC = TrainSpec(
    dataset="svhn",
    seed=3,
    partition=Partition(100, 0.1),
    dynamics=Choice("stationary"),
    algorithm=Choice("fedavg_active"),
    model=Choice("cnn"),
    rounds=10_000,
    local_steps=10,
    batch_size=128,
    local_lr=0.05,
    lr_schedule="inverse_sqrt",
    clip="local_grad",
    evaluation=Evaluation(10_000, 10_000, 0, 1),
)


def splits(sizes: tuple[int, int], device: str, dtype: torch.dtype, side: int = 32) -> Iterator[Split]:
    """Random images and labels of a data set's shape."""
    rng = np.random.default_rng(1)
    for size in sizes:
        images = torch.from_numpy(rng.integers(0, 256, (size, side, side, 3), dtype=np.uint8))
        labels = torch.from_numpy(rng.integers(0, 10, size))
        scale, shift = torch.full((3,), 1 / 64, dtype=dtype), torch.full((3,), -2.0, dtype=dtype)
        yield Split(images, labels, scale, shift).to(device)


def cyclic_trace(spec: TrainSpec, active: int) -> np.ndarray:
    """A trace (T, m) in which ``active`` clients are there in every round, other ones each time."""
    clients = spec.partition.clients
    position = (np.arange(clients) - active * np.arange(spec.rounds)[:, None]) % clients
    return position < active


def task_of(spec: TrainSpec, sizes: tuple[int, int], active: int, device: str, side: int = 32) -> engine.Task:
    """A task on synthetic images, clients of nearly equal size."""
    train, test = splits(sizes, device, numerics.STORAGE[spec.numerics], side)
    trace = cyclic_trace(spec, active)
    client = (np.arange(sizes[0]) % spec.partition.clients).astype(np.int32)
    return engine.Task(train, test, client, trace, np.full(trace.shape, 0.5))


def model_of(spec: TrainSpec, params: cnn.Params, side: int = 32) -> Model:
    """The network of a data set."""
    return Model(cnn, (side, side, 3), 10, params, numerics.COMPUTE.get(spec.numerics))


def synchronise(device: str) -> None:
    """Wait for the device."""
    if device == "cuda":
        torch.cuda.synchronize()


def timed(step: Callable[[], object], seconds: float, device: str) -> float:
    """Seconds of one call: the mean over as many as fit, after one to warm up."""
    step()
    synchronise(device)
    started, calls = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        step()
        synchronise(device)
        calls += 1
    return (time.perf_counter() - started) / calls


def peaks(device: str, size: int, seconds: float) -> dict[str, float]:
    """TFLOP/s of a square matrix product in each precision."""
    found = {}
    for precision in PRECISIONS:
        numerics.configure(precision, device)
        dtype = numerics.COMPUTE.get(precision, torch.float32)
        a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
        product = torch.empty_like(a)
        found[precision] = 2 * size**3 / timed(partial(torch.mm, a, b, out=product), seconds, device) / 1e12
    return found


def rate_of(
    spec: TrainSpec, phase: CohortPhase, sizes: tuple[int, int], active: int, device: str, seconds: float
) -> dict[str, Any]:
    """Client steps per second of whole rounds: draws, local phase, aggregation; and peak memory in GB."""
    numerics.configure(spec.numerics, device)
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    task, model = task_of(spec, sizes, active, device), model_of(spec, cnn.Params())
    sampler = Sampler(task.client, task.active, spec)
    server = model.initial(3, "svhn", torch.float32).to(device)
    rounds = iter(range(spec.rounds))

    def one_round() -> None:
        t = next(rounds)
        clients = np.flatnonzero(task.active[t])
        start = server.expand(len(clients), -1)
        work = LocalSteps(start, sampler.draw(clients, t), 0.05, spec.clip_norm, spec.crop)
        server.add_((phase(model, task.train, work) - start).mean(0))

    each = timed(one_round, seconds, device)
    found: dict[str, Any] = {
        "client_steps_per_second": active * spec.local_steps / each,
        "round_ms": 1e3 * each,
    }
    if device == "cuda":
        found["memory_gb"] = torch.cuda.max_memory_allocated() / 1e9
        torch.cuda.set_sync_debug_mode("error")  # a round that waits for the device raises
        try:
            one_round()
            found["waits_inside_a_round"] = False
        except RuntimeError as error:
            found["waits_inside_a_round"] = str(error)[:200]
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return found


def agreement(phase: CohortPhase, device: str) -> float:
    """Largest difference in float64 of accuracies, losses and consensus errors to the CPU, over three rounds.

    A small network with dropout, crops and flips; the second round is empty.
    """
    spec = replace(
        SPEC, partition=Partition(4, 0.1), rounds=3, local_steps=3, batch_size=16, numerics="fp64",
        evaluation=Evaluation(1, 1, 0, 1), crop=2, flip=True,
    )  # fmt: skip
    rows = []
    for place, chosen in (("cpu", local_phase), (device, phase)):
        task = task_of(spec, (150, 60), 3, place, side=8)
        task.active[1] = False
        model = model_of(spec, cnn.Params((8, 8), (12,), 0.2), side=8)
        algorithm = Algorithm(fedswe, fedswe.Params(1.0))
        rows.append(engine.run(spec, task, algorithm, model, chosen, lambda progress: None).rows)
    numbers = ("loss", "accuracy", "consensus_error")
    return max(abs(a[key] - b[key]) for a, b in zip(*rows, strict=True) for key in numbers)


def cell_of(
    dataset: str, phase: CohortPhase, device: str, seconds: float, precision: str
) -> dict[str, float]:
    """Time of one 2,000-round cell, from rounds and evaluations measured one by one (MIFA, 40 clients)."""
    sizes, params, augmentation = NETWORKS[dataset]
    spec = replace(SPEC, dataset=dataset, numerics=precision, **augmentation)
    numerics.configure(precision, device)
    task, model = task_of(spec, sizes, ACTIVE, device), model_of(spec, params)
    sampler = Sampler(task.client, task.active, spec)
    algorithm = Algorithm(mifa, mifa.Params())
    state = algorithm.init(model.initial(3, dataset, torch.float32).to(device), spec.partition.clients)
    rounds = iter(range(spec.rounds))

    def one_round() -> None:
        t = next(rounds)
        cohort, delta = engine.updates(spec, task, algorithm, model, phase, sampler, state, t)
        algorithm.round(state, cohort, delta)

    each = timed(one_round, seconds, device)
    tests, trains = (
        timed(partial(evaluate, model, state["server"], split), 0.5, device)
        for split in (task.test, task.train)
    )
    # Every 20th round test, every 100th train, both every 2nd of the last 50: 122 and 45 evaluations.
    evaluation = 122 * tests + 45 * trains
    return {
        "seconds": 2000 * each + evaluation,
        "round_ms": 1e3 * each,
        "evaluation_share": evaluation / (2000 * each + evaluation),
        "weights": model.size,
    }


def attempt(call: Callable[[], Any]) -> Any:
    """The result of a measurement, or what it failed with: one design must not end the check."""
    try:
        return call()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def measure(device: str, minutes: float, *, small: bool) -> dict[str, Any]:
    """Everything, most important first; what does not fit the time is left out and says so."""
    started = time.monotonic()
    seconds, active = (0.01, 2) if small else (2.0, ACTIVE)
    sizes = (2000, 100) if small else NETWORKS["svhn"][0]
    spec = replace(SPEC, batch_size=8, local_steps=2) if small else SPEC
    spec = replace(spec, crop=4)
    report: dict[str, Any] = {"peak_tflops": peaks(device, 128 if small else 8192, seconds / 4)}
    phases = {design: CohortPhase(design) for design in DESIGNS}
    if device == "cuda":
        phases |= {f"{design}, graphs": CohortPhase(design, graphs=True) for design in DESIGNS}
    report["difference_to_cpu_float64"] = {
        name: attempt(partial(agreement, phase, device)) for name, phase in phases.items()
    }
    rates: dict[str, Any] = {}
    report["designs"] = rates
    for precision in PRECISIONS:
        for name in phases:
            key = f"{name}, {precision}"
            if time.monotonic() - started > 0.6 * 60 * minutes:
                rates[key] = {"error": "left out: no time"}
                continue
            phase = CohortPhase(phases[name].design, phases[name].graphs)
            chosen = replace(spec, numerics=precision)
            found = attempt(partial(rate_of, chosen, phase, sizes, active, device, seconds))
            if "error" not in found:
                flops = found["client_steps_per_second"] * spec.batch_size * FLOPS_PER_IMAGE
                found["share_of_peak"] = flops / 1e12 / report["peak_tflops"][precision]
            rates[key] = found
            print(f"{key:28} {json.dumps(found)}", flush=True)
    valid = {key: value["client_steps_per_second"] for key, value in rates.items() if "error" not in value}
    best = max((key for key in valid if key.endswith("fp32")), key=valid.__getitem__)
    report["fastest_fp32"] = best
    chosen_phase = phases[best.rpartition(", ")[0]]
    report["table2_cells"] = {}
    for dataset in () if small else NETWORKS:
        phase = CohortPhase(chosen_phase.design, chosen_phase.graphs)
        found = attempt(partial(cell_of, dataset, phase, device, 2 * seconds, "fp32"))
        report["table2_cells"][dataset] = found
        print(f"{dataset:28} {json.dumps(found)}", flush=True)
    report["seconds"] = time.monotonic() - started
    return report


def main() -> None:
    """Measure, print, and write the JSON file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/bench/gpu.json"))
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes on the CPU: does the check run?")
    options = parser.parse_args()
    if not (torch.cuda.is_available() or options.rehearse):
        print("skipped: PyTorch sees no CUDA device; nothing was measured")
        return
    device = "cpu" if options.rehearse else "cuda"
    report = measure(device, options.minutes, small=options.rehearse)
    report["versions"] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }
    report["device"] = torch.cuda.get_device_name() if device == "cuda" else "cpu, rehearsal"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = options.out.with_suffix(".tmp")
    temporary.write_text(json.dumps(report, indent=1) + "\n")
    temporary.replace(options.out)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
