"use strict";
// What every chart shares: the data, units, elements, tooltip, colours. Names from files reach the page as text alone
// (textContent), never as markup.

const data = JSON.parse(document.getElementById("data").textContent);

// ---- units
const digits3 = (value) => {
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  return Math.abs(value) >= 1e15 ? value.toExponential(2) : value.toFixed(Math.min(12, Math.max(0, 2 - size)));
};
const scaled = (value, steps) => {
  const [size, unit] = steps.find(([least]) => Math.abs(value) >= least) || steps[steps.length - 1];
  return digits3(value / size) + " " + unit;
};
const seconds = (s) => s === 0 ? "0 s"
  : s >= 7200 ? digits3(s / 3600) + " h" : scaled(s, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]);
const bytes = (n) => n === 0 ? "0 B"
  : scaled(n, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);
const rate = (n) => scaled(n, [[1e12, "Tbps"], [1e9, "Gbps"], [1e6, "Mbps"], [1e3, "kbps"], [1, "bps"]]);
// "1.00 s" on an axis is "1 s".
const brief = (text) => text.replace(/\.0+(?=\D|$)/, "").replace(/(\.\d*?[1-9])0+(?=\D|$)/, "$1");
// 99.8 % is not all, and 0.2 % is not nothing.
const percent = (x) => (100 * x).toFixed(x > 0 && x < 0.1 || x >= 0.995 && x < 0.9995 ? 1 : 0) + " %";

// ---- elements
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function section(id, title, text) {
  const made = element("section", {id, "aria-labelledby": id + "-title"}, element("h2", {id: id + "-title"}, title));
  if (text) made.append(element("p", {class: "faint"}, text));
  document.getElementById("main").append(made);
  document.getElementById("contents").append(element("a", {href: "#" + id}, title));
  return made;
}

// A row of buttons of which one is pressed; `show` is called with the one chosen, and at once with the first.
function choice(parent, label, names, show) {
  if (names.length > 1 && names.length <= 4 && names.every((name) => name.length < 28)) {
    const buttons = names.map((name, at) => {
      const button = element("button", {type: "button", "aria-pressed": at === 0}, name);
      button.onclick = () => {
        buttons.forEach((other) => other.setAttribute("aria-pressed", other === button));
        show(at);
      };
      return button;
    });
    parent.append(element("div", {class: "bar", role: "group", "aria-label": label}, ...buttons));
  } else if (names.length > 1) {
    const select = element("select", {"aria-label": label}, ...names.map((name, at) => element("option", {value: at}, name)));
    select.onchange = () => show(Number(select.value));
    parent.append(element("div", {class: "bar"}, select));
  }
  show(0);
}

function legend(entries) {
  return element("ul", {class: "legend"}, ...entries.map(([name, colour]) =>
    element("li", {}, element("i", {style: "background:var(--" + colour + ")"}), name)));
}

// ---- tooltip
const tip = document.getElementById("tip");
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6)) + "px";
  tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18) + "px";
}
const hideTip = () => { tip.hidden = true; };
const tips = (selection, text) => selection
  .on("pointermove pointerdown", function (each) { showTip(d3.event, text(each)); })
  .on("pointerleave", hideTip);
addEventListener("scroll", hideTip, {passive: true});

// ---- colours
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const series = (at) => "series-" + at % 8;
const groupOf = (kind) => ({forward: "forward", "input gradient": "backward", "weight gradient": "backward",
                            backward: "backward", update: "update", exchange: "exchange", reduce: "exchange",
                            codec: "codec", transfer: "transfer"}[kind] || "series-6");

// ---- redrawing: charts are functions of their width and the theme
const redraws = [];
function drawn(holder, draw) {
  const again = () => { if (holder.isConnected && holder.clientWidth > 0) draw(holder.clientWidth); };
  redraws.push(again);
  again();
}
let lastWidth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== lastWidth) redraws.forEach((again) => again());
  lastWidth = innerWidth;
});

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  redraws.forEach((again) => again());
}
const wantsDark = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = wantsDark.matches ? "dark" : "light";
wantsDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
document.getElementById("theme").onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
let themeBeforePrint = "light";
addEventListener("beforeprint", () => { themeBeforePrint = document.documentElement.dataset.theme; setTheme("light"); });
addEventListener("afterprint", () => setTheme(themeBeforePrint));
