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
        code=PLAN.report_code,
    message:
        "write {output.page}"
    shell:
        "python -m fedrepro report --spec {params.spec:q} --page {output.page} "
        "--captions workflow/report > {log} 2>&1"


rule report:
    input:
        REPORT,


localrules:
    report,
    report_page,
