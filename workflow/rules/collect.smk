# Per experiment: check every cell, then put their rows into one table. A refusal names the command that helps.
rule collect:
    input:
        plan=f"{OUT}/plan/{{experiment}}.json",
        manifests=manifests,
    output:
        table=update(f"{OUT}/collected/{{experiment}}.parquet"),
        sidecar=update(f"{OUT}/collected/{{experiment}}.parquet.json"),
        cells=update(f"{OUT}/collected/{{experiment}}.cells.json"),
    log:
        f"{OUT}/logs/collect/{{experiment}}.log",
    params:
        spec=lambda w: PLAN.collect_spec(w.experiment),
        code=PLAN.codes["collect"],
        cells=f"{OUT}/cells",
        missing=PLAN.config.missing,
        mixed=PLAN.config.mixed_environments,
    message:
        "collect {wildcards.experiment}"
    shell:
        "python -m fedrepro collect --plan {input.plan} --cells {params.cells} --out {output.table} "
        "--missing {params.missing} --mixed {params.mixed} 2>&1 | tee {log}"


localrules:
    collect,
