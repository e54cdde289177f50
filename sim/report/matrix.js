"use strict";
// The platform: what a message alone gets from each row to each column, on a canvas.

function matrixChart(parent, view, values, format, betterIsMore, title) {
  const n = view.names.length, known = values.filter((v) => v !== null && v > 0);
  if (known.length === 0) return;
  parent.append(element("h3", {}, title));
  const holder = holderIn(parent), canvas = element("canvas", {role: "img", "aria-label": title + ", from rows to columns"});
  holder.append(canvas);
  const low = d3.min(known), high = d3.max(known);
  const shade = low === high ? () => 0.5 : d3.scaleLog().domain(betterIsMore ? [low, high] : [high, low]).range([0, 1]);
  const scale = element("p", {class: "faint"});
  holder.after(scale);
  drawn(holder, (width) => {
    const strong = document.documentElement.dataset.theme === "dark" ? "brighter" : "darker";
    scale.textContent = low === high ? `All ${format(low)}.` : `${format(low)} to ${format(high)}; ${strong} is ${betterIsMore ? "wider" : "nearer"}.`;
    const room = Math.min(90, 8 + 6.8 * d3.max(view.names, (name) => name.length)), size = Math.min(64, (width - room - 2) / n);
    const ratio = devicePixelRatio || 1, height = room + n * size + 2;
    const wide = room + n * size + 2;
    canvas.width = wide * ratio; canvas.height = height * ratio; canvas.style.height = height + "px"; canvas.style.width = wide + "px";
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const ramp = d3.interpolateLab(colour("low"), colour("high"));
    const every = Math.ceil(11 / size);
    pen.font = "11px system-ui, sans-serif"; pen.fillStyle = colour("ink"); pen.textBaseline = "middle";
    for (let i = 0; i < n; i += every) {
      pen.textAlign = "right";
      pen.fillText(clipped(view.names[i], room - 4), room - 5, room + (i + 0.5) * size);
      pen.save(); pen.translate(room + (i + 0.5) * size, room - 5); pen.rotate(-Math.PI / 2); pen.textAlign = "left";
      pen.fillText(clipped(view.names[i], room - 4), 0, 0); pen.restore();
    }
    values.forEach((value, at) => {
      if (value === null) return;
      pen.fillStyle = ramp(value > 0 ? shade(value) : betterIsMore ? 0 : 1);
      pen.fillRect(room + at % n * size, room + Math.floor(at / n) * size, size - (size > 8 ? 1 : 0), size - (size > 8 ? 1 : 0));
      if (size < 50) return;
      pen.fillStyle = d3.lab(pen.fillStyle).l > 55 ? "#000" : "#fff"; pen.font = "10px system-ui, sans-serif"; pen.textAlign = "center";
      pen.fillText(brief(format(value)), room + (at % n + 0.5) * size, room + (Math.floor(at / n) + 0.5) * size);
    });
    canvas.onpointermove = canvas.onpointerdown = (event) => {
      const box = canvas.getBoundingClientRect(), to = Math.floor((event.clientX - box.left - room) / size), from = Math.floor((event.clientY - box.top - room) / size);
      if (from < 0 || to < 0 || from >= n || to >= n || values[from * n + to] === null) return hideTip();
      const group = (i) => view.groups[i] ? ` (${view.groups[i]})` : "";
      showTip(event, `${view.names[from]}${group(from)} → ${view.names[to]}${group(to)}\n${rate(view.bits_per_s[from * n + to])}, ${seconds(view.latency_s[from * n + to])}`);
    };
    canvas.onpointerleave = hideTip;
  });
}

function platformSection() {
  data.platforms.filter((p) => p.views.length > 0).forEach((platform, number) => {
    const parent = section("platform" + (number || ""), "Platform",
      `${platform.name}: ${platform.devices} devices. What one message alone gets, from each row to each column.`);
    const body = element("div", {class: "pair"});
    choice(parent, "Between", platform.views.map((v) => "between " + v.title), (at) => {
      const view = platform.views[at], left = element("div"), right = element("div");
      body.replaceChildren(left, right);
      parent.append(body);
      matrixChart(left, view, view.bits_per_s, rate, true, "Bandwidth");
      matrixChart(right, view, view.latency_s, seconds, false, "Latency");
    });
  });
}
