"""Writing the shipped files that follow from the code: configuration, its table, the page of data sets."""

import json
import textwrap
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from fedrepro.plan.config import Config
from fedrepro.plan.pages import dataset_page
from fedrepro.runtime.atomic import write_all

WIDTH = 96


def default_yaml() -> str:
    """``config/config.yaml``: every key with its default, its description as a comment."""
    head = (
        "All settings and their defaults. Written by `fedrepro config` from "
        "src/fedrepro/plan/config.py: do not edit. Change a setting with --config KEY=VALUE or with "
        "--configfile FILE, which holds only the keys that differ."
    )
    lines = _comment(head)
    for name, field in Config.model_fields.items():
        value = Config().model_dump(mode="json")[name]
        lines += ["", *_comment(field.description or "")]
        if isinstance(value, dict):
            lines.append(f"{name}:")
            nested = getattr(field.annotation, "model_fields", {})
            for key, item in value.items():
                if key in nested:
                    lines += _comment(nested[key].description or "", "  ")
                lines.append(f"  {key}: {_scalar(item)}")
        else:
            lines.append(f"{name}: {_scalar(value)}")
    return "\n".join(lines) + "\n"


def schema_json() -> str:
    """``config/schema.json``: the JSON schema, for editors."""
    return json.dumps(Config.model_json_schema(), indent=1) + "\n"


def key_table() -> str:
    """``config/README.md``: a table of all keys."""
    lines = [
        "# Configuration",
        "",
        "`config.yaml` holds every setting with its default, `tiers/` what a tier changes,",
        "`papers/<paper>/grid.yaml` the experiments of a paper, `papers/<paper>/reference.csv` its published",
        "numbers, `papers/<paper>/deviations.yaml` where we do something else than the paper says.",
        "Precedence: defaults, tier, `--configfile`, `--config`. This table is written by `fedrepro config`.",
        "",
        "| key | default | meaning |",
        "|---|---|---|",
    ]
    for name, model, value in _keys(Config, Config().model_dump(mode="json")):
        lines.append(f"| `{name}` | `{_scalar(value)}` | {model} |")
    return "\n".join(lines) + "\n"


def write(root: Path) -> None:
    """Write all four files."""
    write_all(
        {
            root / "config" / "config.yaml": default_yaml().encode(),
            root / "config" / "schema.json": schema_json().encode(),
            root / "config" / "README.md": key_table().encode(),
            root / "docs" / "datasets.md": dataset_page().encode(),
        }
    )


def _keys(model: type[BaseModel], values: dict[str, Any], prefix: str = "") -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for name, field in model.model_fields.items():
        value, nested = values[name], getattr(field.annotation, "model_fields", None)
        if nested:
            assert isinstance(field.annotation, type)
            rows += _keys(field.annotation, value, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, field.description, value))
    return rows


def _comment(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def _scalar(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6)
    return text.split("\n...")[0].strip()
