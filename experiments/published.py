"""Small result files that are committed, under experiments/results/NAME/, with what made them."""
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"


def how_made(script, **more):
    """Command, commit and machine class."""
    commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True)
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
               platform.machine())
    return {"command": " ".join([f"experiments/{script}", *sys.argv[1:]]), "commit": commit.stdout.strip(),
            "machine": f"{os.cpu_count()} cores, {cpu}, Linux {platform.release().split('-')[0]}", **more}


def publish(name, files, made):
    """Copies the files there, beside made.json."""
    folder = RESULTS / name
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy(file, folder / pathlib.Path(file).name)
    (folder / "made.json").write_text(json.dumps(made, indent=2) + "\n")
