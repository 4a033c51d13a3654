"""Source files of the package as syntax trees: read without importing them, and once."""

import ast
from functools import cache
from pathlib import Path

from fedrepro.errors import FedreproError


@cache
def statements(path: Path) -> tuple[ast.stmt, ...]:
    """Top-level statements of a file.

    Raises
    ------
    FedreproError
        If it is no Python; the message names the line.
    """
    try:
        return tuple(ast.parse(path.read_bytes()).body)
    except SyntaxError as error:
        raise FedreproError(f"{path}, line {error.lineno}: {error.msg}") from error
