"use strict";
// The page from top to bottom. A section without data is left out.

function begin() {
  const report = data.runs.length > 0 ? data.runs[0].report : null;
  if (report) {
    const model = fileName(report.model.replace(/\/config\.json$/, "")), platform = fileName(report.platform).replace(/\.toml$/, "");
    document.getElementById("title").textContent = `${model} on ${platform}`;
    document.getElementById("subtitle").textContent = [report.policy, report.order, report.compress,
      report.micro_batches + " micro-batches", report.engine].join(" · ");
    document.title = `${model} on ${platform} · FusionLLM`;
  }
  rankingFirst();
  document.getElementById("made").textContent = `fusion-sim ${data.version}. ` +
    (report ? `Times are ${kindOfRun(report)} (${report.network_profile}). ` : "") + "This file loads nothing from the network.";
  if (document.getElementById("main").childElementCount === 0)
    document.getElementById("main").append(element("p", {}, "These results hold nothing to draw."));
}

function rankingFirst() {
  for (const show of [runsSection, rankingSection, timelineSection, devicesSection, linksSection, lossSection, sweepSection, platformSection]) show();
}

begin();
performance.mark("interactive");
document.documentElement.dataset.ready = Math.round(performance.now());
