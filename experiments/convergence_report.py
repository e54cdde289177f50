"""What experiments/convergence makes of its runs: the table, the rows and the plots."""
import csv
import json
import statistics

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

import convergence_setups as table  # noqa: E402

GAP, SPEEDUP = 0.01, 5  # what a setting should reach at the slower bandwidth
OKABE_ITO = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#0072B2", "#CC79A7", "#7F7F7F"]  # told apart by all
MARKERS = ["o", "s", "^", "v", "D", "P", "X", "*"]
LINES = ["-", "--", ":"]
HOUR = 3600


def last(record):
    return record["points"][-1]


def of(records, task, setup):
    return [record for record in records if (record["task"], record["setup"]) == (task.name, setup.name)]


def mean(records, figure):
    values = [last(record)[figure] for record in records]
    return None if None in values else statistics.mean(values)


def row_of(records, task, setup):
    """One line of the table: means over the seeds, against the dense runs of the same task."""
    dense, own = of(records, task, table.SETUPS[0]), of(records, task, setup)
    seeds = {record["seed"] for record in own}
    same = [record for record in dense if record["seed"] in seeds]  # what the seed does to the loss is not the codec's doing
    gap = mean(own, "loss") / mean(same, "loss") - 1
    speedups = {b: dense[0]["times"][b][-1] / own[0]["times"][b][-1] for b in table.BANDWIDTHS}
    return {"task": task.name, "setup": setup.name, "compress": setup.compress, "feedback": setup.feedback,
            "over": setup.over, "after_percent": setup.after, "warmup_percent": setup.warmup, "seeds": len(own),
            "loss": mean(own, "loss"), "gap": gap, "loss_exact": mean(own, "loss_exact"),
            "gap_exact": mean(own, "loss_exact") / mean(same, "loss_exact") - 1, "accuracy": mean(own, "accuracy"),
            "hours": {b: own[0]["times"][b][-1] / HOUR for b in table.BANDWIDTHS}, "speedup": speedups,
            "reaches": gap <= GAP and speedups[table.PLANNED_AT] >= SPEEDUP}


def spread(records, task):
    """Largest distance of a dense run's loss from the mean of them, over that."""
    losses = [last(record)["loss"] for record in of(records, task, table.SETUPS[0])]
    middle = statistics.mean(losses)
    return max(abs(loss - middle) for loss in losses) / middle


# ---------------------------------------------------------------------------------------------- table
def settings(row):
    words = []
    if "topk" in row["compress"] or row["compress"] == "powersgd":
        words.append({"all": "feedback", "gradients": "feedback of gradients", "none": "no feedback"}[row["feedback"]])
    if row["over"] == "rows":
        words.append("by rows")
    if row["after_percent"]:
        words.append(f"first {row['after_percent']} % exact")
    if row["warmup_percent"]:
        words.append(f"ratio grows over {row['warmup_percent']} %")
    return ", ".join(words)


def table_of(rows, task):
    accuracy = " accuracy |" if task.accuracy else ""
    hours = " | ".join(f"hours at {b} | speed-up" for b in table.BANDWIDTHS)
    lines = [f"| codec | settings | seeds | loss | gap | gap, not coded |{accuracy} {hours} | |",
             "|---|---|---:|---:|---:|---:|" + ("---:|" if task.accuracy else "") + "---:|" * 4 + "---|"]
    for row in rows:
        share = f" {row['accuracy']:.1%} |" if task.accuracy else ""
        times = " | ".join(f"{row['hours'][b]:.3f} | {row['speedup'][b]:.2f}x" for b in table.BANDWIDTHS)
        lines.append(f"| {row['setup']} | `{row['compress']}` {settings(row)} | {row['seeds']} | {row['loss']:.4f} | "
                     f"{row['gap']:+.2%} | {row['gap_exact']:+.2%} |{share} {times} | "
                     f"{'**reaches both**' if row['reaches'] else ''} |")
    return "\n".join(lines)


def verdict(rows, task):
    reached = [row for row in rows if row["reaches"]]
    ada = [row for row in reached if "adatopk" in row["compress"]]
    if ada:
        best = min(ada, key=lambda row: row["gap"])
        return (f"AdaTopK reaches both with {len(ada)} of its settings; the least gap is that of **{best['setup']}**: "
                f"{best['gap']:+.2%} at {best['speedup'][table.PLANNED_AT]:.2f}x.")
    fast = [row for row in rows if "adatopk" in row["compress"] and row["speedup"][table.PLANNED_AT] >= SPEEDUP]
    close = min(fast, key=lambda row: row["gap"], default=None)
    text = "No setting of AdaTopK that was tried reaches both"
    if close:
        text += f"; the nearest at {SPEEDUP}x or more is {close['setup']}, {close['gap']:+.2%}"
    return text + (f". Others do: {', '.join(row['setup'] for row in reached)}." if reached else ".")


def page(records, rows, tasks, made_by):
    parts = ["# Loss against compression", "",
             f"Made by `{made_by['command']}` at commit {made_by['commit']}, {made_by['machine']}. Target: a gap of at most "
             f"{GAP:.0%} and a speed-up of at least {SPEEDUP} at {table.PLANNED_AT}. The gap is the held-out loss over that "
             "of the dense runs with the same seeds, less 1; beside it that of the same weights without codecs."]
    for task in tasks:
        own = [row for row in rows if row["task"] == task.name]
        parts += ["", f"## {task.what}, {task.steps} steps", "", table_of(own, task), "", verdict(own, task),
                  f"Noise: the dense runs of {len(of(records, task, table.SETUPS[0]))} seeds lie within "
                  f"±{spread(records, task):.2%} of their mean."]
    return "\n".join(parts) + "\n"


# ---------------------------------------------------------------------------------------------- plots
def style(setup):
    """The same look for a set-up in every plot."""
    number = table.SETUPS.index(setup)
    return {"color": OKABE_ITO[number % len(OKABE_ITO)], "linestyle": LINES[number // len(OKABE_ITO) % len(LINES)],
            "marker": MARKERS[number % len(MARKERS)], "markersize": 5, "linewidth": 1.6, "fillstyle": "full" if number < len(OKABE_ITO) else "none"}


def tidy(ax, x, y):
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def curves(to, records, task, setups, figure):
    fig, axes = plt.subplots(1, 3, figsize=(15, 5.2), sharey=True)
    for setup in setups:
        if not of(records, task, setup):
            continue
        record = of(records, task, setup)[0]
        values = [point[figure] for point in record["points"]]
        xs = [[point["step"] for point in record["points"]]]
        xs += [[seconds / HOUR for seconds in record["times"][b]] for b in table.BANDWIDTHS]
        for ax, x in zip(axes, xs):
            ax.plot(x, values, label=setup.name, **style(setup))
    y = "held-out loss, nats" if figure == "loss" else "held-out accuracy"
    for ax, x in zip(axes, ["steps"] + [f"simulated hours at {b}" for b in table.BANDWIDTHS]):
        tidy(ax, x, y if ax is axes[0] else "")
    for ax in axes[1:]:
        ax.set_xscale("log")
    fig.legend(*axes[0].get_legend_handles_labels(), fontsize=8, frameon=False, ncol=7, loc="lower center")
    fig.suptitle(f"{task.what}, four stages, seed {record['seed']}")
    fig.tight_layout(rect=(0, 0.09, 1, 1))
    fig.savefig(to / f"{task.name}-{figure}.png", dpi=110)
    plt.close(fig)


def trade(to, rows, tasks):
    """Gap against speed-up at the slower bandwidth: the corner that is wanted is shaded."""
    fig, axes = plt.subplots(1, len(tasks), figsize=(7.5 * len(tasks), 5.5), squeeze=False)
    for ax, task in zip(axes[0], tasks):
        own = [row for row in rows if row["task"] == task.name]
        for row in own:
            setup = next(setup for setup in table.SETUPS if setup.name == row["setup"])
            ax.plot(row["speedup"][table.PLANNED_AT], 100 * row["gap"], label=row["setup"],
                    **{**style(setup), "linestyle": "none", "markersize": 9})
        ax.axhline(100 * GAP, color="#555555", linewidth=1, linestyle="--")
        ax.axvline(SPEEDUP, color="#555555", linewidth=1, linestyle="--")
        most = 1.3 * max(row["speedup"][table.PLANNED_AT] for row in own)
        low, high = (100 * f(row["gap"] for row in own) for f in (min, max))
        ax.fill_between([SPEEDUP, most], 1.5 * low - 1, 100 * GAP, color="#009E73", alpha=0.12, linewidth=0)
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=2)
        ax.set_xlim(0.9, most)
        ax.set_ylim(1.5 * low - 1, 1.5 * high + 1)
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:g}x")
        ax.xaxis.set_minor_formatter(lambda x, _: f"{x:g}x" if x in (2, 5) else "")
        ax.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        tidy(ax, f"speed-up at {table.PLANNED_AT} (simulated)", "gap of the held-out loss, %")
        ax.set_title(task.what, fontsize=10)
        ax.legend(fontsize=8, frameon=False, loc="lower left")
    fig.suptitle(f"Wanted: right of {SPEEDUP}x and below {GAP:.0%}")
    fig.tight_layout()
    fig.savefig(to / "trade.png", dpi=110)
    plt.close(fig)


# ---------------------------------------------------------------------------------------------- files
def write_rows(file, records):
    with file.open("w", newline="") as out:
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(["task", "setup", "seed", "step", "loss", "loss_exact", "accuracy", "accuracy_exact", "train_loss"]
                       + [f"hours_at_{b.split()[0]}_mbps" for b in table.BANDWIDTHS])
        for record in records:
            for index, point in enumerate(record["points"]):
                lines.writerow([record["task"], record["setup"], record["seed"], point["step"]]
                               + [f"{point[key]:.6f}" for key in ("loss", "loss_exact", "accuracy", "accuracy_exact",
                                                                  "train_loss")]
                               + [f"{record['times'][b][index] / HOUR:.6f}" for b in table.BANDWIDTHS])


def write(to, records, jobs, made_by):
    tasks = list(dict.fromkeys(task for task, _, _ in jobs))
    setups = list(dict.fromkeys(setup for _, setup, _ in jobs))
    order = [(task.name, setup.name, seed) for task, setup, seed in jobs]
    records = sorted(records, key=lambda r: order.index((r["task"], r["setup"], r["seed"])))
    rows = [row_of(records, task, setup) for task in tasks for setup in setups if of(records, task, setup)]
    write_rows(to / "runs.csv", records)
    (to / "table.md").write_text(page(records, rows, tasks, made_by))
    noise = {task.name: spread(records, task) for task in tasks}
    (to / "summary.json").write_text(json.dumps({"made_by": made_by, "noise": noise, "rows": rows}, indent=1) + "\n")
    for task in tasks:
        curves(to, records, task, setups, "loss")
        if task.accuracy:
            curves(to, records, task, setups, "accuracy")
    trade(to, rows, tasks)
