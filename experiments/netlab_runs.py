"""What experiments that run in a laboratory of experiments/netlab share: platforms of pairs, plans, simulated and executed
steps. Set FUSION_BIN to use binaries other than build/release/bin."""
import json
import os
import pathlib
import subprocess
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ.get("FUSION_BIN", HERE.parent / "build/release/bin")).resolve()
NETLAB = HERE / "netlab"
GPU = "this machine"


class RunFailed(Exception):
    """What was run, and the end of what it said."""


def call(words, **options):
    """Standard output of a command; its standard error is in the exception where it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-12:]
        raise RunFailed(f"{' '.join(map(str, words[:4]))} … exit {done.returncode}: " + "\n  ".join(said))
    return done.stdout


def build():
    """The binaries, unless FUSION_BIN names others."""
    if "FUSION_BIN" not in os.environ:
        subprocess.run([HERE / "build", "release", "fusion-sim", "fusion-exec", "netlab-relay"], check=True)


def why_no_lab():
    """One line, or nothing where laboratories can be had."""
    tried = subprocess.run([NETLAB, "run", "--name", f"try{os.getpid()}", "--platform", "pair", "--", "true"],
                           capture_output=True, text=True)
    return "" if tried.returncode == 0 else tried.stderr.strip().removeprefix("netlab: ")


def platform_text(name, bandwidth_mbps, latency_ms, gpu_entry):
    """A platform of hosts a, b, c …; matrices [from][to], whose diagonals don't count."""
    size = range(len(bandwidth_mbps))
    rows = {"bandwidth_mbps": bandwidth_mbps, "latency_ms": latency_ms}
    lines = [f'name = "{name}"', f'description = "{len(bandwidth_mbps)} ranks, links by pair"']
    lines += ["[[site]]", 'name = "s"']
    lines += [f'[[site.host]]\nname = "{chr(ord("a") + i)}"\ngpu = "{GPU}"' for i in size]
    lines += ["[matrix]", 'level = "host"', "diagonal = false"]
    lines += [f"{key} = {[[0 if i == j else rows[key][i][j] for j in size] for i in size]}" for key in rows]
    return "\n".join(lines) + "\n\n" + gpu_entry


def profile(model_options, file, wait, repeats=10):
    """The [[gpu]] entry of one rank of this machine whose passes wait so long for each other ("10 ms", "none"), measured in
    place; the times by op go to `file`."""
    return call([BIN / "fusion-exec", "profile", *model_options, "--in-place", wait, "--repeats", repeats, "--gpu", GPU,
                 "-o", file, "--quiet"])


def probe(platform, rates, file):
    """What `fusion-exec probe` measures in a laboratory of that platform, as matrices (Mbps, ms) [from][to]; `rates` are the
    configured ones. A probe sees round trips: what they take beyond the configured latencies is shared by both ways."""
    bandwidth, latency = rates
    size = range(len(bandwidth))
    if not pathlib.Path(file).exists():
        hosts = ",".join(chr(ord("a") + i) for i in size)
        limits = [word for name in ("eager_limit", "rndv_eager_limit", "max_send_size")
                  for word in ("--mca", f"btl_tcp_{name}", "4194304")]
        call([NETLAB, "run", "--name", f"probe{os.getpid()}", "--platform", platform, "--",
              "mpirun", "--timeout", "300", "--bind-to", "none", "-np", len(bandwidth), "--host", hosts,
              "--mca", "mpi_yield_when_idle", "1", *limits, BIN / "fusion-exec", "probe", "-o", file, "--quiet"])
    found = tomllib.loads(pathlib.Path(file).read_text())["matrix"]
    mbps = found.get("bandwidth_mbps") or [[1e3 * value for value in row] for row in found["bandwidth_gbps"]]
    ms = found.get("latency_ms") or [[1e-3 * value for value in row] for row in found["latency_us"]]
    more = [[(ms[i][j] + ms[j][i] - latency[i][j] - latency[j][i]) / 2 for j in size] for i in size]
    return mbps, [[max(latency[i][j] + more[i][j], 1e-3) for j in size] for i in size]


def plan(model_options, platform, options, file):
    """Makes schedule.json; returns it as read."""
    call([BIN / "fusion-sim", "plan", *model_options, "--platform", platform, *options, "-o", file, "--quiet"])
    return json.loads(pathlib.Path(file).read_text())


def simulate(plan_file, report):
    """The simulated report, and by device name when its last step ends."""
    timeline = pathlib.Path(report).with_suffix(".timeline.json")
    call([BIN / "fusion-sim", "simulate", "--plan", plan_file, "--report", report, "--timeline", timeline, "--quiet"])
    events = json.loads(timeline.read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"].split(":")[0] for event in events if event["name"] == "process_name"}
    ends = {}
    for event in events:
        if event["ph"] == "X" and not event["name"].startswith("send "):
            name = names[event["pid"]]
            ends[name] = max(ends.get(name, 0), (event["ts"] + event["dur"]) * 1e-6)
    return json.loads(pathlib.Path(report).read_text()) | {"ends_s": ends}


def execute(plan_file, folder, train_options, platform=None, shape=False):
    """The executed report, by MPI ranks: in a laboratory of that platform; else on this machine alone, where `shape` makes
    the executor slow its links down."""
    schedule = json.loads(pathlib.Path(plan_file).read_text())
    report, steps = pathlib.Path(folder, "executed.json").resolve(), pathlib.Path(folder, "steps.jsonl").resolve()
    hosts = [stage["device"] for stage in schedule["stages"]]
    words = [BIN / "fusion-exec", "launch", "--plan", plan_file, "-o", folder, "--timeout", "600", "--quiet"]
    words += ["--hosts", ",".join(hosts)] if platform else []
    words += ["--", *train_options, "--report", report, "--jsonl", steps, "--quiet"] + (["--shape"] if shape else [])
    call(words)
    run = pathlib.Path(folder, "run").resolve()
    call([NETLAB, "run", "--name", f"run{os.getpid()}", "--platform", platform, "--", run] if platform else [run])
    return json.loads(report.read_text())
