"""What experiments/fidelity makes of its reports: calibration, errors, ranking, tables and the plot."""
import itertools
import json
import os
import pathlib
import re
import statistics

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import pandas as pd  # noqa: E402

import fidelity_setups as table  # noqa: E402
import netlab_runs as runs  # noqa: E402

PASSES = ("forward", "backward")
BUSY = 0.05  # of the cores: from there on others are seen in the errors


def median_of(reports, figure):
    return statistics.median(figure(report) for report in reports)


def kinds_of(report):
    return {kind["name"]: kind["total_s"] for kind in report["task_kinds"]}


# ---------------------------------------------------------------------------------------------- calibration
def pass_ratio(record):
    """Executed over simulated time of the forward and backward passes."""
    def passes(report):
        return sum(kinds_of(report).get(kind, 0) for kind in PASSES)

    return median_of(record["executed"], passes) / passes(record["simulated"])


def condition(record):
    """What a factor holds for: a network, and whether its ranks wait for messages between passes."""
    return f"{record['setup'].model}, {'ranks' if record['simulated']['devices_used'] > 1 else 'one rank'}"


def calibrate(records):
    """Per network and condition: how much longer its passes take in place than in the profile, from what is not held out.
    One that has nothing else takes the median of the others in its condition, or 1."""
    ratios = {}
    for record in records:
        if not record["setup"].held_out:
            ratios.setdefault(condition(record), []).append(pass_ratio(record))

    def factor(name):
        alike = [ratio for key, group in ratios.items() if key.endswith(name.split(", ")[1]) for ratio in group]
        return statistics.median(ratios.get(name) or alike or [1.0])

    return {name: factor(name) for name in sorted({condition(record) for record in records})}


def slower(platform_text, factor):
    """The platform with a device that takes `factor` as long for what its figures say."""
    def scaled(match):
        number = float(match[2]) * (factor if match[1] == "launch_overhead" else 1 / factor)
        return f'{match[1]} = "{number:.6g} {match[3]}"'

    keys = "peak_fp32|peak_fp16|memory_bandwidth|launch_overhead"
    return re.sub(rf'({keys}) = "([0-9.e+-]+) ([^"]+)"', scaled, platform_text)


def slower_profile(profile, factor):
    """The same for the ops that were measured on it."""
    ops = [op | {key: op[key] * factor for key in ("forward_s", "backward_s")} for op in profile["ops"]]
    return profile | {"ops": ops}


def simulate_calibrated(record, factor):
    """The report of the same plan on the calibrated device."""
    plan = json.loads(record["plan"].read_text())
    folder, platform = record["plan"].parent, pathlib.Path(plan["platform"])
    profile = re.search(r'^profile = "([^"]+)"', platform.read_text(), re.MULTILINE)[1]
    ops = slower_profile(json.loads((platform.parent / profile).read_text()), factor)
    (folder / "calibrated-profile.json").write_text(json.dumps(ops))
    calibrated = folder / "calibrated.toml"
    calibrated.write_text(slower(platform.read_text(), factor).replace(f'"{profile}"', '"calibrated-profile.json"'))
    (folder / "calibrated-schedule.json").write_text(json.dumps(plan | {"platform": str(calibrated)}))
    return runs.simulate(folder / "calibrated-schedule.json", folder / "calibrated.json")


def coordination(setup, simulated):
    """Seconds from the end of the schedule to that of the executor's step, which every rank tells to the first one: one
    latency from whoever is last to be heard."""
    _, latency_ms = table.LINKS[setup.links](setup.ranks)
    first = next(iter(simulated["devices"]))["name"]

    def heard(name):
        away = 0 if name == first else latency_ms[ord(name) - ord("a")][ord(first) - ord("a")] * 1e-3
        return simulated["ends_s"][name] + away

    return max(max(map(heard, simulated["ends_s"])) - simulated["iteration_s"], 0)


# ---------------------------------------------------------------------------------------------- tables
def main_row(record, calibrated):
    setup, executed = record["setup"], record["executed"]
    times = [report["median_s"] for report in executed]
    measured = statistics.median(times)
    raw = record["simulated"]["iteration_s"] + coordination(setup, record["simulated"])
    control = coordination(setup, calibrated)
    simulated = calibrated["iteration_s"] + control
    busy = sum(device["busy_s"] for device in calibrated["devices"])
    slowest = max(calibrated["links"], key=lambda link: link["busy_s"], default=None)
    row = {"setup": setup.name, "group": setup.group, "policy": setup.policy, "devices_used": calibrated["devices_used"],
           "runs": len(times), "measured_s": measured, "measured_spread": (max(times) - min(times)) / measured,
           "simulated_s": simulated, "relative_error": simulated / measured - 1, "held_out": setup.held_out,
           "coordination_s": control,
           "uncalibrated_s": raw, "uncalibrated_error": raw / measured - 1, "pass_ratio": pass_ratio(record),
           "drift": record["drift"],
           "crowding": busy / simulated / os.cpu_count(),
           "others_busy": statistics.mean(report["others_busy"] for report in executed)}
    if slowest:
        name = (slowest["from"], slowest["to"])
        row |= {"slowest_link": " > ".join(name), "slowest_link_simulated_s": slowest["busy_s"],
                "slowest_link_measured_s": median_of(executed, lambda report: links_of(report)[name])}
    return row


def links_of(report):
    return {(link["from"], link["to"]): link["busy_s"] for link in report["links"]}


def link_rows(record, calibrated):
    for name, simulated in links_of(calibrated).items():
        measured = median_of(record["executed"], lambda report: links_of(report)[name])
        yield {"setup": record["setup"].name, "from": name[0], "to": name[1], "measured_busy_s": measured,
               "simulated_busy_s": simulated, "relative_error": simulated / measured - 1}


def kind_rows(record, calibrated):
    simulated = kinds_of(calibrated)
    for name in simulated:
        measured = median_of(record["executed"], lambda report: kinds_of(report).get(name, 0))
        yield {"setup": record["setup"].name, "kind": name, "measured_s": measured, "simulated_s": simulated[name],
               "relative_error": simulated[name] / measured - 1 if measured else None}


def kendall_tau(rows):
    """Over all pairs of policies within a group that the executed runs tell apart, which is by more than their spread:
    concordant less discordant, over pairs. None without a pair."""
    score = pairs = 0
    for _, group in rows.groupby("group"):
        for (_, a), (_, b) in itertools.combinations(group.iterrows(), 2):
            spread = max(a.measured_s * a.measured_spread, b.measured_s * b.measured_spread)
            if abs(a.measured_s - b.measured_s) <= spread:
                continue
            product = (a.measured_s - b.measured_s) * (a.simulated_s - b.simulated_s)
            score += (product > 0) - (product < 0)
            pairs += 1
    return score / pairs if pairs else None


def errors_of(rows, column="relative_error"):
    errors = rows[column].abs()
    return {"setups": len(rows), "mean_error": errors.mean(), "max_error": errors.max(),
            "worst": rows.setup[errors.idxmax()] if len(rows) else None}


def plot(rows, file):
    figure, axes = plt.subplots(figsize=(6, 5))
    span = [rows.measured_s.min() * 0.8, rows.measured_s.max() * 1.25]
    axes.plot(span, span, color="0.6", linewidth=1, label="equal")
    for held_out, mark in ((False, "o"), (True, "D")):
        some = rows[rows.held_out == held_out]
        axes.errorbar(some.measured_s, some.simulated_s, xerr=some.measured_s * some.measured_spread / 2, fmt=mark, markersize=5,
                      label="held out" if held_out else "in the calibration")
    axes.set(xscale="log", yscale="log", xlabel="executed step, s", ylabel="simulated step, s")
    axes.legend(title=f"mean error held out {100 * errors_of(rows[rows.held_out])['mean_error']:.1f} %" if rows.held_out.any() else None)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(file, dpi=150)


def show(rows, kinds, summary):
    print(rows[["setup", "devices_used", "measured_s", "measured_spread", "simulated_s", "relative_error", "uncalibrated_error",
                "coordination_s", "crowding", "drift", "others_busy", "held_out"]].to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    if rows.others_busy.mean() > BUSY:
        print(f"\nnot to be relied on: other work used {100 * rows.others_busy.mean():.0f} % of the cores before the runs")
    print("\nby kind, simulated over executed:")
    sums = kinds.groupby("kind")[["measured_s", "simulated_s"]].sum()
    print((sums.simulated_s / sums.measured_s - 1).map(lambda value: f"{100 * value:+.1f} %").to_string())
    for name in ("calibration", "held_out", "nothing_fitted"):
        one = summary[name]
        if one["setups"]:
            print(f"{name.replace('_', ' ')}: {one['setups']} set-ups, mean error {100 * one['mean_error']:.1f} %, largest "
                  f"{100 * one['max_error']:.1f} % ({one['worst']})")
    print(f"Kendall tau of the policies: {summary['kendall_tau']}")


def write(folder, records, made):
    """All files of the experiment, and its tables on standard output."""
    factors = calibrate(records)
    again = [simulate_calibrated(record, factors[condition(record)]) for record in records]
    rows = pd.DataFrame([main_row(record, report) for record, report in zip(records, again)])
    links = pd.DataFrame([row for record, report in zip(records, again) for row in link_rows(record, report)])
    kinds = pd.DataFrame([row for record, report in zip(records, again) for row in kind_rows(record, report)])
    summary = {"made": made, "factors": factors, "calibration": errors_of(rows[~rows.held_out]),
               "held_out": errors_of(rows[rows.held_out]), "nothing_fitted": errors_of(rows, "uncalibrated_error"),
               "kendall_tau": kendall_tau(rows)}
    for name, frame in (("fidelity", rows), ("links", links), ("kinds", kinds)):
        frame.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    plot(rows, folder / "fidelity.png")
    show(rows, kinds, summary)
