"""Drawing one figure: PDF, PNG, and a CSV of what is drawn."""

from collections.abc import Sequence
from pathlib import Path

from fedrepro.core import registry
from fedrepro.outputs.collected import read_collected
from fedrepro.outputs.stamp import stamp
from fedrepro.presentation import style
from fedrepro.runtime.atomic import write_all


def make_figure(name: str, collected: Sequence[Path], out: Sequence[Path]) -> None:
    """Draw a figure plugin from the collected experiments it needs.

    A plugin provides ``data(frames)``, the rows that are drawn, and ``draw(data)``, the figure.
    """
    plugin = registry.load("figure", name)
    experiments = read_collected(collected)
    data = plugin.data({key: item.present for key, item in experiments.items()})
    style.use()
    figure = plugin.draw(data)
    style.put_stamp(figure, stamp(item.facts for item in experiments.values()).lines)
    csv = data.to_csv(index=False, lineterminator="\n").encode()
    write_all({path: csv if path.suffix == ".csv" else style.render(figure, path.suffix) for path in out})
