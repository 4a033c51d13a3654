"""Flower's simulation on the benchmark's workload: ``python -m benchmarks.peers.flower_peer``.

Two Ray actors of one CPU and one thread each run the ordinary loop's local training with its best settings.
Flower samples the clients itself; all have the same number of images.
"""

from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import Tensor, nn

from benchmarks import workload
from benchmarks.ordinary import Net, cropped_batches, train

ACTORS = 2
client_app = ClientApp()


@cache
def prepared() -> tuple[nn.Module, Tensor, Tensor]:
    """What an actor keeps between clients: a model to load weights into, and the data."""
    workload.tune_allocator()
    torch.set_num_threads(1)
    return (Net(), *workload.normalised())


@client_app.train()
def fit(message: Message, context: Context) -> Message:
    """Local training of one client."""
    model, images, labels = prepared()
    client = int(context.node_config["partition-id"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(model, cropped_batches(images[client], labels[client]))
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": workload.IMAGES}),
    }
    return Message(content=RecordDict(content), reply_to=message)


def replies(contents: list[RecordDict], weight: str) -> MetricRecord:
    """How many clients answered."""
    return MetricRecord({"clients": len(contents)})


def main() -> None:
    """Run rounds until the clock says stop."""
    options = workload.arguments().parse_args()
    clock = workload.Clock(options)
    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = FedAvg(
            fraction_train=workload.COHORT / workload.CLIENTS,
            fraction_evaluate=0.0,
            min_train_nodes=workload.COHORT,
            min_available_nodes=workload.CLIENTS,
            train_metrics_aggr_fn=replies,
        )
        arrays = ArrayRecord(Net().state_dict())
        while True:
            result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=1)
            if result.train_metrics_clientapp[1]["clients"] != workload.COHORT:
                raise RuntimeError("a client failed; its error stands above")
            arrays = result.arrays
            if clock.tick():
                break

    resources = {"num_cpus": 1, "num_gpus": 0.0}
    run_simulation(
        server_app,
        client_app,
        num_supernodes=workload.CLIENTS,
        backend_config={"client_resources": resources, "init_args": {"num_cpus": ACTORS}},
    )
    settings = {
        "crop": "one offset a batch",
        "allocator": workload.tune_allocator(),
        "layout": "NCHW",
        "data": "normalised float32 tensors in memory",
        "processes": ACTORS,
        "workers": f"Ray actors, client_resources {resources}",
        "clients": "sampled by Flower",
    }
    clock.report(1, settings, ["flwr", "ray"])


if __name__ == "__main__":
    from benchmarks.peers import flower_peer  # under its own name, so that actors import it once

    flower_peer.main()
