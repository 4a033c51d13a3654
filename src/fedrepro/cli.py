"""The command line: ``plan`` is for people, the other commands are what the rules call."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fedrepro import __version__
from fedrepro.core.registry import PACKAGE_ROOT
from fedrepro.errors import FedreproError

ROOT = PACKAGE_ROOT.parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; faults a user can mend are printed without a traceback."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options) or 0)
    except FedreproError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `fedrepro plan list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fedrepro", description="Plan and check a reproduction; Snakemake runs it."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_plan(commands)
    _add_data(commands)
    _add_cluster(commands)
    _add_rules(commands)
    _add_results(commands)
    config = commands.add_parser(
        "config", help="write config/config.yaml, its schema and its table, and docs/datasets.md"
    )
    config.set_defaults(command=_config)
    return parser


def _add_plan(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    plan = commands.add_parser("plan", help="what there is to do, and what has been done")
    actions = plan.add_subparsers(required=True, metavar="action")
    described = {
        "estimate": (_plan_estimate, "what is left to do takes: hours, memory, disk; for the queue as well"),
        "list": (_plan_list, "experiments and targets, with their numbers of cells"),
        "claims": (_plan_claims, "per claim: decidable with the planned seeds, or what it needs"),
        "explain": (_plan_explain, "what a cell computes, and why it would run again"),
        "status": (_plan_status, "per target: cells done, running with ETA, stale, missing, diverged"),
        "verify": (_plan_verify, "check every cell on disk against the plan"),
        "prune": (_plan_prune, "list results that no plan needs any more"),
        "reuse": (_plan_reuse, "keep results after a change of code, if a sample run again is the same"),
    }
    for name, (command, text) in described.items():
        action = actions.add_parser(name, help=text, description=text)
        _add_config(action, command)
        if name == "explain":
            action.add_argument("cell", help="a cell's id, or its beginning")
        if name == "reuse":
            action.add_argument(
                "--verify", type=_count, required=True, metavar="N", help="cells to run again"
            )
            action.add_argument(
                "snakemake",
                nargs="*",
                help="after --: how Snakemake runs them, e.g. -c2 (default: all cores)",
            )
        if name == "prune":
            action.add_argument("--delete", action="store_true", help="delete what is listed")


def _add_data(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    data = commands.add_parser("data", help="raw archives of the data sets that are downloaded")
    actions = data.add_subparsers(required=True, metavar="action")
    described = {
        "fetch": (_data_fetch, "download all that a tier needs, or the named data sets"),
        "status": (_data_status, "what a tier needs, and what of it is there"),
    }
    for name, (command, text) in described.items():
        action = actions.add_parser(name, help=text, description=text)
        if name == "fetch":
            action.add_argument("dataset", nargs="*", help="a data set; without, all that the tier needs")
        _add_config(action, command)


def _add_cluster(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    cluster = commands.add_parser("cluster", help="before a run on a SLURM cluster")
    actions = cluster.add_subparsers(required=True, metavar="action")
    text = "whether its partition takes the jobs, and none of an earlier run is in the queue"
    action = actions.add_parser("check", help=text, description=text)
    action.add_argument("--profile", type=Path, default=Path("profiles", "slurm"), metavar="FOLDER")
    _add_config(action, _cluster_check)


def _add_results(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = "pack the results of a tier into results/<tier>/bundle-<tier>.tar.gz"
    _add_config(commands.add_parser("bundle", help=text, description=text), _bundle)
    text = "what changed from OLD to NEW, each a folder results/<tier> or a bundle"
    compare = commands.add_parser("compare", help=text, description=text)
    for name in ("old", "new"):
        compare.add_argument(name, type=Path, metavar=name.upper())
    compare.set_defaults(command=_compare)


def _add_config(action: argparse.ArgumentParser, command: Callable[[argparse.Namespace], object]) -> None:
    action.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE")
    action.add_argument("--configfile", nargs="+", default=[], type=Path, metavar="FILE")
    action.set_defaults(command=command)


def _add_rules(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = commands.add_parser("run", help="run one job (called by the workflow's rules)")
    run.add_argument("step")
    run.add_argument("--spec", required=True)
    run.add_argument("--code", required=True)
    run.add_argument("--input", nargs="*", default=[], metavar="NAME=PATH")
    run.add_argument("--output", nargs="+", required=True, metavar="NAME=PATH")
    run.add_argument("--threads", type=int, default=1)
    run.set_defaults(command=_run)
    download = commands.add_parser("download", help="get one raw file of a data set")
    download.add_argument("dataset")
    download.add_argument("file")
    download.set_defaults(command=_download)
    collect = commands.add_parser("collect", help="check and collect the cells of an experiment")
    for name in ("plan", "cells", "out"):
        collect.add_argument(f"--{name}", required=True, type=Path)
    collect.add_argument("--missing", choices=("refuse", "show"), default="refuse")
    collect.add_argument("--mixed", choices=("refuse", "allow"), default="refuse")
    collect.set_defaults(command=_collect)
    for kind, command in {"figure": _figure, "table": _table}.items():
        output = commands.add_parser(kind, help=f"make one {kind} from collected experiments")
        output.add_argument("name")
        output.add_argument("--collected", nargs="+", required=True, type=Path)
        output.add_argument("--out", nargs="+", required=True, type=Path)
        if kind == "table":
            output.add_argument("--reference", type=Path, nargs="?")
        output.set_defaults(command=command)
    claims = commands.add_parser("claims", help="decide the claims of one paper")
    claims.add_argument("paper")
    claims.add_argument("--collected", nargs="*", default=[], type=Path)
    claims.add_argument("--out", nargs="+", required=True, type=Path)
    claims.set_defaults(command=_claims)
    report = commands.add_parser("report", help="make the report page")
    report.add_argument("--spec", required=True)
    report.add_argument("--page", required=True, type=Path)
    report.add_argument("--captions", required=True, type=Path)
    report.set_defaults(command=_report)
    exports = commands.add_parser("exports", help="write RO-Crate, CODECHECK files and LaTeX tables")
    exports.add_argument("--spec", required=True)
    exports.add_argument("--crate", required=True, type=Path)
    exports.set_defaults(command=_exports)


def _run(options: argparse.Namespace) -> None:
    from fedrepro.runtime.execute import execute

    inputs, outputs = _named(options.input), _named(options.output)
    execute(options.step, options.spec, options.code, inputs, outputs, options.threads)


def _download(options: argparse.Namespace) -> None:
    from fedrepro.plan.fetch import fetch_file

    fetch_file(options.dataset, options.file)


def _collect(options: argparse.Namespace) -> None:
    from fedrepro.outputs.collect import collect

    collect(options.plan, options.cells, options.out, options.missing, options.mixed)


def _figure(options: argparse.Namespace) -> None:
    from fedrepro.outputs.figure import make_figure

    make_figure(options.name, options.collected, options.out)


def _table(options: argparse.Namespace) -> None:
    from fedrepro.outputs.table import make_table

    make_table(options.name, options.collected, options.reference, options.out)


def _claims(options: argparse.Namespace) -> None:
    from fedrepro.outputs.claims import make_claims

    make_claims(options.paper, ROOT / "config" / "papers" / options.paper, options.collected, options.out)


def _report(options: argparse.Namespace) -> None:
    from fedrepro.outputs.report import make_report

    make_report(options.spec, options.page, options.captions, ROOT)


def _exports(options: argparse.Namespace) -> None:
    from fedrepro.outputs.exports import make_exports

    make_exports(options.spec, options.crate.parent, ROOT)


def _bundle(options: argparse.Namespace) -> None:
    from fedrepro.outputs.bundle import make_bundle
    from fedrepro.plan import listing

    print(make_bundle(listing.load(ROOT, options.config, options.configfile), ROOT))


def _compare(options: argparse.Namespace) -> None:
    from fedrepro.outputs.compare import compare, print_comparison

    print_comparison(compare(options.old, options.new), options.old, options.new)


def _config(options: argparse.Namespace) -> None:
    from fedrepro.plan.defaults import write

    write(ROOT)


def _data_fetch(options: argparse.Namespace) -> None:
    from fedrepro.plan import fetch, listing

    fetch.fetch(listing.load(ROOT, options.config, options.configfile), options.dataset)


def _data_status(options: argparse.Namespace) -> None:
    from fedrepro.plan import fetch, listing

    fetch.print_status(listing.load(ROOT, options.config, options.configfile))


def _cluster_check(options: argparse.Namespace) -> None:
    from fedrepro.plan import cluster, listing

    print(cluster.check(listing.load(ROOT, options.config, options.configfile), options.profile))


def _plan_estimate(options: argparse.Namespace) -> None:
    from fedrepro.plan import estimate, listing

    estimate.print_estimate(listing.load(ROOT, options.config, options.configfile), Path("results"))


def _plan_list(options: argparse.Namespace) -> None:
    from fedrepro.plan import listing

    listing.print_list(listing.load(ROOT, options.config, options.configfile))


def _plan_claims(options: argparse.Namespace) -> None:
    from fedrepro.outputs.claims import print_decidable
    from fedrepro.plan import listing

    print_decidable(listing.load(ROOT, options.config, options.configfile), ROOT)


def _plan_explain(options: argparse.Namespace) -> None:
    from fedrepro.plan import explain, listing

    explain.print_cell(listing.load(ROOT, options.config, options.configfile), options.cell)


def _plan_status(options: argparse.Namespace) -> None:
    from fedrepro.plan import listing, status

    status.print_status(listing.load(ROOT, options.config, options.configfile))


def _plan_verify(options: argparse.Namespace) -> int:
    from fedrepro.plan import listing, status

    return status.print_verification(listing.load(ROOT, options.config, options.configfile))


def _plan_prune(options: argparse.Namespace) -> None:
    from fedrepro.plan import listing, prune

    prune.prune(listing.load(ROOT, options.config, options.configfile), delete=options.delete)


def _plan_reuse(options: argparse.Namespace) -> int:
    from fedrepro.plan import listing, reuse

    plan = listing.load(ROOT, options.config, options.configfile)
    files = [str(path) for path in options.configfile]
    config = ["--config", *options.config] if options.config else []
    config += ["--configfile", *files] if files else []
    return reuse.reuse(plan, options.verify, [*(options.snakemake or ["--cores", "all"]), *config])


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1 cell must be run again")
    return number


def _named(pairs: Sequence[str]) -> dict[str, Path]:
    return {name: Path(path) for name, _, path in (pair.partition("=") for pair in pairs)}
