"""Stamps, and tables as Markdown, LaTeX and HTML."""

from typing import Any

import pandas as pd

from fedrepro.outputs.stamp import Stamp, stamp
from fedrepro.presentation.tables import Cell, Table, html_table, latex, markdown, tex

TABLE = Table(
    "A & B: 50 % ± 1",
    pd.DataFrame(),
    ["Name", "x_1", "100 %"],
    [
        ("First_group", [[Cell("a<b"), Cell("1.0 ± 0.1", "bold"), Cell("2")]]),
        ("Second", [[Cell("c#d"), Cell("3", "underlined"), Cell("")], [Cell("e"), Cell("5"), Cell("6")]]),
    ],
    ["a note of 5 %"],
)


def test_markdown_by_hand() -> None:
    assert markdown(TABLE, ["PARTIAL"]) == (
        "# A & B: 50 % ± 1\n\n> **PARTIAL**\n\n"
        "**First_group**\n\n| Name | x_1 | 100 % |\n|---|---:|---:|\n| a<b | **1.0 ± 0.1** | 2 |\n\n"
        "**Second**\n\n| Name | x_1 | 100 % |\n|---|---:|---:|\n| c#d | <u>3</u> |  |\n| e | 5 | 6 |\n\n"
        "- a note of 5 %\n"
    )


def test_latex_escapes_what_is_special() -> None:
    text = latex(TABLE, ["50 % done"])
    assert text.startswith("% 50 % done\n% needs the packages array, booktabs and longtable\n")
    assert r"\caption{A \& B: 50 \% $\pm$ 1}" in text
    assert r"    Name & x\_1 & 100 \% \\" in text
    assert r"    \multicolumn{3}{p{0.97\linewidth}}{First\_group} \\*" in text
    assert r"    a$<$b & \textbf{1.0 $\pm$ 0.1} & 2 \\" in text
    assert r"    c\#d & \underline{3} &  \\" in text
    assert "\\noindent 50 \\% done\n" in text and "\\noindent a note of 5 \\%\n" in text
    assert text.count(r">{\raggedleft\arraybackslash}p{") == 2
    assert text.endswith("\\endgroup\n")
    assert "±" not in text


def test_a_norm_is_no_border_of_a_column() -> None:
    norm = Table("T", pd.DataFrame(), ["x"], [("g", [[Cell("||q||^2")]])], [])
    assert "| \\|\\|q\\|\\|^2 |\n" in markdown(norm, [])
    assert (r"\textbar{}" * 2 + "q" + r"\textbar{}" * 2 + r"\textasciicircum{}2") in latex(norm, [])


def test_latex_is_balanced() -> None:
    text = latex(TABLE, [])
    assert text.count(r"\begin{") == text.count(r"\end{") == 1
    assert text.count(r"\begingroup") == text.count(r"\endgroup") == 1
    assert text.count("{") == text.count("}")
    assert text.count(r"\midrule") == 2


def test_latex_turns_the_page_for_wide_tables_only() -> None:
    """By hand: a column of 30 letters has weight 32; 3 of them are 96, 4 are 128, above 105."""
    for number, wide in ((3, False), (4, True)):
        table = Table("T", pd.DataFrame(), ["x"] * number, [("g", [[Cell("m" * 30)] * number])], [])
        text = latex(table, [])
        assert all((mark in text) == wide for mark in (r"\begin{landscape}", r"\end{landscape}", "pdflscape"))
        assert text.count(f"{1 / number:.3f}" + r"\linewidth") == number


def test_relations_become_signs() -> None:
    assert tex("a <= b, c >= d, e < f") == r"a $\le$ b, c $\ge$ d, e $<$ f"


def test_html_escapes_and_marks() -> None:
    text = html_table(TABLE)
    assert '<th scope="col">x_1</th>' in text
    assert '<th colspan="3" scope="colgroup">First_group</th>' in text
    assert '<tr><th scope="row">a&lt;b</th><td><strong>1.0 ± 0.1</strong></td><td>2</td></tr>' in text
    assert '<tr><th scope="row">c#d</th><td><u>3</u></td><td></td></tr>' in text
    assert text.count("<tbody>") == text.count("</tbody>") == 2
    assert text.startswith("<table><caption>A &amp; B: 50 % ± 1</caption>")
    assert text.endswith("</table>")


def facts(**changes: Any) -> dict[str, Any]:
    return {"planned": 4, "missing": {}, "published": True, "mixed_environments": False} | changes


def test_a_complete_output_at_the_papers_scale_says_nothing() -> None:
    assert stamp([facts(), facts()]) == Stamp(8, 0, True, False)
    assert stamp([facts(), facts()]).lines == []


def test_each_restriction_is_said() -> None:
    assert stamp([facts(missing={"a": "", "b": ""}), facts()]).lines == ["PARTIAL: 2 of 8 cells not run"]
    assert stamp([facts(), facts(published=False)]).lines == [
        "Reduced scale: not comparable with the published numbers"
    ]
    (line,) = stamp([facts(mixed_environments=True), facts()]).lines
    assert line.startswith("Mixed environments")


def test_all_restrictions_together() -> None:
    lines = stamp([facts(missing={"a": ""}, published=False, mixed_environments=True)]).lines
    assert [line.split(" ")[0].rstrip(":") for line in lines] == ["PARTIAL", "Reduced", "Mixed"]
