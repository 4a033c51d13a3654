# Claims: one rule a paper, from the experiments that its claims name and its published numbers.
for paper in PLAN.claims:

    rule:
        name:
            f"{paper}_claims"
        input:
            tables=ancient(
                [f"{OUT}/collected/{name}.parquet" for name in PLAN.claim_needs(paper)]
            ),
            sidecars=[
                f"{OUT}/collected/{name}.parquet.json"
                for name in PLAN.claim_needs(paper)
            ],
            files=PLAN.claim_files(paper),
        output:
            csv=f"{OUT}/claims/{paper}.csv",
            json=f"{OUT}/claims/{paper}.json",
        log:
            f"{OUT}/logs/claims/{paper}.log",
        localrule: True
        params:
            code=PLAN.codes["claims"],
            paper=paper,
        message:
            f"decide {paper}_claims"
        shell:
            "python -m fedrepro claims {params.paper} --collected {input.tables} "
            "--out {output} 2>&1 | tee {log}"


rule claims:
    input:
        expand(f"{OUT}/claims/{{paper}}.json", paper=PLAN.claims),


localrules:
    claims,
