"use strict";
// Charts in SVG: dots of a ranking, bars of devices and links, lines of losses and sweeps.

function svgIn(holder, width, height, label) {
  d3.select(holder).selectAll("svg").remove();
  return d3.select(holder).append("svg").attr("viewBox", [0, 0, width, height]).attr("width", width).attr("height", height)
    .attr("role", "img").attr("aria-label", label);
}

function holderIn(parent) {
  const holder = element("div", {class: "chart"});
  parent.append(holder);
  return holder;
}

// Text that fits `room` pixels at 12 px.
const clipped = (text, room) => text.length * 6.6 <= room ? text : text.slice(0, Math.max(1, Math.floor(room / 6.6) - 1)) + "…";

// A logarithmic scale labels 1, 2 and 5 of few decades, and of many the powers of ten alone.
function logTicks(scale, format) {
  const [low, high] = scale.domain(), decades = Math.log10(high / low);
  const step = Math.ceil(decades / Math.max(2, Math.abs(scale.range()[1] - scale.range()[0]) / 70));
  const values = scale.ticks().filter((v) => {
    const power = Math.floor(Math.log10(v) + 1e-9), lead = Math.round(v / 10 ** power);
    return decades < 2 ? [1, 2, 5].includes(lead) : lead === 1 && power % step === 0;
  });
  return (axis) => axis.tickValues(values).tickFormat((v) => brief(format(v))).tickSizeOuter(0);
}

const gridX = (svg, scale, values, top, bottom) => svg.append("g").selectAll("line").data(values).enter().append("line")
  .attr("class", "grid").attr("x1", scale).attr("x2", scale).attr("y1", top).attr("y2", bottom);

// One row per policy, one dot per compression, on a logarithmic axis.
function rankingDots(parent, rows) {
  const policies = [...new Set(rows.map((r) => r.policy))], compressions = [...new Set(rows.map((r) => r.compress))];
  if (rows.length < 2) return;
  parent.append(legend(compressions.map((name, at) => [name, series(at)])));
  const holder = holderIn(parent);
  drawn(holder, (width) => {
    const left = Math.min(130, width * 0.3), row = 30, bottom = row * policies.length + 6;
    const x = d3.scaleLog().domain(d3.extent(rows, (r) => r.iteration_s)).range([left, width - 26]).nice();
    const svg = svgIn(holder, width, bottom + 42, "Simulated iteration time by policy and compression");
    const axis = logTicks(x, seconds)(d3.axisBottom(x));
    gridX(svg, x, axis.tickValues(), 0, bottom);
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${bottom})`).call(axis);
    svg.append("text").attr("class", "unit").attr("x", width - 26).attr("y", bottom + 38).attr("text-anchor", "end")
      .text("simulated iteration, logarithmic; left is better");
    const y = (policy) => policies.indexOf(policy) * row + row / 2 + 3;
    svg.append("g").selectAll("text").data(policies).enter().append("text").attr("x", left - 12).attr("y", (p) => y(p) + 4)
      .attr("text-anchor", "end").text((p) => clipped(p, left - 12));
    const dots = svg.append("g").selectAll("circle").data(rows.slice().reverse()).enter().append("circle")
      .attr("cx", (r) => x(r.iteration_s)).attr("cy", (r) => y(r.policy)).attr("r", 6)
      .attr("fill", (r) => `var(--${series(compressions.indexOf(r.compress))})`).attr("stroke", "var(--ground)").attr("stroke-width", 1.5);
    tips(dots, (r) => `${r.policy}, ${r.compress}\n${seconds(r.iteration_s)}, ${digits3(r.samples_per_s)} samples/s\nspeed-up ${digits3(r.speedup)}×`);
  });
}

// Horizontal bars. rows: {name, values[] in [0, 1], text, tip}; one bar per series.
function bars(parent, rows, names, label) {
  if (names.length > 1) parent.append(legend(names.map((name, at) => [name, series(at)])));
  const holder = holderIn(parent);
  drawn(holder, (width) => {
    const left = Math.min(150, width * 0.36), right = 78, thick = names.length > 1 ? 8 : 13;
    const row = thick * names.length + 7, x = d3.scaleLinear().domain([0, 1]).range([left, width - right]);
    const svg = svgIn(holder, width, rows.length * row + 4, label);
    const lines = svg.selectAll("g").data(rows).enter().append("g").attr("transform", (r, at) => `translate(0,${at * row + 3})`);
    lines.append("text").attr("x", left - 8).attr("y", (row - 7) / 2 + 4).attr("text-anchor", "end").text((r) => clipped(r.name, left - 8));
    names.forEach((name, at) => {
      lines.append("rect").attr("x", left).attr("y", at * thick).attr("width", width - right - left).attr("height", thick - 1).attr("fill", "var(--line)");
      lines.append("rect").attr("x", left).attr("y", at * thick).attr("height", thick - 1)
        .attr("width", (r) => x(Math.min(1, r.values[at] || 0)) - left).attr("fill", `var(--${series(at)})`);
    });
    lines.append("text").attr("class", "unit").attr("x", width - right + 6).attr("y", (row - 7) / 2 + 4).text((r) => r.text);
    lines.append("rect").attr("x", 0).attr("y", -2).attr("width", width).attr("height", row).attr("fill", "transparent");
    tips(lines, (r) => r.tip);
  });
}

function devicesSection() {
  if (data.runs.length === 0) return;
  const parent = section("devices", "Devices", "Share of the iteration that each device computes, and its peak memory against what it has.");
  const body = element("div");
  choice(parent, "Run", data.runs.map(runLabel), (at) => {
    const report = data.runs[at].report;
    const other = data.runs.find((r, i) => i !== at && kindOfRun(r.report) !== kindOfRun(report) &&
                                           d3.sum(r.report.devices, (d) => report.devices.some((e) => e.name === d.name)) > 0);
    body.replaceChildren();
    const use = element("div", {}, element("h3", {}, "Busy")), memory = element("div", {}, element("h3", {}, "Peak memory"));
    body.append(element("div", {class: "pair"}, use, memory));
    const share = (r, name) => { const d = r.devices.find((e) => e.name === name); return d ? d.busy_s / r.iteration_s : 0; };
    parent.append(body);
    bars(use, report.devices.map((d) => ({
      name: d.name, text: percent(share(report, d.name)),
      values: other ? [share(report, d.name), share(other.report, d.name)] : [share(report, d.name)],
      tip: `${d.name}: ${d.stage}\nbusy ${seconds(d.busy_s)} of ${seconds(report.iteration_s)}`})),
      other ? [kindOfRun(report), kindOfRun(other.report)] : [kindOfRun(report)], "Busy share of devices");
    bars(memory, report.devices.map((d) => ({
      name: d.name, text: d.memory_bytes > 0 ? percent(d.peak_memory_bytes / d.memory_bytes) : "–",
      values: [d.memory_bytes > 0 ? d.peak_memory_bytes / d.memory_bytes : 0],
      tip: `${d.name}: ${bytes(d.peak_memory_bytes)} of ${bytes(d.memory_bytes)}`})), ["memory"], "Peak memory of devices against their limit");
  });
}

function linksSection() {
  const runs = data.runs.filter((r) => r.report.links.length > 0);
  if (runs.length === 0) return;
  const parent = section("links", "Links", "Busiest first: share of the iteration with a message on the way, per pair of devices; and use of the links that they share.");
  const body = element("div");
  choice(parent, "Run", runs.map(runLabel), (at) => {
    const report = runs[at].report, most = 30;
    const links = report.links.slice().sort((a, b) => b.busy_s - a.busy_s);
    const shared = report.shared_links.slice().sort((a, b) => b.utilisation - a.utilisation);
    const channels = element("div", {}, element("h3", {}, links.length > most ? `Pairs, the busiest ${most} of ${links.length}` : "Pairs"));
    const lines = element("div", {}, element("h3", {}, shared.length > most ? `Shared links, the busiest ${most} of ${shared.length}` : "Shared links"));
    body.replaceChildren(element("div", {class: "pair"}, channels, lines));
    parent.append(body);
    bars(channels, links.slice(0, most).map((l) => ({
      name: l.from + " → " + l.to, text: percent(l.busy_s / report.iteration_s), values: [l.busy_s / report.iteration_s],
      tip: `${l.from} → ${l.to}\n${l.messages} messages, ${bytes(l.bytes)} (dense ${bytes(l.dense_bytes)})\nbusy ${seconds(l.busy_s)}`})), ["busy"], "Busy share of pairs");
    if (shared.length === 0) return lines.append(element("p", {class: "faint"}, "None was crossed."));
    bars(lines, shared.slice(0, most).map((l) => ({name: l.name, text: percent(l.utilisation), values: [l.utilisation],
      tip: `${l.name}\n${bytes(l.bytes)}, ${percent(l.utilisation)} of what it carries in an iteration`})), ["use"], "Use of shared links");
  });
}

// lines: {name, points: [[x, y]]}
function lineChart(parent, lines, {label, x: xTitle, y: yTitle, logX, logY, formatX, formatY}) {
  if (lines.length > 1) parent.append(legend(lines.map((line, at) => [line.name, series(at)])));
  const holder = holderIn(parent);
  drawn(holder, (width) => {
    const height = Math.max(230, Math.min(380, width * 0.45)), left = 62, bottom = height - 44;
    const all = lines.flatMap((line) => line.points);
    const scale = (log, at) => (log ? d3.scaleLog() : d3.scaleLinear()).domain(d3.extent(all, (p) => p[at])).nice();
    const x = (logX ? d3.scaleLog().domain(d3.extent(all, (p) => p[0])) : scale(false, 0)).range([left, width - 28]), y = scale(logY, 1).range([bottom, 22]);
    const svg = svgIn(holder, width, height, label);
    const bottomAxis = logX ? logTicks(x, formatX)(d3.axisBottom(x)) : d3.axisBottom(x).ticks(Math.min(width / 90, x.domain()[1] - x.domain()[0])).tickFormat(formatX);
    const leftAxis = logY ? logTicks(y, formatY)(d3.axisLeft(y)) : d3.axisLeft(y).ticks(6).tickFormat(formatY);
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${bottom})`).call(bottomAxis);
    svg.append("g").attr("class", "axis").attr("transform", `translate(${left},0)`).call(leftAxis);
    svg.append("text").attr("class", "unit").attr("x", width - 16).attr("y", height - 6).attr("text-anchor", "end").text(xTitle);
    svg.append("text").attr("class", "unit").attr("x", 4).attr("y", 12).text(yTitle);
    lines.forEach((line, at) => {
      svg.append("path").datum(line.points).attr("fill", "none").attr("stroke", `var(--${series(at)})`).attr("stroke-width", 2.2)
        .attr("stroke-dasharray", at >= 8 ? "5 3" : null).attr("d", d3.line().x((p) => x(p[0])).y((p) => y(p[1])));
      if (line.points.length > 60) return;
      tips(svg.append("g").selectAll("circle").data(line.points).enter().append("circle").attr("cx", (p) => x(p[0])).attr("cy", (p) => y(p[1]))
        .attr("r", 4.5).attr("fill", `var(--${series(at)})`).attr("stroke", "var(--ground)"),
        (p) => `${line.name}\n${xTitle}: ${formatX(p[0])}\n${yTitle}: ${formatY(p[1])}` + (p[2] ? "\n" + p[2] : ""));
    });
  });
}

function lossSection() {
  const runs = data.runs.filter((r) => (r.report.loss || []).length > 0);
  if (runs.length === 0) return;
  const parent = section("loss", "Loss", "Of the executed steps.");
  lineChart(parent, runs.map((r) => ({name: runLabel(r), points: r.report.loss.map((loss, at) => [at + 1, loss])})),
    {label: "Loss by step", x: "step", y: "loss", formatX: d3.format("d"), formatY: digits3});
}

// Best samples/s of each policy over bandwidth, every other option free; and who wins where.
function sweepSection() {
  data.sweeps.forEach((sweep, number) => {
    const parent = section("sweep" + (number || ""), "Sweep", `${sweep.rows.length} set-ups of ${sweep.source}.`);
    const done = sweep.rows.filter((r) => !r.failed);
    if (done.length === 0) return parent.append(element("p", {}, "No set-up has a result."));
    const axis = sweep.axes.find((a) => a.key === "bandwidth" && a.bits_per_s.filter((b) => b !== null).length > 1);
    const models = (sweep.axes.find((a) => a.key === "model") || {values: [null]}).values;
    const platforms = (sweep.axes.find((a) => a.key === "platform") || {values: [null]}).values;
    const cases = models.flatMap((m) => platforms.map((p) => ({m, p}))).filter(({m, p}) => done.some((r) => inCase(r, m, p)));
    const name = ({m, p}) => [m || sweep.fixed.model, p || sweep.fixed.platform].map((text) => fileName(text || "").replace(".toml", "")).join(" on ");
    const body = element("div");
    choice(parent, "Model and platform", cases.map(name), (at) => {
      const rows = done.filter((r) => inCase(r, cases[at].m, cases[at].p));
      body.replaceChildren();
      parent.append(body);
      if (axis) overBandwidth(body, rows, axis);
      fastest(body, rows, sweep);
    });
  });
}

const inCase = (row, model, platform) => (model === null || row.model === model) && (platform === null || row.platform === platform);
const othersOf = (row) => Object.entries(row).filter(([key, value]) => typeof value === "string" && !["policy", "bandwidth", "model", "platform"].includes(key))
  .map(([key, value]) => key + " " + value).join(", ");

function overBandwidth(parent, rows, axis) {
  const key = rows[0].policy !== undefined ? "policy" : rows[0].compress !== undefined ? "compress" : null;
  const names = key ? [...new Set(rows.map((r) => r[key]))] : ["all"];
  const widths = axis.values.map((value, at) => [value, axis.bits_per_s[at]]).filter((pair) => pair[1] !== null).sort((a, b) => a[1] - b[1]);
  const best = (among) => among.reduce((a, b) => a && a.samples_per_s >= b.samples_per_s ? a : b, null);
  const lines = names.map((name) => ({name, points: widths.map(([value, bits]) => {
    const row = best(rows.filter((r) => r.bandwidth === value && (!key || r[key] === name)));
    return row && [bits, row.samples_per_s, othersOf(row)];
  }).filter(Boolean)}));
  parent.append(element("h3", {}, `Best of each ${key || "set-up"} over bandwidth`));
  lineChart(parent, lines, {label: "Samples per second over bandwidth", x: "bandwidth between hosts", y: "samples/s",
    logX: true, logY: true, formatX: rate, formatY: digits3});
  parent.append(element("h3", {}, "Who wins where"));
  table(parent, [{title: "bandwidth", right: true, of: ([bits]) => rate(bits)},
    {title: key || "", of: ([, row]) => key ? row[key] : ""},
    {title: "with", of: ([, row]) => othersOf(row) || "–"},
    {title: "samples/s", right: true, of: ([, row]) => digits3(row.samples_per_s)},
    {title: "iteration", right: true, of: ([, row]) => seconds(row.iteration_s)},
    {title: "devices", right: true, of: ([, row]) => String(row.devices_used)}],
    widths.map(([value, bits]) => [bits, best(rows.filter((r) => r.bandwidth === value))]).filter(([, row]) => row));
}

function fastest(parent, rows, sweep) {
  const most = 25, sorted = rows.slice().sort((a, b) => b.samples_per_s - a.samples_per_s).slice(0, most);
  parent.append(element("h3", {}, rows.length > most ? `Fastest ${most} of ${rows.length}` : "Fastest"));
  table(parent, [{title: "", right: true, of: (r, at) => String(at + 1)},
    ...sweep.axes.map((axis) => ({title: axis.key, of: (r) => r[axis.key] || "–"})),
    {title: "samples/s", right: true, of: (r) => digits3(r.samples_per_s)},
    {title: "", of: (r) => meter(r.samples_per_s / sorted[0].samples_per_s)},
    {title: "iteration", right: true, of: (r) => seconds(r.iteration_s)},
    {title: "devices", right: true, of: (r) => r.devices_used + "/" + r.devices_available}], sorted, (r, at) => at === 0 ? "best" : "");
}
