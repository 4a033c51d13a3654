# fedrepro: the entry of the workflow. The science is in src/fedrepro, the experiments in config/papers.
# Run `snakemake -c2` for the demo, `snakemake -c2 fedswe_fig14` for one figure; see README.md.
from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/common.smk"


onstart:
    gc.enable()


rule all:
    input:
        REPORT,


include: "workflow/rules/data.smk"
include: "workflow/rules/shared.smk"
include: "workflow/rules/cells.smk"


if PLAN.config.missing != "collected":

    include: "workflow/rules/collect.smk"


include: "workflow/rules/outputs.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/report.smk"


localrules:
    all,
