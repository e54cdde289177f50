#!/usr/bin/python3
"""The arithmetic of experiments/testbeds, on rows made by hand. Exit 77 (skipped) where pandas is missing."""
import math
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "experiments"))
import tables  # noqa: E402

try:
    import pandas as pd
    import testbeds_report as report
    import testbeds_scaled as scaled
except ImportError as why:
    print(f"skipped: {why}")
    sys.exit(77)


class Tables(unittest.TestCase):
    def test_figures_have_three_digits_that_count(self):
        self.assertEqual([tables.seconds(value) for value in (0.0012345, 0.097142, 1.5, 3275.6, None, math.nan)],
                         ["1.23 ms", "97.1 ms", "1.50 s", "3,276 s", "", ""])
        self.assertEqual([tables.times(value) for value in (0.5, 9.387, 19.4, 1133.2)], ["0.500x", "9.39x", "19.4x", "1,133x"])
        self.assertEqual([tables.percent(value) for value in (0.0312, -0.2)], ["+3.1 %", "-20.0 %"])

    def test_figures_stand_at_the_right(self):
        self.assertEqual(tables.markdown(["a", "b"], [["x", 1]]), "| a | b |\n| --- | ---: |\n| x | 1 |")


def rows(**times):
    """Of one case; keys are policy__codec."""
    names = {"on": "op-fence", "en": "equal-number", "none": "none", "ada": "adatopk:100", "uni": "uniform-topk:100"}
    return pd.DataFrame([{"testbed": "t", "workload": "w", "policy": names[key.split("__")[0]], "compress": names[key.split("__")[1]],
                          "iteration_s": value} for key, value in times.items()])


class Simulated(unittest.TestCase):
    def test_speed_up_is_the_others_time_over_ours(self):
        table = report.times(rows(en__none=6, en__ada=3, on__none=2, on__ada=1.5))
        self.assertEqual(report.speedup(table, ("equal-number", "none")), 4)  # 6 / 1.5
        self.assertEqual(report.ours_over(table, "equal-number"), 2)  # its best, 3, over 1.5

    def test_what_does_not_fit_is_no_figure(self):
        table = report.times(rows(en__none=math.nan, en__ada=3, on__none=2, on__ada=1.5))
        self.assertEqual(tables.times(report.speedup(table, ("equal-number", "none"))), "")

    def test_the_best_cluster_alone_is_no_testbed(self):
        alone = rows(en__none=5, en__ada=4, on__ada=1).assign(testbed="cluster A")
        testbeds, best = report.split(pd.concat([rows(en__none=6, on__ada=1.5), alone]))
        self.assertEqual(set(testbeds.testbed), {"t"})
        self.assertEqual(best.to_dict(), {"w": 4})  # the quickest of the others there; op-fence's 1 is not one of them

    def test_who_is_faster_is_said(self):
        self.assertIn("fastest of all 4 pairs in 1 of the 1 cases.", report.fastest(rows(en__none=6, en__ada=3, on__none=2, on__ada=1.5)))
        self.assertIn("in the others op-fence with uniform-topk:100 is, by at most 25.0 %.",
                      report.fastest(rows(on__none=2, on__ada=1.5, on__uni=1.2)))


class Scaled(unittest.TestCase):
    def test_lines_are_those_of_the_testbed(self):
        # A 1 Gbps, 2 ms; C 100 Mbps, 15 ms; D0 up 8 Mbps, down 100 Mbps, 10 ms.
        rates, latencies = scaled.pairs(4)
        self.assertEqual((rates[0][1], rates[0][2], rates[0][3], rates[3][0]), (1000, 100, 100, 8))
        self.assertEqual((latencies[0][2], latencies[2][0], latencies[3][0]), (17, 17, 12))

    def test_a_plan_runs_once_under_all_its_names(self):
        plan = {"policy": "a", "compress": "none", "predicted_iteration_s": 1, "stages": [1, 2]}
        self.assertEqual(scaled.what_runs(plan), scaled.what_runs(plan | {"policy": "b", "compress": "fp16"}))
        self.assertNotEqual(scaled.what_runs(plan), scaled.what_runs(plan | {"stages": [2, 1]}))

    def test_speed_ups_are_over_the_first_row(self):
        # Measured 8 to 2: 4x. Simulated 6 to 2: 3x, a quarter too little.
        row = scaled.with_speedups([{"measured_s": 8, "simulated_s": 6}, {"measured_s": 2, "simulated_s": 2}])[1]
        self.assertEqual((row["speedup_measured"], row["speedup_simulated"], row["speedup_error"]), (4, 3, -0.25))

    def test_a_run_that_is_not_whole_does_not_count(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            self.assertIsNone(scaled.read_run(folder))
            (folder / "executed.json").write_text("{}")
            (folder / "steps.jsonl").write_text('{"iteration_s": 9}\n{"iteration_s": 1}\n{"iteration_s": 3}\n')
            self.assertEqual(scaled.read_run(folder)["median_s"], 2)  # the first step is left out


if __name__ == "__main__":
    unittest.main()
