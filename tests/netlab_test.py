#!/usr/bin/env python3
"""experiments/netlab: hosts of their own for devices, links as slow as the platform says, and nothing left behind.

Exit 77 (skipped) where the machine gives no network namespaces. Set FUSION_BIN to the folder of the binaries.
Timing is asserted on the side that no loaded machine can break: never quicker than configured.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETLAB = str(ROOT / "experiments/netlab")
sys.path.insert(0, str(ROOT / "experiments"))
import netlab_lab as lab  # noqa: E402
import netlab_runs as runs  # noqa: E402

NAME = f"test{os.getpid()}"
PLATFORM = """name = "three"
[[site]]
name = "s"
[[site.host]]
name = "a"
gpu = "RTX 3090"
[[site.host]]
name = "b"
gpu = "RTX 3090"
[[site.host]]
name = "c.gpu0"
gpu = "RTX 3090"
[matrix]
level = "host"
diagonal = false
bandwidth_mbps = [[0, 100, 20], [50, 0, 20], [40, 5000, 0]]
latency_ms = [[0, 10, 30], [1, 0, 10], [25, 0.1, 0]]
"""


def netlab(verb, *words, **options):
    """One call of it, with a laboratory of the tests' own."""
    return subprocess.run([NETLAB, verb, "--name", NAME, *words], capture_output=True, text=True, timeout=120, **options)


def alive(mark):
    """Processes whose command line holds the mark."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in entry.read_text():
                found.append(entry.parent.name)
        except OSError:
            pass
    return found


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Relay(unittest.TestCase):
    """What the relay is told of a platform, which needs no namespaces."""

    PLAN = {"devices": ["a", "b", "c"], "queue_s": 0.5,
            "links": [{"name": "up", "bandwidth_bits_per_s": 2e7, "shared": True},
                      {"name": "b.in", "bandwidth_bits_per_s": 1e8, "shared": True},
                      {"name": "a>c", "bandwidth_bits_per_s": 8e6, "shared": False}],
            "pairs": [{"from": "a", "to": "b", "latency_s": 0.01, "links": ["up", "b.in"]},
                      {"from": "c", "to": "b", "latency_s": 0.02, "links": ["up", "b.in"]},
                      {"from": "a", "to": "c", "latency_s": 0.03, "links": ["a>c"]}]}

    def test_a_shared_link_is_one_hop_and_a_pair_of_its_own_another(self):
        index = {"a": 0, "b": 1, "c": 2}
        lines = lab.relay_plan(self.PLAN, self.PLAN["pairs"], index).splitlines()
        self.assertEqual(lines[:3], [f"device /run/netns/{name}" for name in "abc"])
        # Half a second of 20 Mbps is 1.25 MB; of 8 Mbps 500 kB.
        self.assertEqual(lines[3:6], ["hop 20000000 1250000", "hop 100000000 6250000", "hop 8000000 500000"])
        self.assertEqual(lines[6:], ["route 0 1 10000000 0,1", "route 2 1 20000000 0,1", "route 0 2 30000000 2"])

    def test_addresses_end_in_the_number_of_the_device_plus_one(self):
        self.assertEqual(lab.address(lab.DATA_NETWORK, 0), "10.77.0.1")
        self.assertEqual(lab.address(lab.CONTROL_NETWORK, 255), "10.78.1.0")

    def test_pairs_that_are_fast_and_near_go_by_htb(self):
        pair = {"bandwidth_bits_per_s": 1e10, "latency_s": 1e-4}
        self.assertTrue(lab.by_htb(pair, netem=False))
        self.assertFalse(lab.by_htb(pair | {"bandwidth_bits_per_s": 1e9}, netem=True))
        self.assertFalse(lab.by_htb(pair | {"latency_s": 1e-2}, netem=False))
        self.assertTrue(lab.by_htb(pair | {"latency_s": 1e-2}, netem=True))


class Runs(unittest.TestCase):
    """What the experiments write for fusion-sim, which needs no namespaces."""

    def test_a_platform_of_pairs_is_read_as_it_was_meant(self):
        gpu = f'[[gpu]]\nname = "{runs.GPU}"\n' + """peak_fp32 = "50 GFLOP/s"
peak_fp16 = "50 GFLOP/s"
memory = "4 GiB"
memory_bandwidth = "5 GB/s"
sustained_flops = 1.0
sustained_bandwidth = 1.0
launch_overhead = "5 us"
source = "a test"
"""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "two.toml")
            file.write_text(runs.platform_text("two", [[9, 8], [100, 9]], [[9, 50], [10, 9]], gpu))
            pairs = json.loads(runs.call([runs.BIN / "fusion-sim", "platform", "pairs", file, "--json"]))["pairs"]
        self.assertEqual([(p["from"], p["to"], p["bandwidth_bits_per_s"], p["latency_s"]) for p in pairs],
                         [("a", "b", 8e6, 0.05), ("b", "a", 1e8, 0.01)])

    def test_what_fails_says_what_it_said(self):
        with self.assertRaisesRegex(runs.RunFailed, "no-such-platform"):
            runs.call([runs.BIN / "fusion-sim", "platform", "pairs", "no-such-platform"])


class Laboratory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.platform = str(pathlib.Path(cls.folder.name, "three.toml"))
        pathlib.Path(cls.platform).write_text(PLATFORM)
        started = netlab("up", cls.platform)
        assert started.returncode == 0, started.stderr
        assert "1 directed pairs by HTB, 5 by netlab-relay" in started.stderr or "netem" in started.stderr, started.stderr

    @classmethod
    def tearDownClass(cls):
        netlab("down")
        cls.folder.cleanup()

    def test_a_command_runs_on_the_host_it_is_meant_for_and_gives_its_exit_code(self):
        self.assertEqual(netlab("run", "--", "hostname").stdout, "a\n")
        self.assertEqual(netlab("run", "--on", "c.gpu0", "--", "hostname").stdout, "c.gpu0\n")
        self.assertEqual(netlab("run", "--", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(netlab("run", "--", "pwd", cwd="/usr/lib").stdout, "/usr/lib\n")
        wrong = netlab("run", "--on", "d", "--", "true")
        self.assertEqual((wrong.returncode, wrong.stderr), (3, "netlab: --on: 'd' is none of a, b, c.gpu0\n"))

    def test_mpirun_reaches_all_hosts(self):
        ran = netlab("run", "--", "mpirun", "--timeout", "60", "-np", "3", "--host", "a,b,c.gpu0", "hostname")
        self.assertEqual(sorted(ran.stdout.split()), ["a", "b", "c.gpu0"], ran.stderr)

    def test_no_pair_is_quicker_than_configured(self):
        pairs = json.loads(netlab("check", "--json").stdout)
        self.assertEqual(len(pairs), 6)
        for pair in pairs:
            name = f"{pair['from']} > {pair['to']}"
            self.assertLess(pair["measured_bandwidth_bits_per_s"], 1.1 * pair["bandwidth_bits_per_s"], name)
            if pair["by"] == "relay":
                self.assertGreaterEqual(pair["measured_latency_s"], pair["latency_s"], name)

    def test_a_second_one_of_the_name_is_refused(self):
        second = netlab("up", self.platform)
        self.assertEqual(second.returncode, 3)
        self.assertIn("is up already", second.stderr)

    def test_what_was_running_ends_with_the_one_who_asked(self):
        mark = f"netlab-mark-{os.getpid()}"
        for number in (signal.SIGKILL, signal.SIGTERM):
            asked = subprocess.Popen([NETLAB, "run", "--name", NAME, "--", "sh", "-c", "sleep 100; true", mark])
            self.assertTrue(until(lambda: len(alive(mark)) > 1))
            asked.send_signal(number)
            asked.wait()
            self.assertTrue(until(lambda: not alive(mark)), number)

    def test_a_command_that_is_asked_to_end_may_take_its_time(self):
        script = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), sys.exit(9)))\n" \
                 "print('up', flush=True)\ntime.sleep(100)"
        asked = subprocess.Popen([NETLAB, "run", "--name", NAME, "--", sys.executable, "-c", script], stdout=subprocess.PIPE,
                                 text=True)
        self.assertEqual(asked.stdout.readline(), "up\n")
        asked.terminate()
        self.assertEqual(asked.wait(60), 9)
        asked.stdout.close()

    def test_a_killed_laboratory_leaves_nothing(self):
        name, mark = NAME + "k", f"netlab-mark-{os.getpid()}-killed"
        words = [NETLAB, "run", "--name", name, "--platform", self.platform, "--", "sh", "-c", "sleep 100; true", mark]
        asked = subprocess.Popen(words)
        self.assertTrue(until(lambda: len(alive(mark)) > 1))
        asked.kill()
        asked.wait()
        self.assertTrue(until(lambda: not alive(mark)))
        again = subprocess.run([NETLAB, "run", "--name", name, "--platform", self.platform, "--", "hostname"],
                               capture_output=True, text=True)
        self.assertFalse(pathlib.Path("/run/netlab", f"{name}.json").exists())
        self.assertEqual((again.returncode, again.stdout), (0, "a\n"), again.stderr)

    def test_bad_input_is_one_line_and_exit_3(self):
        wrong = subprocess.run([NETLAB, "up", "--name", NAME + "x", "no-such"], capture_output=True, text=True)
        self.assertEqual(wrong.returncode, 3)
        self.assertEqual(wrong.stderr.count("\n"), 1)
        self.assertIn("no-such", wrong.stderr)


def refusal():
    """Why there can be no laboratory here; empty where there can."""
    words = [NETLAB, "run", "--name", NAME + "p", "--platform", "pair", "--", "true"]
    tried = subprocess.run(words, capture_output=True, text=True)
    return tried.stderr.strip() if tried.returncode != 0 else ""


if __name__ == "__main__":
    why = refusal()
    if why and "no network namespaces" not in why and "/dev/net/tun" not in why:
        sys.exit(why)
    ran = unittest.main(defaultTest=["Relay", "Runs"] if why else None, exit=False).result
    if why:
        print(f"skipped: {why}")
    sys.exit(1 if not ran.wasSuccessful() else 77 if why else 0)
