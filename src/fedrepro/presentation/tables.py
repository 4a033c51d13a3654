"""One table, rendered as Markdown, LaTeX (booktabs) and HTML."""

import html
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

LATEX_SPECIAL = str.maketrans(
    {character: rf"\{character}" for character in "%&_#${}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "|": r"\textbar{}"}
    | {"±": r"$\pm$", "<": "$<$", ">": "$>$", "≤": r"$\le$", "≥": r"$\ge$"}
)


@dataclass(frozen=True)
class Cell:
    """Text of a cell; the best value is ``bold``, the second best ``underlined``."""

    text: str
    emphasis: Literal["", "bold", "underlined"] = ""


Group = tuple[str, list[list[Cell]]]


@dataclass(frozen=True)
class Table:
    """A table as data (``rows``, written as CSV) and as laid out for reading.

    ``groups``: titled blocks of lines; each line has one cell per entry of ``columns``.
    """

    title: str
    rows: pd.DataFrame
    columns: list[str]
    groups: list[Group]
    notes: list[str] = field(default_factory=list)


def markdown(table: Table, stamps: list[str]) -> str:
    """GitHub-flavoured Markdown."""
    marks = {"": "{}", "bold": "**{}**", "underlined": "<u>{}</u>"}
    lines = [f"# {table.title}", ""]
    lines += [f"> **{text}**\n" for text in stamps]
    for title, body in table.groups:
        lines += [f"**{title}**", "", "| " + " | ".join(table.columns) + " |"]
        lines.append("|" + "|".join(["---"] + ["---:"] * (len(table.columns) - 1)) + "|")
        for line in body:
            cells = (marks[c.emphasis].format(c.text.replace("|", r"\|")) for c in line)
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    lines += [f"- {note}" for note in table.notes]
    return "\n".join(lines) + "\n"


def latex(table: Table, stamps: list[str]) -> str:
    """A ``table`` environment for the booktabs package."""
    marks = {"": "{}", "bold": r"\textbf{{{}}}", "underlined": r"\underline{{{}}}"}
    width = len(table.columns)
    lines = [f"% {text}" for text in stamps]
    lines += [r"\begin{table}", r"  \centering", rf"  \caption{{{tex(table.title)}}}"]
    lines += [rf"  \begin{{tabular}}{{l{'r' * (width - 1)}}}", r"    \toprule"]
    lines.append("    " + " & ".join(map(tex, table.columns)) + r" \\")
    for title, body in table.groups:
        lines += [r"    \midrule", rf"    \multicolumn{{{width}}}{{l}}{{{tex(title)}}} \\"]
        for line in body:
            cells = (marks[cell.emphasis].format(tex(cell.text)) for cell in line)
            lines.append("    " + " & ".join(cells) + r" \\")
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    for note in [*stamps, *table.notes]:
        lines += [r"", rf"  {{\footnotesize {tex(note)}}}"]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def html_table(table: Table) -> str:
    """An HTML ``table`` element."""
    marks = {"": "{}", "bold": "<strong>{}</strong>", "underlined": "<u>{}</u>"}
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.columns)
    lines = [f"<table><thead><tr>{head}</tr></thead>"]
    for title, body in table.groups:
        span = f'<th colspan="{len(table.columns)}" scope="colgroup">{html.escape(title)}</th>'
        lines.append(f"<tbody><tr>{span}</tr>")
        for first, *rest in body:
            cells = "".join(
                f"<td>{marks[cell.emphasis].format(html.escape(cell.text))}</td>" for cell in rest
            )
            lines.append(f'<tr><th scope="row">{html.escape(first.text)}</th>{cells}</tr>')
        lines.append("</tbody>")
    return "\n".join([*lines, "</table>"])


def tex(text: str) -> str:
    """Text with the characters that LaTeX takes for commands escaped."""
    return text.translate(LATEX_SPECIAL)
