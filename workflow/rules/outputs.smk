# Figures and tables: one rule each, named <paper>_<id>, so that the name is a target of its own.
for figure in (item for item in PLAN.targets.values() if item.kind == "figure"):

    rule:
        name:
            figure.name
        input:
            tables=ancient(collected(figure)),
            sidecars=[f"{path}.json" for path in collected(figure)],
        output:
            pdf=f"{OUT}/figures/{figure.name}.pdf",
            png=report(
                f"{OUT}/figures/{figure.name}.png",
                caption=caption(figure),
                category=figure.paper,
                subcategory="figures",
                labels={"figure": figure.name},
            ),
            csv=f"{OUT}/figures/{figure.name}.csv",
        log:
            f"{OUT}/logs/figures/{figure.name}.log",
        localrule: True
        params:
            spec=figure.spec,
            code=figure.code,
            target=figure.name,
        message:
            f"draw {figure.name}"
        shell:
            "python -m fedrepro figure {params.target} --collected {input.tables} "
            "--out {output} > {log} 2>&1"


for table in (item for item in PLAN.targets.values() if item.kind == "table"):

    rule:
        name:
            table.name
        input:
            tables=ancient(collected(table)),
            sidecars=[f"{path}.json" for path in collected(table)],
            reference=(
                f"config/papers/{table.paper}/reference.csv" if table.reference else []
            ),
        output:
            csv=f"{OUT}/tables/{table.name}.csv",
            md=f"{OUT}/tables/{table.name}.md",
            tex=f"{OUT}/tables/{table.name}.tex",
            html=report(
                f"{OUT}/tables/{table.name}.html",
                caption=caption(table),
                category=table.paper,
                subcategory="tables",
                labels={"table": table.name},
            ),
        log:
            f"{OUT}/logs/tables/{table.name}.log",
        localrule: True
        params:
            spec=table.spec,
            code=table.code,
            target=table.name,
        message:
            f"make {table.name}"
        shell:
            "python -m fedrepro table {params.target} --collected {input.tables} "
            "--reference {input.reference} --out {output} > {log} 2>&1"


for paper in PLAN.papers_in_use:

    rule:
        name:
            paper
        input:
            [
                path
                for item in PLAN.reported.values()
                if item.paper == paper
                for path in item.outputs(OUT).values()
            ],
            [f"{OUT}/claims/{paper}.json"] if paper in PLAN.claims else [],
        localrule: True
