"""Where a site keeps raw data: environment variables, which no result depends on."""

import os
from collections.abc import Sequence
from pathlib import Path

from fedrepro.errors import FedreproError


def sources(dataset: str, name: str, urls: Sequence[str]) -> list[str]:
    """URLs of a file of a data set, in the order in which to try them.

    First the folder ``FEDREPRO_DATA``, then the mirror ``FEDREPRO_MIRROR``, both with a folder per data set,
    then the published URLs.
    """
    found = []
    if folder := os.environ.get("FEDREPRO_DATA"):
        if not Path(folder).is_dir():
            raise FedreproError(
                f"environment variable FEDREPRO_DATA is {folder!r}, which is no folder; "
                "it must hold raw archives as <data set>/<file>"
            )
        path = Path(folder, dataset, name).resolve()
        found += [path.as_uri()] if path.is_file() else []
    if mirror := os.environ.get("FEDREPRO_MIRROR"):
        if not mirror.startswith(("http://", "https://", "file://")):
            raise FedreproError(
                f"environment variable FEDREPRO_MIRROR is {mirror!r}; allowed is a URL that begins with "
                "http://, https:// or file://, below which the files lie as <data set>/<file>"
            )
        found.append(f"{mirror.rstrip('/')}/{dataset}/{name}")
    return [*found, *urls]
