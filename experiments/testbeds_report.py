"""What experiments/testbeds makes of its rows: CSV files, figures and experiments/testbeds.md."""
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import pandas as pd  # noqa: E402

import published  # noqa: E402
import tables  # noqa: E402

OURS = ("op-fence", "adatopk:100")
BASELINES = [(policy, codec) for policy in ("equal-number", "equal-compute") for codec in ("none", "uniform-topk:100", "fp16")]
ALONE = "cluster A"  # the best cluster of each testbed, with nothing slow in it
PUBLISHED_BAND = (1.45, 9.39)  # arXiv 2410.12707, abstract: what ours is compared with, never an input
NETWORKS = {"gpt2": "GPT-2 of 8 small blocks", "resnet": "ResNet-18, 32x32"}
FILES = ("simulated.csv", "simulated.png", "executed.csv", "executed.png")


# ---------------------------------------------------------------------------------------------- simulated
def times(rows):
    """Iteration times, policies by compressions, in the order of the rows."""
    table = rows.pivot(index="policy", columns="compress", values="iteration_s")
    return table.loc[list(dict.fromkeys(rows.policy)), list(dict.fromkeys(rows["compress"]))]


def speedup(table, baseline, ours=OURS):
    """NaN where one of the two does not fit."""
    return table.loc[baseline] / table.loc[ours]


def split(rows):
    """The testbeds, and what all policies but op-fence reach at best on the best cluster alone, by workload."""
    alone = rows[(rows.testbed == ALONE) & (rows.policy != OURS[0])]
    return rows[rows.testbed != ALONE], alone.groupby("workload").iteration_s.min()


def ours_over(table, policy):
    """Over the best that another policy reaches with any compression."""
    return table.loc[policy].min() / table.loc[OURS]


def summary(rows):
    """One line per testbed and workload: what op-fence with AdaTopK gains."""
    head = ["testbed", "workload", "iteration", "devices", *(f"over {policy}, {codec}" for policy, codec in BASELINES),
            "over best of chain-optimal", "over best of dt-fm", f"over best on {ALONE} alone"]
    lines = []
    rows, alone = split(rows)
    for (testbed, workload), some in rows.groupby(["testbed", "workload"], sort=False):
        table = times(some)
        ours = some[(some.policy == OURS[0]) & (some["compress"] == OURS[1])].iloc[0]
        ratios = [speedup(table, baseline) for baseline in BASELINES] + [ours_over(table, "chain-optimal"), ours_over(table, "dt-fm"),
                                                                  alone.get(workload, float("nan")) / ours.iteration_s]
        lines.append([testbed, workload, tables.seconds(ours.iteration_s), f"{ours.devices_used:.0f}/{ours.devices_available:.0f}",
                      *map(tables.times, ratios)])
    return tables.markdown(head, lines, text_columns=2)


def against_the_band(rows):
    low, high = PUBLISHED_BAND
    ratios = [speedup(times(some), baseline) for _, some in split(rows)[0].groupby(["testbed", "workload"]) for baseline in BASELINES]
    known = pd.Series(ratios).dropna()
    inside = known.between(low, high).sum()
    return (f"Of {len(known)} comparisons with equal-number and equal-compute, {inside} lie inside the published band of {low}x to "
            f"{high}x, {(known > high).sum()} above and {(known < low).sum()} below.")


def fastest(rows):
    """Where op-fence with AdaTopK is not the fastest pair, and by how much."""
    rows, _ = split(rows)
    best = rows.loc[rows.groupby(["testbed", "workload"], sort=False).iteration_s.idxmin()]
    ours = rows[(rows.policy == OURS[0]) & (rows["compress"] == OURS[1])]
    lead = ours.iteration_s.to_numpy() / best.iteration_s.to_numpy() - 1
    behind = best[lead > 0.0005]
    said = f"It is the fastest of all {len(rows) // len(best)} pairs in {len(best) - len(behind)} of the {len(best)} cases"
    if behind.empty:
        return said + "."
    others = " and ".join(dict.fromkeys(behind.policy + " with " + behind["compress"]))
    return f"{said}; in the others {others} is, by at most {100 * lead.max():.1f} %."


def matrices(rows):
    parts = []
    for (testbed, workload), some in rows.groupby(["testbed", "workload"], sort=False):
        table = times(some)
        lines = [[policy, *map(tables.seconds, table.loc[policy])] for policy in table.index]
        parts.append(f"### {workload} on {testbed}\n\n" + tables.markdown(["policy", *table.columns], lines))
    return "\n\n".join(parts)


def plot_simulated(rows, file):
    """Speed-up of every pair over equal-number without compression: a panel per testbed, a bar per policy, with
    its best codec."""
    rows, _ = split(rows)
    testbeds, workloads = list(dict.fromkeys(rows.testbed)), list(dict.fromkeys(rows.workload))
    figure, axes = plt.subplots(1, len(testbeds), figsize=(4 * len(testbeds), 3.4), sharey=True, squeeze=False, layout="constrained")
    for axis, testbed in zip(axes[0], testbeds):
        for place, policy in enumerate(dict.fromkeys(rows.policy)):
            gains = []
            for workload in workloads:
                table = times(rows[(rows.testbed == testbed) & (rows.workload == workload)])
                gains.append(table.loc["equal-number", "none"] / table.loc[policy].min())
            axis.bar([index + 0.13 * (place - 2.5) for index in range(len(workloads))], gains, width=0.12, label=policy)
        axis.axhline(1, color="0.5", linewidth=0.8)
        axis.set(title=f"{testbed}, each policy with its best compression", yscale="log")
        axis.title.set_size(9)
        axis.set_xticks(range(len(workloads)), [name.replace(", ", "\n") for name in workloads], fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("speed-up over equal-number, dense")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=6, frameon=False)
    figure.savefig(file, dpi=120, bbox_inches="tight")
    plt.close(figure)


def remember(folder, part, made):
    """made.json holds how each of the two parts was made."""
    file = folder / "made.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | {part: made}, indent=2) + "\n")


def write_simulated(folder, rows, made):
    frame = pd.DataFrame(rows)
    frame.to_csv(folder / "simulated.csv", index=False, float_format="%.6g")
    plot_simulated(frame, folder / "simulated.png")
    remember(folder, "simulated", made)
    print(summary(frame), against_the_band(frame), fastest(frame), sep="\n\n")


# ---------------------------------------------------------------------------------------------- executed
def executed_table(rows):
    head = ["network", "policy", "compression", "ranks", "executed", "simulated", "error", "speed-up executed", "speed-up simulated", "error"]
    lines = [[NETWORKS[row.model], row.policy, row["compress"], row.devices_used, tables.seconds(row.measured_s),
              tables.seconds(row.simulated_s), tables.percent(row.relative_error), tables.times(row.speedup_measured),
              tables.times(row.speedup_simulated), tables.percent(row.speedup_error)] for _, row in rows.iterrows()]
    return tables.markdown(head, lines, text_columns=3)


def errors(rows):
    """Of what was foretold: each plan once, without those whose runs gave the factors."""
    foretold = rows[~rows.plan.isin(rows[rows.calibration].plan)].drop_duplicates("plan")
    size = foretold.relative_error.abs()
    worst = foretold.loc[size.idxmax()]
    return (f"{len(foretold)} plans foretold: mean error of the iteration {100 * size.mean():.1f} %, largest {100 * size.max():.1f} % "
            f"({NETWORKS[worst.model]}, {worst.policy}, {worst['compress']}); of the speed-up {100 * foretold.speedup_error.abs().mean():.1f} % "
            f"and {100 * foretold.speedup_error.abs().max():.1f} %.")


def plot_executed(rows, file):
    """Simulated over executed speed-up, a colour per policy and a mark per network."""
    figure, axis = plt.subplots(figsize=(5.5, 4.4), layout="constrained")
    colours = dict(zip(dict.fromkeys(rows.policy), plt.get_cmap("tab10").colors))
    for (model, policy), some in rows.groupby(["model", "policy"], sort=False):
        axis.scatter(some.speedup_measured, some.speedup_simulated, color=colours[policy], marker="o" if model == "gpt2" else "D", s=22,
                     label=f"{policy}, {'GPT-2' if model == 'gpt2' else 'ResNet'}")
    span = [rows.speedup_measured.min() * 0.85, rows.speedup_measured.max() * 1.15]
    axis.plot(span, span, color="0.6", linewidth=1)
    axis.set(xscale="log", yscale="log", xlabel="speed-up, executed", ylabel="speed-up, simulated")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=7)
    figure.savefig(file, dpi=120, bbox_inches="tight")
    plt.close(figure)


def write_executed(folder, rows, made):
    frame = pd.DataFrame(rows)
    frame.to_csv(folder / "executed.csv", index=False, float_format="%.6g")
    plot_executed(frame, folder / "executed.png")
    remember(folder, "executed", made)
    print(executed_table(frame), errors(frame), sep="\n\n")


# ---------------------------------------------------------------------------------------------- what is committed
def made_line(made):
    words = [f"`{made['command']}`", f"commit {made['commit']}", made["machine"], *(made[key] for key in ("links",) if key in made)]
    return "Made by " + ", ".join(words) + "."


def page(folder):
    """experiments/testbeds.md, from the committed files alone."""
    made = json.loads((folder / "made.json").read_text())
    rows = pd.read_csv(folder / "simulated.csv", keep_default_na=False, na_values=[""])
    parts = [f"""# Speed-up on our three testbeds

The testbeds are our own (`platforms/testbed-*.toml`): FusionLLM's inventory is not published. Compression changes what is trained:
the tables compare time, not convergence.

## Simulated

{made_line(made["simulated"])} 8 micro-batches, 1F1B, fp32, Adam; SimGrid, network `ideal`. Each figure is the iteration time of the
other over that of op-fence with adatopk:100. The baselines use all devices, the homes behind 8 Mbps among them; op-fence leaves idle
what would slow the pipeline. The last column asks more: over the best of all other policies and compressions for someone who takes
cluster A alone, eight RTX 4090 with nothing slow between them. Where nothing stands, a plan does not fit into memory.

{summary(rows)}

{against_the_band(rows)} {fastest(rows)}

![speed-up by policy](results/testbeds/simulated.png)"""]
    if (folder / "executed.csv").exists():
        runs = pd.read_csv(folder / "executed.csv", keep_default_na=False, na_values=[""])
        parts.append(f"""## Scaled down and executed

{made_line(made["executed"])} One device of each of the clusters A, B, C and the home D0 of testbed-3 with their lines, four MPI ranks,
one step's median of each plan. The runs of equal-number give one factor per network, how much longer passes take in place than in the
profile; all other policies are foretold. All devices are this one machine, so speeds are equal: what is scaled down are the networks,
not the GPUs' differences.

{errors(runs)}

![executed and simulated](results/testbeds/executed.png)

{executed_table(runs)}""")
    parts.append("## All policies and compressions, simulated iteration\n\n" + matrices(rows))
    return "\n\n".join(parts) + "\n"


def publish(folder):
    """What is there of the two parts; a part that was not made this time stays as it was committed."""
    target = published.RESULTS / "testbeds"
    known = json.loads((target / "made.json").read_text()) if (target / "made.json").exists() else {}
    made = known | json.loads((folder / "made.json").read_text())
    published.publish("testbeds", [folder / name for name in FILES if (folder / name).exists()], made)
    (published.HERE / "testbeds.md").write_text(page(target))
