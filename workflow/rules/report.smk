# The report: one self-contained page made from figures, tables, captions and collected experiments.
rule report_page:
    input:
        outputs=[
            path
            for item in PLAN.reported.values()
            for path in item.outputs(OUT).values()
        ],
        cells=expand(
            f"{OUT}/collected/{{name}}.cells.json", name=PLAN.reported_experiments
        ),
        claims=expand(f"{OUT}/claims/{{paper}}.json", paper=PLAN.claims),
        captions=expand("workflow/report/{name}.rst", name=PLAN.reported),
        template="workflow/report/index.html.j2",
        deviations=PLAN.deviations,
    output:
        page=REPORT,
    log:
        f"{OUT}/logs/report.log",
    params:
        spec=PLAN.report_spec,
        code=PLAN.codes["report"],
    message:
        "write {output.page}"
    shell:
        "python -m fedrepro report --spec {params.spec:q} --page {output.page} "
        "--captions workflow/report > {log} 2>&1"


rule report:
    input:
        REPORT,


# For other tools: a description of all results, and per paper a CODECHECK file and its claims in LaTeX.
rule exports:
    input:
        page=REPORT,
        claims=expand(f"{OUT}/claims/{{paper}}.json", paper=PLAN.claims),
        citation="CITATION.cff",
    output:
        crate=f"{OUT}/ro-crate-metadata.json",
        papers=expand(
            f"{OUT}/exports/{{paper}}/{{name}}",
            paper=PLAN.papers_in_use,
            name=("codecheck.yml", "claims.tex"),
        ),
    log:
        f"{OUT}/logs/exports.log",
    params:
        spec=PLAN.report_spec,
        code=PLAN.codes["exports"],
    message:
        "export {output.crate}"
    shell:
        "python -m fedrepro exports --spec {params.spec:q} --crate {output.crate} > {log} 2>&1"


localrules:
    exports,
    report,
    report_page,
