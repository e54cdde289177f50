#!/usr/bin/python3
"""The notebooks run on the committed result files. Exit 77 (skipped) where pandas or matplotlib is missing.

Runs the code cells themselves, one notebook a process: no Jupyter is needed for that. A notebook whose result files are
not committed yet is skipped by name."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

NOTEBOOKS = pathlib.Path(__file__).resolve().parent.parent / "notebooks"
LARGEST_BYTES = 1_000_000
try:
    import matplotlib  # noqa: F401
    import pandas  # noqa: F401
except ImportError as why:
    print(f"skipped: {why} (python3-pandas, python3-matplotlib)")
    sys.exit(77)


def code_of(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def run(notebook):
    environment = os.environ | {"MPLBACKEND": "agg", "PYTHONWARNINGS": "ignore"}
    return subprocess.run([sys.executable, "-"], input=code_of(notebook), capture_output=True, text=True, cwd=NOTEBOOKS, env=environment)


class Notebooks(unittest.TestCase):
    def check(self, name):
        notebook = NOTEBOOKS / f"{name}.ipynb"
        self.assertLess(notebook.stat().st_size, LARGEST_BYTES)
        ran = run(notebook)
        missing = re.search(r"^FileNotFoundError.*'(.+)'", ran.stderr, re.MULTILINE)
        if missing and not pathlib.Path(missing[1]).parent.exists():
            self.skipTest(f"not committed yet: {missing[1]}")
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_ranking(self):
        self.check("ranking")

    def test_fidelity(self):
        self.check("fidelity")

    def test_compress(self):
        self.check("compress")

    def test_sweep(self):
        self.check("sweep")

    def test_all_are_run(self):
        names = {notebook.stem for notebook in NOTEBOOKS.glob("*.ipynb")}
        self.assertEqual(names, {name.removeprefix("test_") for name in dir(self) if name.startswith("test_")} - {"all_are_run"})


if __name__ == "__main__":
    unittest.main()
