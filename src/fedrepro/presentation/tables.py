"""One table, rendered as Markdown, LaTeX (booktabs) and HTML."""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

LATEX_SPECIAL = str.maketrans(
    {character: rf"\{character}" for character in "%&_#${}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "|": r"\textbar{}"}
    | {"±": r"$\pm$", "<": "$<$", ">": "$>$", "≤": r"$\le$", "≥": r"$\ge$"}
)

# Letters: of a LaTeX column, beside its text for bold and the gap, and of a line that needs no page across.
WIDEST, SPARE, LETTERS = 40, 2, 105


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
    """A ``longtable``; its first lines name the packages it needs. On a page across where it is wide.

    Columns are as wide as their longest word or number needs, so that cells of words break into lines.
    """
    marks = {"": "{}", "bold": r"\textbf{{{}}}", "underlined": r"\underline{{{}}}"}
    width = len(table.columns)
    rows = [[cell.text for cell in line] for _, body in table.groups for line in body]
    weights = [
        SPARE
        + min(WIDEST, max(len(max(name.split(), key=len, default="")), *(len(row[i]) for row in rows), 1))
        for i, name in enumerate(table.columns)
    ]
    across = sum(weights) > LETTERS
    lines = [f"% {text}" for text in stamps]
    lines.append(
        f"% needs the packages array, booktabs{', longtable and pdflscape' if across else ' and longtable'}"
    )
    lines += [r"\begin{landscape}"] * across
    lines.append(rf"\begingroup\{'scriptsize' if across else 'footnotesize'}\setlength{{\tabcolsep}}{{2pt}}")
    lines += [rf"\begin{{longtable}}{{{paragraphs(weights, right=True)}}}"]
    lines += [rf"  \caption{{{tex(table.title)}}} \\", r"    \toprule"]
    lines += ["    " + " & ".join(map(tex, table.columns)) + r" \\", r"    \midrule \endhead"]
    lines += [r"    \bottomrule \endfoot"]
    for number, (title, body) in enumerate(table.groups):
        lines += [r"    \midrule"] * (number > 0)
        lines.append(rf"    \multicolumn{{{width}}}{{p{{0.97\linewidth}}}}{{{tex(title)}}} \\*")
        for line in body:
            cells = (marks[cell.emphasis].format(tex(cell.text)) for cell in line)
            lines.append("    " + " & ".join(cells) + r" \\")
    lines.append(r"\end{longtable}")
    for note in [*stamps, *table.notes]:
        lines += [r"\noindent " + tex(note), r""]
    lines += [r"\endgroup", *[r"\end{landscape}"] * across]
    return "\n".join(lines) + "\n"


def paragraphs(weights: Sequence[int], *, right: bool = False) -> str:
    """Columns of a LaTeX table that share the line by weight; with ``right`` flush right but the first."""
    total = sum(weights)
    columns = []
    for number, weight in enumerate(weights):
        side = "left" if right and number else "right"
        width = rf"\dimexpr {weight / total:.3f}\linewidth-2\tabcolsep\relax"
        columns.append(rf">{{\ragged{side}\arraybackslash}}p{{{width}}}")
    return "".join(columns)


def html_table(table: Table) -> str:
    """An HTML ``table`` element."""
    marks = {"": "{}", "bold": "<strong>{}</strong>", "underlined": "<u>{}</u>"}
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.columns)
    lines = [f"<table><caption>{html.escape(table.title)}</caption><thead><tr>{head}</tr></thead>"]
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
    """Text with the characters that LaTeX takes for commands escaped, and relations as signs."""
    return text.replace("<=", "≤").replace(">=", "≥").translate(LATEX_SPECIAL)
