"""The page ``docs/datasets.md``, written from the plugins and cards of the data sets."""

from fedrepro.core import registry
from fedrepro.plan.cards import DATA, DatasetCard, card
from fedrepro.provenance.header import Header, header

HEAD = f"""\
# Data sets

Written by `fedrepro config` from the files in `src/fedrepro/datasets`: do not edit.

## Getting them

Only `mnist5k` comes with the installation. The others are downloaded by the workflow when a tier needs them,
or beforehand:

```sh
fedrepro data status --config tier=paper
fedrepro data fetch --config tier=paper
```

Every file is checked against the published checksum, on arrival and again before it is read; a file that
fails is deleted. An interrupted download goes on where it stopped. Raw files lie in `{DATA}/raw/<data set>/`,
prepared ones in `{DATA}/<data set>/`, for all tiers.

- **Without a network**, put the files there by hand, under the names below; the workflow takes them as they
  are.
- **`FEDREPRO_DATA`**, an environment variable: a folder with `<data set>/<file>`, for instance shared on a
  cluster.
- **`FEDREPRO_MIRROR`**: the URL of such a folder, tried before the published ones. `python -m http.server`
  in `{DATA}/raw` makes one.

No result depends on where a file came from. Once a data set is prepared, its raw files may be deleted.
"""


def dataset_page() -> str:
    """The page, with the data sets in alphabetical order."""
    names = registry.names("dataset")
    return "\n".join([HEAD, *(_section(name, card(name), header("dataset", name)) for name in names)])


def _section(name: str, facts: DatasetCard, plugin: Header) -> str:
    height, width, channels = plugin.constant("SHAPE")
    labels = plugin.constant("NAMES")
    lines = [
        f"## `{name}`: {facts.title}",
        "",
        f"- **Source:** {facts.source}",
        f"- **Licence:** {facts.licence}",
        f"- **Citation:** {facts.citation}",
        f"- **Images:** {height} x {width}, {'colour' if channels == 3 else 'grey'}; "
        f"{facts.samples['train']:,} for training, {facts.samples['test']:,} for testing",
        f"- **Normalisation:** mean {_numbers(plugin, 'MEAN')}, deviation {_numbers(plugin, 'STD')}; "
        f"{facts.normalisation}",
        "",
        "| class | training | test |",
        "|---|---:|---:|",
    ]
    for label, train, test in zip(labels, facts.counts["train"], facts.counts["test"], strict=True):
        lines.append(f"| {label} | {train:,} | {test:,} |")
    if facts.files:
        lines += ["", "| file | bytes | checksum | from |", "|---|---:|---|---|"]
    for file in facts.files.values():
        urls = ", ".join(f"[{number}]({url})" for number, url in enumerate(file.urls, start=1))
        lines.append(f"| `{file.name}` | {file.bytes:,} | `{file.checksum}` | {urls} |")
    return "\n".join(lines) + "\n"


def _numbers(plugin: Header, constant: str) -> str:
    return ", ".join(map(str, plugin.constant(constant)))
