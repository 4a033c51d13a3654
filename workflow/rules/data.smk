# Data sets in their prepared form: one memory-mappable file per split, shared by all tiers.
rule prepare:
    output:
        train=f"{DATA}/{{dataset}}/train.npy",
        test=f"{DATA}/{{dataset}}/test.npy",
        train_sidecar=f"{DATA}/{{dataset}}/train.npy.json",
        test_sidecar=f"{DATA}/{{dataset}}/test.npy.json",
    log:
        f"{DATA}/logs/prepare_{{dataset}}.log",
    params:
        spec=lambda w: PLAN.datasets[w.dataset].spec,
        code=lambda w: PLAN.datasets[w.dataset].code,
    message:
        "prepare {wildcards.dataset}"
    shell:
        "python -m fedrepro run prepare --spec {params.spec:q} --code {params.code} "
        "--output train={output.train} test={output.test} > {log} 2>&1"


localrules:
    prepare,
