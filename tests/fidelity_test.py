#!/usr/bin/python3
"""The arithmetic of experiments/fidelity, on reports made by hand. Exit 77 (skipped) where pandas is missing."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "experiments"))
import fidelity_setups as table  # noqa: E402

try:
    import pandas as pd
    import fidelity_report as fidelity
except ImportError as why:
    print(f"skipped: {why}")
    sys.exit(77)


def report(forward, backward, devices=2):
    kinds = [{"name": "forward", "total_s": forward}, {"name": "backward", "total_s": backward}]
    return {"task_kinds": kinds, "devices_used": devices}


def record(model, held_out, simulated, executed):
    setup = table.Setup(model, 2, "slow", "1f1b", "none", "op-fence", held_out)
    return {"setup": setup, "simulated": simulated, "executed": executed}


class Setups(unittest.TestCase):
    def test_what_the_issue_asks_for_is_there(self):
        rows = table.setups()
        self.assertGreaterEqual(len(rows), 24)
        self.assertEqual(len({row.name for row in rows}), len(rows))
        self.assertEqual(sum(row.held_out for row in rows) * 2, len(rows))
        self.assertEqual({row.model for row in rows}, {"gpt2", "resnet", "unet"})
        self.assertEqual({row.ranks for row in rows}, {2, 3, 4})
        self.assertEqual({row.links for row in rows}, set(table.LINKS))
        self.assertEqual({row.codec for row in rows}, {"none", "int8", "adatopk:100"})
        self.assertEqual({row.order for row in rows}, {"1f1b", "gpipe"})
        self.assertLessEqual(set(table.QUICK), {row.name for row in rows})

    def test_links_are_square_and_asymmetric_ones_differ_by_direction(self):
        for name, links in table.LINKS.items():
            for ranks in (2, 3, 4):
                for matrix in links(ranks):
                    self.assertEqual([len(row) for row in matrix], [ranks] * ranks, name)
        rates, _ = table.LINKS["asymmetric"](4)
        self.assertTrue(all(rates[i][j] != rates[j][i] for i in range(4) for j in range(i)))


class Calibration(unittest.TestCase):
    def test_a_factor_is_the_median_of_what_is_not_held_out(self):
        # Simulated passes take 1 + 2 = 3 s; executed ones 3.3, 3.6 and 3.9 s: ratios 1.1, 1.2, 1.3. The held-out one says 9.
        records = [record("gpt2", False, report(1, 2), [report(1.1, 2.2)]),
                   record("gpt2", False, report(1, 2), [report(1.2, 2.4)]),
                   record("gpt2", False, report(1, 2), [report(1.3, 2.6)]),
                   record("gpt2", True, report(1, 2), [report(9, 18)])]
        self.assertAlmostEqual(fidelity.calibrate(records)["gpt2, ranks"], 1.2)

    def test_one_rank_and_several_are_conditions_of_their_own(self):
        records = [record("gpt2", False, report(1, 2, 1), [report(1, 2, 1)]),
                   record("gpt2", False, report(1, 2), [report(2, 4)]),
                   record("unet", True, report(1, 2), [report(9, 9)])]
        self.assertEqual(fidelity.calibrate(records), {"gpt2, one rank": 1, "gpt2, ranks": 2, "unet, ranks": 2})

    def test_a_slower_device_has_smaller_rates_and_a_larger_overhead(self):
        text = 'peak_fp32 = "50 GFLOP/s"\nmemory_bandwidth = "5 GB/s"\nlaunch_overhead = "4 us"\nmemory = "4096 MiB"\n'
        profile = {"model": "m", "ops": [{"name": "a", "forward_s": 1.5, "backward_s": 2, "forward_flops": 7}]}
        self.assertEqual(fidelity.slower_profile(profile, 2)["ops"],
                         [{"name": "a", "forward_s": 3, "backward_s": 4, "forward_flops": 7}])
        self.assertEqual(fidelity.slower(text, 2), 'peak_fp32 = "25 GFLOP/s"\nmemory_bandwidth = "2.5 GB/s"\n'
                                                   'launch_overhead = "8 us"\nmemory = "4096 MiB"\n')


class Coordination(unittest.TestCase):
    def test_a_step_ends_when_the_first_rank_has_heard_from_all(self):
        # 50 ms between all: b ends at 0.98 s and is heard at 1.03 s; c at 0.90 s, heard at 0.95 s. The schedule ends at 1 s.
        setup = table.Setup("gpt2", 3, "slow", "1f1b", "none", "op-fence", False)
        simulated = {"iteration_s": 1.0, "devices": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
                     "ends_s": {"a": 1.0, "b": 0.98, "c": 0.90}}
        self.assertAlmostEqual(fidelity.coordination(setup, simulated), 0.03)
        self.assertEqual(fidelity.coordination(setup, simulated | {"ends_s": {"a": 1.0, "b": 0.5, "c": 0.5}}), 0)


class Ranking(unittest.TestCase):
    def rows(self, *values):
        return pd.DataFrame(values, columns=["group", "measured_s", "simulated_s", "measured_spread"])

    def test_tau_is_concordant_less_discordant_pairs_within_groups(self):
        # g: 1 < 2 < 3 measured, simulated 1, 3, 2: two pairs agree, one does not: 1/3. h agrees: (2 + 1 - 1) / 4.
        rows = self.rows(("g", 1, 1, 0), ("g", 2, 3, 0), ("g", 3, 2, 0), ("h", 1, 5, 0), ("h", 2, 6, 0))
        self.assertEqual(fidelity.kendall_tau(rows), 0.5)

    def test_what_runs_do_not_tell_apart_does_not_count(self):
        rows = self.rows(("g", 1.00, 2, 0.1), ("g", 1.05, 1, 0.1))
        self.assertIsNone(fidelity.kendall_tau(rows))


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
class Quick(unittest.TestCase):
    """Two set-ups of the short version, once each; all of it where FUSION_NIGHTLY is set. Other work may use the machine: errors
    are not looked at, but that the simulation is of the same order."""

    def test_the_short_version_writes_all_its_files(self):
        some = [] if os.environ.get("FUSION_NIGHTLY") else ["--runs", "1", "--only", "equal-number"]
        folder = ROOT / "results/fidelity-quick"
        shutil.rmtree(folder, ignore_errors=True)
        ran = subprocess.run([ROOT / "experiments/fidelity", "--quick", *some], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = pd.read_csv(folder / "fidelity.csv")
        self.assertEqual(set(rows.setup), {name for name in table.QUICK if not some or "equal-number" in name})
        self.assertTrue((rows.runs == (1 if some else 2)).all())
        # A fifth to five times: a machine with many others at work may double a step.
        self.assertTrue(((rows.simulated_s / rows.measured_s).between(0.2, 5)).all(), rows.to_string())
        self.assertGreater(len(pd.read_csv(folder / "links.csv")), 0)
        kinds = pd.read_csv(folder / "kinds.csv")
        self.assertLessEqual({"forward", "backward", "transfer", "update"}, set(kinds.kind))
        self.assertTrue((kinds.measured_s > 0).all(), kinds.to_string())
        self.assertTrue((folder / "fidelity.png").stat().st_size > 10_000 and (folder / "summary.json").exists())


if __name__ == "__main__":
    unittest.main()
