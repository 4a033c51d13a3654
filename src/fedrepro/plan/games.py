"""Checks of games in a grid: whether game, participation, partition and algorithm fit together."""

from typing import Any

from fedrepro.errors import FedreproError
from fedrepro.provenance.header import header, resolved


def check_game(where: str, spec: Any) -> None:
    """A game has a participation, one value for each client, and bounds that the clients' data allow.

    Raises
    ------
    FedreproError
        If something is missing or does not fit; the message names the key.
    """
    if (spec.game is None) != (spec.participation is None):
        lacking = "participation" if spec.participation is None else "game"
        raise FedreproError(f"{where}: key {lacking!r} is missing; 'game' and 'participation' go together")
    if spec.kind == "train":
        _check_training(where, spec)
    if spec.game is None:
        return
    clients = len(spec.participation.upper)
    for key, value in resolved(spec)["game"]["params"].items():
        if isinstance(value, tuple) and value and len(value) != clients:
            raise FedreproError(
                f"{where}: key 'game.{key}': {len(value)} values for the {clients} clients of "
                "participation.upper; give one for each"
            )


def _check_training(where: str, spec: Any) -> None:
    if spec.game is None:
        if header("algorithm", spec.algorithm.name).constant("GAME", False):
            raise FedreproError(
                f"{where}: algorithm {spec.algorithm.name!r} needs the keys 'game' and 'participation'; set "
                "them, or choose another algorithm"
            )
        return
    upper = spec.participation.upper
    if len(upper) != spec.partition.clients:
        raise FedreproError(
            f"{where}: key 'participation.upper': {len(upper)} bounds for the {spec.partition.clients} "
            "clients of the partition; give one for each"
        )
    for client, (largest, held) in enumerate(zip(upper, spec.partition.sizes, strict=False)):
        if largest > held:
            raise FedreproError(
                f"{where}: key 'participation.upper': client {client} may contribute {largest} images, but "
                f"partition.sizes gives it {held}; use at most that"
            )
