#!/usr/bin/python3
"""experiments/convergence: the arithmetic of its table on runs made by hand, and its short version. Exit 77 (skipped) where
matplotlib or a data set is missing."""
import csv
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "experiments"))
import convergence_setups as table  # noqa: E402

try:
    import convergence_report as report
except ImportError as why:
    print(f"skipped: {why}; install the Debian package python3-matplotlib")
    sys.exit(77)

TASK, DENSE, OTHER = table.TASKS[0], table.SETUPS[0], table.SETUPS[2]


def record(setup, seed, loss, seconds):
    point = {"step": 10, "loss": loss, "loss_exact": loss, "accuracy": 0.5, "accuracy_exact": 0.5, "train_loss": loss}
    return {"task": TASK.name, "setup": setup.name, "seed": seed, "points": [point],
            "times": {"8 Mbps": [seconds], "100 Mbps": [seconds / 2]}}


class Table(unittest.TestCase):
    # Seed 1 alone of the dense runs has the seed of the other: 2.02 / 2 - 1 = 1 %, and 600 s over 100 s.
    def test_a_gap_is_against_the_dense_run_of_the_same_seed(self):
        records = [record(DENSE, 1, 2.0, 600), record(DENSE, 2, 4.0, 600), record(OTHER, 1, 2.0199, 100)]
        row = report.row_of(records, TASK, OTHER)
        self.assertAlmostEqual(row["gap"], 0.00995)
        self.assertEqual(row["speedup"], {"8 Mbps": 6, "100 Mbps": 6})
        self.assertTrue(row["reaches"])
        self.assertAlmostEqual(report.spread(records, TASK), 1 / 3)  # 2 and 4 lie 1 from 3

    def test_both_targets_count(self):
        for loss, seconds in ((2.03, 100), (2.0, 121)):
            records = [record(DENSE, 1, 2.0, 600), record(OTHER, 1, loss, seconds)]
            self.assertFalse(report.row_of(records, TASK, OTHER)["reaches"])


class Quick(unittest.TestCase):
    def test_the_short_version_writes_all_its_files(self):
        ran = subprocess.run([ROOT / "experiments/convergence", "--quick"], capture_output=True, text=True)
        if ran.returncode == 77:
            self.skipTest(ran.stdout.strip())
        self.assertEqual(ran.returncode, 0, ran.stderr)
        folder = ROOT / "results/convergence-quick"
        with (folder / "runs.csv").open() as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["setup"] for row in rows}, set(table.QUICK))
        for name in ("gpt2-loss.png", "resnet-loss.png", "resnet-accuracy.png", "trade.png"):
            self.assertGreater((folder / name).stat().st_size, 10_000)
        dense = [row for row in rows if row["setup"] == "dense"]
        self.assertTrue(all(row["loss"] == row["loss_exact"] for row in dense))  # nothing is coded


if __name__ == "__main__":
    ran = unittest.main(exit=False).result
    skipped = bool(ran.skipped) and ran.wasSuccessful()
    if skipped:
        print(f"skipped: {ran.skipped[0][1]}")
    sys.exit(77 if skipped else not ran.wasSuccessful())
