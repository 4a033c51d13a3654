# Data sets: raw files as published, and the prepared form, one memory-mappable file per split. All tiers share both.
# Of a raw file only the sidecar is an output: Snakemake deletes the outputs of a job before it runs, and so would
# delete a file that was put there by hand, or download again under --forceall what is there.
rule download:
    output:
        f"{DATA}/raw/{{dataset}}/{{file}}.json",
    log:
        f"{DATA}/logs/download_{{dataset}}_{{file}}.log",
    wildcard_constraints:
        file="[A-Za-z0-9][A-Za-z0-9._-]*",
    message:
        "download {wildcards.dataset}/{wildcards.file}"
    shell:
        "python -m fedrepro download {wildcards.dataset} {wildcards.file} 2>&1 | tee {log}"


# Counts as one core, though CINIC-10 keeps all of them busy for a minute: a job that asks for all cores would wait until
# no job for a single core is left, and all training waits for it.
rule prepare:
    input:
        lambda w: [f"{path}.json" for path in PLAN.datasets[w.dataset].inputs.values()],
    output:
        train=f"{DATA}/{{dataset}}/train.npy",
        test=f"{DATA}/{{dataset}}/test.npy",
        train_sidecar=f"{DATA}/{{dataset}}/train.npy.json",
        test_sidecar=f"{DATA}/{{dataset}}/test.npy.json",
    log:
        f"{DATA}/logs/prepare_{{dataset}}.log",
    resources:
        mem_mb=2000,
    params:
        spec=lambda w: PLAN.datasets[w.dataset].spec,
        code=lambda w: PLAN.datasets[w.dataset].code,
        inputs=lambda w: pairs(PLAN.datasets[w.dataset].inputs),
    message:
        "prepare {wildcards.dataset}"
    shell:
        "python -m fedrepro run prepare --spec {params.spec:q} --code {params.code} "
        "--input {params.inputs} --output train={output.train} test={output.test} 2>&1 | tee {log}"


localrules:
    download,
    prepare,
