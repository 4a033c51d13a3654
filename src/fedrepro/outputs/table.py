"""Making one table: CSV, Markdown, LaTeX, and the HTML fragment of the report."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fedrepro.core import registry
from fedrepro.outputs.collected import read_collected
from fedrepro.outputs.stamp import stamp
from fedrepro.presentation.tables import html_table, latex, markdown
from fedrepro.runtime.atomic import write_all


def make_table(name: str, collected: Sequence[Path], reference: Path | None, out: Sequence[Path]) -> None:
    """Build a table plugin from the collected experiments it needs and the published numbers.

    A plugin provides ``build(experiments, reference) -> Table``; ``REFERENCE`` is the target whose published
    numbers it gets, usually its own.
    """
    plugin = registry.load("table", name)
    experiments = read_collected(collected)
    published = None
    if reference is not None:
        published = pd.read_csv(reference)
        published = published[published["target"] == plugin.REFERENCE]
    table = plugin.build({key: item.frame for key, item in experiments.items()}, published)
    stamps = stamp(item.facts for item in experiments.values()).lines
    notes = "".join(f"<li>{note}</li>" for note in table.notes)
    fragment = f"{html_table(table)}\n<ul>{notes}</ul>\n"
    contents = {
        ".csv": table.rows.to_csv(index=False, lineterminator="\n"),
        ".md": markdown(table, stamps),
        ".tex": latex(table, stamps),
        ".html": fragment,
    }
    write_all({path: contents[path.suffix].encode() for path in out})
