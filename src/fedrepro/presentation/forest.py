"""A plot of effects, with intervals where there are any, one line a part, as SVG that a page can hold."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

ROW, TOP, LEFT, WIDTH, BOTTOM = 20, 8, 300, 640, 26
MOST = 24  # parts that are drawn
MARKS = {"agrees": "#0b6e4f", "disagrees": "#b00020", "inconclusive": "#5a626b"}
LETTERS = 46  # of a name


def forest(parts: Sequence[Mapping[str, Any]], label: str) -> str:
    """SVG of the parts that have an effect, with what each is compared with; empty without.

    What all parts are compared with is one dashed line; what only some are is a mark in their rows.

    Parameters
    ----------
    parts : sequence of mapping
        With ``name``, ``effect``, ``low``, ``high``, ``reference`` and ``verdict``.
    label : str
        What a screen reader says of it.
    """
    shown = [part for part in parts if part["effect"] is not None][:MOST]
    if not shown:
        return ""
    keys = ("effect", "low", "high", "reference")
    ends = [part[key] for part in shown for key in keys if part[key] is not None]
    low, high = min(ends), max(ends)
    span = (high - low) or 1.0

    def at(value: float) -> float:
        return round(LEFT + 10 + (value - low) / span * (WIDTH - LEFT - 20), 1)

    height = TOP + ROW * len(shown) + BOTTOM
    references = {part["reference"] for part in shown} - {None}
    lines = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}" class="forest">',
        *(
            f'<line x1="{at(value)}" x2="{at(value)}" y1="0" y2="{height - BOTTOM}" stroke="#1c1f23" '
            'stroke-dasharray="3 3"/>'
            for value in references
            if len(references) == 1
        ),
    ]
    for number, part in enumerate(shown):
        y, colour = TOP + ROW * number + ROW / 2, MARKS[part["verdict"]]
        name = part["name"] if len(part["name"]) <= LETTERS else part["name"][: LETTERS - 1] + "…"
        lines.append(f'<text x="{LEFT}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        if part["low"] is not None and part["high"] is not None:
            lines.append(
                f'<line x1="{at(part["low"])}" x2="{at(part["high"])}" y1="{y}" y2="{y}" stroke="{colour}" '
                'stroke-width="2"/>'
            )
        if part["reference"] is not None and len(references) > 1:
            x = at(part["reference"])
            lines.append(f'<line x1="{x}" x2="{x}" y1="{y - 7}" y2="{y + 7}" stroke="#1c1f23"/>')
        lines.append(f'<circle cx="{at(part["effect"])}" cy="{y}" r="4" fill="{colour}"/>')
    for value, anchor in ((low, "start"), (high, "end")):
        lines.append(f'<text x="{at(value)}" y="{height - 8}" text-anchor="{anchor}">{value:.3g}</text>')
    return "".join([*lines, "</svg>"])
