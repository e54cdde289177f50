"use strict";
// Runs, ranking, and task kinds: tables, with bars where they help.

// columns: {title, right, of(row) -> text or element}
function table(parent, columns, rows, rowClass = () => "") {
  const head = element("tr", {}, ...columns.map((c) => element("th", {scope: "col", class: c.right ? "right" : ""}, c.title)));
  const lines = rows.map((row, at) => element("tr", {class: rowClass(row, at)},
    ...columns.map((c) => element("td", {class: c.right ? "right" : ""}, c.of(row, at)))));
  parent.append(element("div", {class: rows.length > 16 ? "scroll tall" : "scroll", tabindex: 0},
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines))));
}

const meter = (fraction) => element("span", {class: "meter", "aria-hidden": true},
  element("i", {style: "width:" + Math.max(0, Math.min(1, fraction)) * 100 + "%"}));

const isExecuted = (report) => report.engine === "mpi" || report.engine === "threads" || "loss" in report;
const kindOfRun = (report) => isExecuted(report) ? "executed" : "simulated";
const fileName = (path) => path.split("/").pop();
const runLabel = (run) => kindOfRun(run.report) + " · " + run.report.policy + ", " + run.report.compress + " · " + fileName(run.source);

function card(parent, value, label) {
  parent.append(element("div", {class: "card"}, element("b", {}, value), element("span", {}, label)));
}

function summarise(parent, report) {
  const cards = element("div", {class: "cards"});
  const wire = d3.sum(report.links, (l) => l.bytes), dense = d3.sum(report.links, (l) => l.dense_bytes);
  card(cards, seconds(report.iteration_s), "per iteration, " + kindOfRun(report));
  card(cards, digits3(report.samples_per_s), "samples/s");
  if (report.tokens_per_s > 0) card(cards, digits3(report.tokens_per_s), "tokens/s");
  card(cards, report.devices_used + " / " + report.devices_available, "devices used");
  card(cards, percent(d3.mean(report.devices, (d) => d.bubble_fraction) || 0), "mean bubble");
  card(cards, bytes(wire), dense > wire ? "sent, of " + bytes(dense) + " dense" : "sent per iteration");
  parent.append(cards);
}

function runsSection() {
  if (data.runs.length === 0) return;
  const parent = section("runs", data.runs.length > 1 ? "Runs" : "Run");
  summarise(parent, data.runs[0].report);
  if (data.runs.length > 1)
    table(parent, [
      {title: "run", of: (r) => kindOfRun(r.report)},
      {title: "model", of: (r) => fileName(r.report.model.replace(/\/config\.json$/, ""))},
      {title: "platform", of: (r) => fileName(r.report.platform).replace(/\.toml$/, "")},
      {title: "policy", of: (r) => r.report.policy},
      {title: "order", of: (r) => r.report.order},
      {title: "compression", of: (r) => r.report.compress},
      {title: "predicted", right: true, of: (r) => seconds(r.report.predicted_iteration_s)},
      {title: "iteration", right: true, of: (r) => seconds(r.report.iteration_s)},
      {title: "samples/s", right: true, of: (r) => digits3(r.report.samples_per_s)},
      {title: "devices", right: true, of: (r) => r.report.devices_used + "/" + r.report.devices_available},
      {title: "file", of: (r) => r.source}], data.runs);
  compareRuns(parent);
}

// The first simulated run beside the first executed one of the same model.
function compareRuns(parent) {
  const executed = data.runs.find((r) => isExecuted(r.report));
  const simulated = data.runs.find((r) => !isExecuted(r.report) && executed && r.report.model === executed.report.model &&
                                          r.report.policy === executed.report.policy);
  if (!simulated || !executed) return;
  const [left, right] = [simulated.report, executed.report];
  const difference = (a, b) => a > 0 && b !== null ? (b >= a ? "+" : "−") + (Math.abs(b - a) / a * 100).toFixed(1) + " %" : "–";
  const total = (report, name) => (report.task_kinds.find((k) => k.name === name) || {total_s: null}).total_s;
  const rows = [["iteration", left.iteration_s, right.iteration_s],
                ...left.task_kinds.map((k) => [k.name + ", all devices", k.total_s, total(right, k.name)])];
  parent.append(element("h3", {}, "Simulated beside executed"));
  const most = d3.max(rows, (r) => Math.max(r[1], r[2] || 0));
  table(parent, [
    {title: "time of", of: (r) => r[0]},
    {title: "simulated", right: true, of: (r) => seconds(r[1])},
    {title: "", of: (r) => meter(r[1] / most)},
    {title: "executed", right: true, of: (r) => r[2] === null ? "–" : seconds(r[2])},
    {title: "", of: (r) => meter((r[2] || 0) / most)},
    {title: "executed − simulated", right: true, of: (r) => difference(r[1], r[2])}], rows, (r, at) => at === 0 ? "best" : "");
}

function rankingSection() {
  data.rankings.forEach((ranking, at) => {
    const parent = section("ranking" + (at || ""), "Ranking",
      "Every policy with every compression, fastest first. Compression changes what is trained: this compares time, not convergence.");
    const done = ranking.rows.filter((r) => !r.infeasible);
    const fastest = d3.max(done, (r) => r.samples_per_s);
    const figure = (of) => (row) => row.infeasible ? "–" : of(row);
    rankingDots(parent, done);
    table(parent, [
      {title: "", right: true, of: (r, i) => r.infeasible ? "–" : String(i + 1)},
      {title: "policy", of: (r) => r.policy},
      {title: "compression", of: (r) => r.compress},
      {title: "samples/s", right: true, of: figure((r) => digits3(r.samples_per_s))},
      {title: "", of: figure((r) => meter(r.samples_per_s / fastest))},
      {title: "simulated", right: true, of: (r) => r.infeasible ? "infeasible" : seconds(r.iteration_s)},
      {title: "predicted", right: true, of: figure((r) => seconds(r.predicted_iteration_s))},
      {title: "speed-up", right: true, of: figure((r) => digits3(r.speedup) + "×")},
      {title: "devices", right: true, of: figure((r) => r.devices_used + "/" + r.devices_available)},
      {title: "mean bubble", right: true, of: figure((r) => percent(r.mean_bubble_fraction))},
      {title: "sent", right: true, of: figure((r) => bytes(r.wire_bytes))}],
      ranking.rows, (r, i) => r.infeasible ? "out" : i === 0 ? "best" : "");
  });
}
