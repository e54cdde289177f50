"use strict";
// The timeline, on a canvas: a lane per device, and per link below its sender if wanted. Zooms in time by wheel, pinch,
// double click, buttons and keys. Draws what is in sight; bars narrower than a pixel share one.

const ganttKinds = [["forward", "forward"], ["backward", "backward"], ["update", "update"], ["exchange", "exchange"],
                    ["codec", "codec"], ["transfer", "transfer"]];

// Bars of each lane by start, as indices into the columns.
function barsByLane(timeline) {
  const lanes = timeline.lanes.map(() => []), {lane, start} = timeline.events;
  lane.forEach((at, bar) => lanes[at].push(bar));
  lanes.forEach((list) => list.sort((a, b) => start[a] - start[b]));
  return lanes;
}

// Devices, each with the links that leave it below.
function laneOrder(timeline, which) {
  const devices = [], links = new Map();
  timeline.lanes.forEach((lane, at) => {
    if (!lane.link) return devices.push(at);
    const from = lane.name.split(" > ")[0];
    links.set(from, [...(links.get(from) || []), at]);
  });
  if (which === 1) return timeline.lanes.map((_, at) => at).filter((at) => timeline.lanes[at].link);
  return which === 0 ? devices : devices.flatMap((at) => [at, ...(links.get(timeline.lanes[at].name) || [])]);
}

class Gantt {
  constructor(parent, timeline) {
    this.timeline = timeline;
    this.events = timeline.events;
    this.bars = barsByLane(timeline);
    this.end = d3.max(this.events.start, (s, i) => s + this.events.length[i]) || 1;
    this.groups = timeline.kinds.map(groupOf);
    this.transform = d3.zoomIdentity;
    this.axis = element("canvas", {"aria-hidden": true});
    this.canvas = element("canvas", {tabindex: 0, role: "img", "aria-label":
      `Timeline of ${timeline.lanes.filter((l) => !l.link).length} devices over ${seconds(this.end * timeline.tick_s)}. Keys: arrows move, plus and minus zoom, 0 shows all.`});
    this.buttons(parent);
    this.holder = element("div", {class: "chart"}, this.axis, element("div", {class: "gantt"}, this.canvas));
    parent.append(this.holder);
    this.order = laneOrder(timeline, 0);
    this.zoom = d3.zoom().scaleExtent([1, Math.max(8, this.end / 50)])
      .filter(() => !d3.event.button && (d3.event.type !== "wheel" || d3.event.ctrlKey || d3.event.shiftKey || document.activeElement === this.canvas))
      .on("zoom", () => { this.transform = d3.event.transform; this.plan(); });
    drawn(this.holder, (width) => this.resize(width));
    d3.select(this.canvas).call(this.zoom);
    this.listen();
  }

  buttons(parent) {
    const button = (text, label, act) => {
      const made = element("button", {type: "button", "aria-label": label}, text);
      made.onclick = act;
      return made;
    };
    const by = (factor) => () => d3.select(this.canvas).transition().duration(150).call(this.zoom.scaleBy, factor);
    const row = element("div", {class: "bar"}, button("+", "Zoom in", by(2)), button("−", "Zoom out", by(0.5)),
      button("All", "Show the whole iteration", () => d3.select(this.canvas).call(this.zoom.transform, d3.zoomIdentity)));
    parent.append(row);
    const present = new Set(this.groups.concat(d3.max(this.events.codec) > 0 ? ["codec"] : []));
    parent.append(legend(ganttKinds.filter(([, key]) => present.has(key))));
  }

  show(which) {
    this.order = laneOrder(this.timeline, which);
    this.resize(this.holder.clientWidth);
  }

  resize(width) {
    if (!this.order) return;
    this.width = width;
    this.left = Math.min(132, width * 0.26);
    this.row = this.order.length > 60 ? 12 : this.order.length > 24 ? 16 : 24;
    this.height = this.order.length * this.row + 2;
    const ratio = devicePixelRatio || 1;
    for (const [canvas, height] of [[this.canvas, this.height], [this.axis, 26]]) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
      canvas.style.height = height + "px"; canvas.style.width = "100%";
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.axis.style.border = "0";
    this.base = d3.scaleLinear().domain([0, this.end]).range([this.left, width - 8]);
    this.zoom.extent([[this.left, 0], [width - 8, this.height]]).translateExtent([[this.left, 0], [width - 8, this.height]]);
    this.colours = Object.fromEntries([...ganttKinds.map(([, key]) => key), "ink", "faint", "line", "ground", "panel", "series-6"].map((key) => [key, colour(key)]));
    this.draw();
  }

  plan() {
    if (this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => { this.planned = false; this.draw(); });
  }

  draw() {
    const x = this.x = this.transform.rescaleX(this.base), pen = this.canvas.getContext("2d");
    pen.fillStyle = this.colours.ground;
    pen.fillRect(0, 0, this.width, this.height);
    this.order.forEach((lane, at) => this.drawLane(pen, x, lane, at));
    pen.fillStyle = this.colours.ground;
    pen.fillRect(0, 0, this.left, this.height);
    pen.font = "11px system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "right";
    this.order.forEach((lane, at) => {
      pen.fillStyle = this.timeline.lanes[lane].link ? this.colours.faint : this.colours.ink;
      pen.fillText(clipped(this.timeline.lanes[lane].name.replace(" > ", "→"), this.left - 8), this.left - 6, (at + 0.5) * this.row + 1);
    });
    this.drawAxis(x);
  }

  drawLane(pen, x, lane, at) {
    const {start, length, kind, codec} = this.events, top = at * this.row + 2, tall = this.row - 3;
    pen.fillStyle = this.colours.panel;
    pen.fillRect(this.left, top, this.width - this.left - 8, tall);
    let reached = this.left, last = "";
    for (const bar of this.bars[lane]) {
      const from = Math.max(this.left, x(start[bar])), to = Math.min(this.width - 8, x(start[bar] + length[bar]));
      if (from > this.width - 8) break;
      if (to < this.left || (to - reached < 0.7 && last === this.groups[kind[bar]])) continue;
      pen.fillStyle = this.colours[this.groups[kind[bar]]];
      pen.fillRect(to - from < 1 ? Math.floor(from) : from, top, Math.max(1, to - from - (to - from > 4 ? 0.8 : 0)), tall);
      if (codec[bar] > 0) {
        const part = x(start[bar] + codec[bar]) - x(start[bar]);
        if (part > 0.5) { pen.fillStyle = this.colours.codec; pen.fillRect(Math.max(from, to - part), top, Math.min(part, to - from), tall); }
      }
      reached = to; last = this.groups[kind[bar]];
      if (to - from > 26 && this.row >= 16) this.number(pen, bar, (from + to) / 2, top + tall / 2);
    }
  }

  number(pen, bar, middle, y) {
    if (this.events.micro_batch[bar] < 0) return;
    pen.fillStyle = "#000"; pen.font = "10px system-ui, sans-serif"; pen.textAlign = "center"; pen.textBaseline = "middle";
    pen.fillText(this.events.micro_batch[bar], middle, y + 0.5);
  }

  drawAxis(x) {
    const pen = this.axis.getContext("2d"), tick = this.timeline.tick_s;
    pen.clearRect(0, 0, this.width, 26);
    pen.font = "11px system-ui, sans-serif"; pen.textAlign = "center"; pen.fillStyle = this.colours.faint;
    const inSeconds = d3.scaleLinear().domain(x.domain().map((t) => t * tick)).range(x.range());
    const values = inSeconds.ticks(Math.max(2, (this.width - this.left) / 110)), step = values.length > 1 ? values[1] - values[0] : 1;
    const [unit, size] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6]].find(([, each]) => step >= each * 0.099 ) || ["µs", 1e-6];
    const decimals = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
    for (const value of values) {
      const at = inSeconds(value);
      if (at > this.width - 30 || at < this.left + 4 && value > 0) continue;
      pen.fillText((value / size).toFixed(decimals) + " " + unit, Math.max(at, this.left + 14), 12);
      pen.fillRect(at, 20, 1, 6);
    }
  }

  barAt(event) {
    const box = this.canvas.getBoundingClientRect(), lane = this.order[Math.floor((event.clientY - box.top) / this.row)];
    if (lane === undefined || event.clientX - box.left < this.left) return lane === undefined ? null : {lane};
    const {start, length} = this.events, tolerance = this.x.invert(this.left + 2) - this.x.invert(this.left);
    const time = this.x.invert(event.clientX - box.left), list = this.bars[lane];
    let at = d3.bisector((bar, t) => start[bar] - t).right(list, time + tolerance) - 1;
    for (let back = 0; at >= 0 && back < 8; --at, ++back)
      if (start[list[at]] + length[list[at]] + tolerance >= time) return {lane, bar: list[at]};
    return {lane};
  }

  listen() {
    this.canvas.addEventListener("pointermove", (event) => this.tell(event));
    this.canvas.addEventListener("pointerdown", (event) => this.tell(event));
    this.canvas.addEventListener("pointerleave", hideTip);
    this.canvas.addEventListener("keydown", (event) => {
      const pane = d3.select(this.canvas), step = (this.width - this.left) / 8 / this.transform.k;
      const act = {ArrowLeft: () => pane.call(this.zoom.translateBy, step, 0), ArrowRight: () => pane.call(this.zoom.translateBy, -step, 0),
                   "+": () => pane.call(this.zoom.scaleBy, 1.5), "=": () => pane.call(this.zoom.scaleBy, 1.5),
                   "-": () => pane.call(this.zoom.scaleBy, 1 / 1.5), "0": () => pane.call(this.zoom.transform, d3.zoomIdentity)}[event.key];
      if (act) { event.preventDefault(); act(); }
    });
  }

  tell(event) {
    const hit = this.barAt(event), {start, length, codec, micro_batch, name} = this.events;
    if (!hit) return hideTip();
    const lane = this.timeline.lanes[hit.lane], title = lane.detail ? lane.name + ": " + lane.detail : lane.name.replace(" > ", " → ");
    if (hit.bar === undefined) return showTip(event, title);
    const at = hit.bar, tick = this.timeline.tick_s;
    showTip(event, `${title}\n${this.timeline.names[name[at]]}` + (micro_batch[at] >= 0 ? ` · micro-batch ${micro_batch[at]}` : "") +
      `\n${seconds(length[at] * tick)} from ${seconds(start[at] * tick)}` + (codec[at] > 0 ? `\nof which codec ${seconds(codec[at] * tick)}` : ""));
  }
}

function timelineSection() {
  const timelines = data.timelines.filter((t) => (t.events.start || []).length > 0);
  if (timelines.length === 0) return;
  const parent = section("timeline", "Timeline",
    "One iteration, by device; numbers are micro-batches. Pinch, double-click or use the buttons to zoom, drag to move; once it has the focus, the wheel zooms too.");
  const body = element("div");
  choice(parent, "Timeline", timelines.map((t) => fileName(t.source)), (at) => {
    body.replaceChildren();
    parent.append(body);
    const lanes = element("div", {class: "lanes"});
    body.append(lanes);
    const gantt = new Gantt(body, timelines[at]);
    if (timelines[at].lanes.some((l) => l.link)) choice(lanes, "Lanes", ["devices", "links", "both"], (which) => gantt.show(which));
  });
}
