# What all algorithms of a seed share: the partition of the data and the availability trace.
rule partition:
    input:
        unpack(lambda w: by_sidecar(PLAN.partitions[w.partition].inputs)),
    output:
        file=f"{OUT}/partitions/{{partition}}.parquet",
        sidecar=f"{OUT}/partitions/{{partition}}.parquet.json",
    log:
        f"{OUT}/logs/partitions/{{partition}}.log",
    params:
        spec=lambda w: PLAN.partitions[w.partition].spec,
        code=lambda w: PLAN.partitions[w.partition].code,
    message:
        "partition {wildcards.partition}"
    shell:
        "python -m fedrepro run partition --spec {params.spec:q} --code {params.code} "
        "--input train={input.train} --output partition={output.file} > {log} 2>&1"


rule trace:
    input:
        unpack(lambda w: by_sidecar(PLAN.traces[w.trace].inputs)),
    output:
        file=f"{OUT}/traces/{{trace}}.parquet",
        sidecar=f"{OUT}/traces/{{trace}}.parquet.json",
    log:
        f"{OUT}/logs/traces/{{trace}}.log",
    params:
        spec=lambda w: PLAN.traces[w.trace].spec,
        code=lambda w: PLAN.traces[w.trace].code,
    message:
        "trace {wildcards.trace}"
    shell:
        "python -m fedrepro run trace --spec {params.spec:q} --code {params.code} "
        "--input partition={input.partition} --output trace={output.file} > {log} 2>&1"


localrules:
    partition,
    trace,
