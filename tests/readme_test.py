#!/usr/bin/python3
"""README.md says what the committed results say, and sections are made of them as they should be."""
import importlib.machinery
import importlib.util
import json
import pathlib
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
loader = importlib.machinery.SourceFileLoader("readme_tables", str(ROOT / "experiments/readme_tables"))
readme = importlib.util.module_from_spec(importlib.util.spec_from_loader("readme_tables", loader))
loader.exec_module(readme)

MADE = {"command": "c", "commit": "1", "machine": "m"}


class Sections(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, readme, "RESULTS", readme.RESULTS)
        readme.RESULTS = pathlib.Path(folder.name)

    def write(self, name, text):
        file = readme.RESULTS / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text if isinstance(text, str) else json.dumps(text))

    def test_sections_without_results_are_empty(self):
        text = "".join(f"<!-- {name} -->\nold\n<!-- /{name} -->\n" for name in readme.SECTIONS)
        self.assertEqual(readme.filled(text), text.replace("old\n", ""))

    def test_fidelity_says_what_was_held_out(self):
        held = {"setups": 14, "mean_error": 0.0321, "max_error": 0.08, "worst": "w"}
        self.write("fidelity/summary.json", {"held_out": held, "kendall_tau": 0.9, "made": MADE})
        text = readme.fidelity()
        for said in ("14 set-ups", "3.2 % on average", "8.0 % at worst (w)", "is 0.90.", "(`c` at 1; m.)"):
            self.assertIn(said, text)

    def test_scaled_counts_each_plan_once_and_none_of_the_calibration(self):
        # b and c are foretold: errors 10 % and 30 %, mean 20 %.
        rows = ["a,True,0.5", "a,False,0.5", "b,False,-0.1", "b,False,-0.1", "c,False,0.3"]
        self.write("testbeds/executed.csv", "\n".join(["plan,calibration,relative_error", *rows]) + "\n")
        self.write("testbeds/made.json", {"executed": MADE})
        self.assertIn("2 plans", readme.scaled())
        self.assertIn("20.0 % on average and 30.0 % at worst", readme.scaled())

    def test_a_fitted_row_is_not_foretold(self):
        self.write("dtfm/pipeline.csv", "network,relative_error,fitted\nx,0,True\ny,-0.02,False\nz,0.01,False\n")
        self.write("dtfm/throughput.csv", "network,relative_error,fitted\nx,0,True\ny,0.18,False\nz,1.805,False\n")
        self.write("dtfm/made.json", MADE)
        self.assertIn("on 3 networks", readme.dtfm())
        self.assertIn("1.5 % on average and 2.0 % at worst", readme.dtfm())
        self.assertIn("exceeded by 18 to 180 %", readme.dtfm())

    def test_the_peer_has_a_row_for_each_link_and_codec(self):
        self.write("torch_peer/ratios.csv", "links,codec,torch_step_s,our_step_s,ratio\n8 Mbps,none,2,1,2\n")
        self.write("torch_peer/made.json", MADE | {"links": "tcp"})
        self.assertIn("| 8 Mbps | none | 2.00 s | 1.00 s | 2.00x |", readme.peer())
        self.assertIn("(`c` at 1; m, tcp.)", readme.peer())


class Readme(unittest.TestCase):
    def test_it_is_what_the_results_say(self):
        text = (ROOT / "README.md").read_text()
        self.assertEqual(text, readme.filled(text), "run experiments/readme_tables")


if __name__ == "__main__":
    unittest.main()
