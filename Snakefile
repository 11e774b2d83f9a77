# Notebooks -> executed notebooks -> site. `make book` calls this; see profiles in notebooks/profiles.yml.
import json
import sys
from pathlib import Path

import yaml

sys.path.insert(0, "notebooks")
from inputs import inputs

configfile: "notebooks/profiles.yml"

PROFILE = config.get("profile", "default")
if PROFILE not in config:
    sys.exit(f"profile {PROFILE!r} is unknown: notebooks/profiles.yml has quick, default and paper")
PARAMETERS = {name: values or {} for name, values in config[PROFILE].items()}
# Each notebook stands in the table of contents as notebooks/NAME.
NOTEBOOKS = sorted(path.stem for path in Path("notebooks").glob("*.ipynb"))
PAGES = sorted(str(path) for path in Path("book").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
CODE = sorted(str(path) for path in Path("glauber").rglob("*.py"))
# By notebook: of the module, only what it imports. A change to one chapter's code leaves the other chapters as they are.
OWN = {name: inputs(Path(f"notebooks/{name}.ipynb"), PARAMETERS.get(name, {}), Path.cwd()) for name in NOTEBOOKS}
DATA = sorted(str(path) for path in Path("data").rglob("*") if path.suffix in {".jsonl", ".csv", ".json", ".safetensors"})
BIN = Path(sys.executable).parent


rule site:
    input:
        "build/book/_build/html/index.html",


rule notebook:
    input:
        # The lock file is an input: other package versions are another result.
        notebook="notebooks/{name}.ipynb",
        rest=lambda wildcards: [*OWN[wildcards.name], *DATA, "requirements.lock", "notebooks/execute.py"],
    output:
        "build/book/notebooks/{name}.ipynb",
    params:
        values=lambda wildcards: json.dumps(PARAMETERS.get(wildcards.name, {})),
    # One notebook at a time on all cores: Snakemake tells OpenMP, hence torch, how many a job has.
    threads: workflow.cores
    log:
        "build/logs/{name}.log",
    # Not `script:`, which cannot start a Python whose path has a space.
    shell:
        "{BIN:q}/python notebooks/execute.py {input.notebook:q} {output:q} {log:q} {params.values:q}"


rule book:
    input:
        notebooks=expand("build/book/notebooks/{name}.ipynb", name=NOTEBOOKS),
        pages=PAGES,
        settings=["_config.yml", "_toc.yml"],
        code=CODE,
    output:
        "build/book/_build/html/index.html",
    shell:
        "mkdir -p build/book && rm -rf build/book/book build/book/_build && cp -r book build/book/ && cp {input.settings} build/book/ && "
        "{BIN:q}/jupyter-book build build/book --all -W -n --keep-going"
