# Cells: one rule a kind. A cell's id is all that a rule needs to know; the plan has the rest. What a cell cost stands in
# its manifest.
rule cell_train:
    input:
        unpack(lambda w: by_sidecar(PLAN.cells[w.cell].inputs)),
    output:
        metrics=f"{OUT}/cells/{{cell}}/metrics.parquet",
        manifest=f"{OUT}/cells/{{cell}}/manifest.json",
    log:
        f"{OUT}/logs/cells/{{cell}}.log",
    wildcard_constraints:
        cell="train-[a-z0-9_-]+",
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory_mb,
        runtime=minutes,
    params:
        spec=lambda w: PLAN.cells[w.cell].spec,
        code=lambda w: PLAN.cells[w.cell].code,
    message:
        "train {wildcards.cell}"
    shell:
        "python -m fedrepro run train --spec {params.spec:q} --code {params.code} "
        "--input train={input.train} test={input.test} partition={input.partition} "
        "trace={input.trace} --output metrics={output.metrics} manifest={output.manifest} "
        "> {log} 2>&1"


rule cell_scalar:
    output:
        metrics=f"{OUT}/cells/{{cell}}/metrics.parquet",
        manifest=f"{OUT}/cells/{{cell}}/manifest.json",
    log:
        f"{OUT}/logs/cells/{{cell}}.log",
    wildcard_constraints:
        cell="scalar-[a-z0-9_-]+",
    threads: 1
    resources:
        mem_mb=memory_mb,
        runtime=minutes,
    params:
        spec=lambda w: PLAN.cells[w.cell].spec,
        code=lambda w: PLAN.cells[w.cell].code,
    message:
        "simulate {wildcards.cell}"
    shell:
        "python -m fedrepro run scalar --spec {params.spec:q} --code {params.code} "
        "--threads {threads} --output metrics={output.metrics} manifest={output.manifest} "
        "> {log} 2>&1"


rule cell_game:
    output:
        metrics=f"{OUT}/cells/{{cell}}/metrics.parquet",
        manifest=f"{OUT}/cells/{{cell}}/manifest.json",
    log:
        f"{OUT}/logs/cells/{{cell}}.log",
    wildcard_constraints:
        cell="game-[a-z0-9_-]+",
    params:
        spec=lambda w: PLAN.cells[w.cell].spec,
        code=lambda w: PLAN.cells[w.cell].code,
    message:
        "play {wildcards.cell}"
    shell:
        "python -m fedrepro run game --spec {params.spec:q} --code {params.code} "
        "--output metrics={output.metrics} manifest={output.manifest} > {log} 2>&1"


rule cell_analysis:
    input:
        unpack(lambda w: by_sidecar(PLAN.cells[w.cell].inputs)),
    output:
        metrics=f"{OUT}/cells/{{cell}}/metrics.parquet",
        manifest=f"{OUT}/cells/{{cell}}/manifest.json",
    log:
        f"{OUT}/logs/cells/{{cell}}.log",
    wildcard_constraints:
        cell="analysis-[a-z0-9_-]+",
    params:
        spec=lambda w: PLAN.cells[w.cell].spec,
        code=lambda w: PLAN.cells[w.cell].code,
        inputs=lambda w: pairs(PLAN.cells[w.cell].inputs),
    message:
        "analyse {wildcards.cell}"
    shell:
        "python -m fedrepro run analysis --spec {params.spec:q} --code {params.code} "
        "--input {params.inputs} --output metrics={output.metrics} manifest={output.manifest} "
        "> {log} 2>&1"


localrules:
    cell_game,
    cell_analysis,
