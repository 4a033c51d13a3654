"""Cells of kind ``analysis``: what a figure draws where nothing is trained."""

from fedrepro.core.job import Artifact, Context, Inputs, Result, bind
from fedrepro.core.spec import AnalysisSpec
from fedrepro.core.tables import encode


def run(spec: AnalysisSpec, inputs: Inputs, context: Context) -> Result:
    """Compute the plugin's table; its columns are the plugin's ``COLUMNS``."""
    plugin, params = bind("analysis", spec.analysis)
    table = plugin.compute(params, spec, inputs).cast(plugin.SCHEMA)
    return Result({"metrics": Artifact(encode(table), len(table))})
