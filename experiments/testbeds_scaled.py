"""The scaled-down testbed of experiments/testbeds: four devices with the lines of testbed-3, plans simulated and executed."""
import hashlib
import json
import pathlib
import shutil
import statistics
import sys
import tomllib

import fidelity_report as fidelity
import fidelity_setups as table
import netlab_runs as runs

PLATFORM = runs.HERE.parent / "platforms/testbed-3.toml"
SITES = {"A": "a", "B": "b", "C": "c", "D0": "d"}  # site of testbed-3: its one device here
LINKS = "testbed-3, scaled"
TARGET_S, FEWEST_STEPS, MOST_STEPS = 2.5, 3, 10  # of one run


def sites():
    """The chosen sites of testbed-3, in the order of SITES, as the file has them."""
    by_name = {site["name"]: site for site in tomllib.loads(PLATFORM.read_text())["site"]}
    return [by_name[name] for name in SITES]


def platform_text(gpu_entry):
    lines = ['name = "testbed-3-scaled"', 'description = "One device of each of A, B, C and D0 of testbed-3, with their lines"']
    for site in sites():
        lines.append(f'[[site]]\nname = "{site["name"]}"')
        lines += [f'{way} = {{bandwidth = "{site[way]["bandwidth"]}", latency = "{site[way]["latency"]}"}}'
                  for way in ("uplink", "downlink")]
        lines.append(f'[[site.host]]\nname = "{SITES[site["name"]]}"\ngpu = "{runs.GPU}"')
    return "\n".join(lines) + "\n\n" + gpu_entry


def pairs(ranks):
    """Mbps and ms, [from][to], of a message that has its route to itself."""
    def figure(line, key):
        number, unit = line[key].split()
        return float(number) * {"Gbps": 1000, "Mbps": 1, "ms": 1}[unit]

    some = sites()[:ranks]
    rates = [[min(figure(a["uplink"], "bandwidth"), figure(b["downlink"], "bandwidth")) for b in some] for a in some]
    latencies = [[figure(a["uplink"], "latency") + figure(b["downlink"], "latency") for b in some] for a in some]
    return rates, latencies


table.LINKS[LINKS] = pairs


def platform_of(folder, model):
    """The platform with this machine's profile, one op at a time, which is measured once and kept."""
    file = folder / f"{model}.toml"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        entry = runs.call([runs.BIN / "fusion-exec", "profile", *table.MODELS[model], "--gpu", runs.GPU,
                           "-o", folder / f"profile-{model}.json", "--quiet"])
        file.write_text(platform_text(entry))
    return file


def what_runs(schedule):
    """A digest of all that matters to a run: plans that differ in the names of policy and compression alone are one."""
    named = ("policy", "compress", "predicted_iteration_s")
    text = json.dumps({key: value for key, value in schedule.items() if key not in named}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def planned(folder, model, policy, codec):
    """A record as fidelity_report has them, without its executed reports."""
    setup = table.Setup(model, len(SITES), LINKS, "1f1b", codec, policy, held_out=False)
    draft = folder / "plan.json"
    options = ["--policy", policy, "--order", "1f1b", "--micro-batches", table.MICRO_BATCHES, "--compress", codec]
    schedule = runs.plan(table.MODELS[model], platform_of(folder, model), options, draft)
    place = folder / f"{model}-{what_runs(schedule)}"
    place.mkdir(exist_ok=True)
    plan = place / "schedule.json"
    shutil.move(draft, plan)
    return {"setup": setup, "plan": plan, "simulated": runs.simulate(plan, place / "simulated.json")}


def read_run(folder):
    """The report of a run and its steps after the first; None where it is not whole."""
    try:
        report = json.loads((folder / "executed.json").read_text())
        steps = [json.loads(line)["iteration_s"] for line in (folder / "steps.jsonl").read_text().splitlines()]
        return report | {"steps_s": steps[1:], "median_s": statistics.median(steps[1:])}
    except (OSError, ValueError, KeyError, statistics.StatisticsError):
        return None


def executed(record, network):
    """One run of a record's plan; what was run before, under any name, is not run again."""
    plan = record["plan"]
    folder = plan.parent / f"run-{network}"
    done = read_run(folder)
    if done is None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        steps = min(max(round(TARGET_S / record["simulated"]["iteration_s"]), FEWEST_STEPS), MOST_STEPS)
        alone = len(json.loads(plan.read_text())["stages"]) == 1  # no link to shape
        within = json.loads(plan.read_text())["platform"] if network == "lab" and not alone else None
        runs.execute(plan, folder, ["--data", "synthetic", "--steps", str(steps)], within, shape=network == "shape")
        done = read_run(folder)
        if done is None:
            raise runs.RunFailed(f"{folder}: no whole report")
    return done


def row_of(record, factor, calibration):
    setup, done = record["setup"], record["executed"][0]
    foretold = fidelity.simulate_calibrated(record, factor)
    seconds = foretold["iteration_s"] + fidelity.coordination(setup, foretold)
    return {"model": setup.model, "policy": setup.policy, "compress": setup.codec, "devices_used": foretold["devices_used"],
            "steps": len(done["steps_s"]), "measured_s": done["median_s"],
            "measured_spread": (max(done["steps_s"]) - min(done["steps_s"])) / done["median_s"], "simulated_s": seconds,
            "relative_error": seconds / done["median_s"] - 1, "calibration": calibration, "pass_factor": factor,
            "plan": record["plan"].parent.name}


def with_speedups(rows):
    """Over the first row, which is the first policy without compression."""
    base = rows[0]
    for row in rows:
        measured, foretold = (base[key] / row[key] for key in ("measured_s", "simulated_s"))
        row |= {"speedup_measured": measured, "speedup_simulated": foretold, "speedup_error": foretold / measured - 1}
    return rows


def measure(folder, network, models, policies, codecs):
    """A row for every model, policy and compression. The first policy's runs say how much longer passes take in place."""
    folder = pathlib.Path(folder)
    rows = []
    for model in models:
        records = [planned(folder, model, policy, codec) for policy in policies for codec in codecs]
        for number, record in enumerate(records, 1):
            record["executed"] = [executed(record, network)]
            print(f"{number:>2}/{len(records)} {model}, {record['setup'].policy}, {record['setup'].codec:<20} measured {record['executed'][0]['median_s']:7.3f} s  "
                  f"simulated {record['simulated']['iteration_s']:7.3f} s", file=sys.stderr, flush=True)
        known = [record["setup"].policy == policies[0] for record in records]
        factor = statistics.median(fidelity.pass_ratio(record) for record, one in zip(records, known) if one)
        rows += with_speedups([row_of(record, factor, one) for record, one in zip(records, known)])
    return rows
