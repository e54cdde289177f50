#!/usr/bin/env python3
"""Opens pages of `fusion-sim report` in a headless Chromium, on a phone and a desktop, light and dark: nothing fails,
nothing is fetched, nothing runs over the edge, every chart has drawn, and the page soon answers.

Usage: page_test.py [--keep FOLDER] [RESULT...]     results to show in place of the test's own; screenshots go to FOLDER
"""
import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
SIZES = {"phone": (390, 844, 3, True), "desktop": (1440, 900, 1, False)}

# Charts that drew nothing but their ground have one colour.
LOOK = """(() => {
  const colours = (canvas) => {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
    for (let i = 0; i < pixels.length; i += 4 * 37) seen.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
    return seen.size;
  };
  return {
    ready: Number(document.documentElement.dataset.ready || -1),
    theme: document.documentElement.dataset.theme,
    sections: [...document.querySelectorAll('section')].map((s) => s.id),
    canvases: [...document.querySelectorAll('canvas:not([aria-hidden])')].map(colours),
    marks: [...document.querySelectorAll('svg')].map((s) => s.querySelectorAll('rect, circle, path').length),
    overflow: document.documentElement.scrollWidth - innerWidth,
    unlabelled: document.querySelectorAll('button:not([aria-label]):empty, svg:not([aria-label]), select:not([aria-label])').length,
    resources: performance.getEntriesByType('resource').length,
  };
})()"""


class Browser:
    """Speaks the DevTools protocol over a pair of pipes: messages of JSON, each ended by a NUL."""

    def __init__(self, program, profile):
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--no-first-run", "--disable-extensions", "--disable-dev-shm-usage", f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.last, self.events = b"", 0, []

    def receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.into, 1 << 20)
            if not part:
                raise SystemExit("page: the browser ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise SystemExit(f"page: {method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive())

    def close(self):
        self.call("Browser.close")
        self.process.wait(timeout=20)


def open_page(browser, page, size, theme, picture):
    """What LOOK sees, and the errors and requests on the way."""
    width, height, ratio, mobile = SIZES[size]
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        browser.call(domain + ".enable", session)
    browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=height, deviceScaleFactor=ratio, mobile=mobile)
    browser.call("Emulation.setEmulatedMedia", session, features=[{"name": "prefers-color-scheme", "value": theme}])
    browser.events.clear()
    browser.call("Page.navigate", session, url=page.as_uri())
    browser.wait("Page.loadEventFired")
    seen = browser.call("Runtime.evaluate", session, expression=LOOK, returnByValue=True)["result"]["value"]
    if picture:
        tall = browser.call("Page.getLayoutMetrics", session)["cssContentSize"]["height"]
        shot = browser.call("Page.captureScreenshot", session, captureBeyondViewport=True,
                            clip={"x": 0, "y": 0, "width": width, "height": min(tall, 6000), "scale": 1})
        picture.write_bytes(base64.b64decode(shot["data"]))
    seen["errors"] = [event for event in browser.events if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")
                      or event.get("method") == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning")]
    seen["requests"] = [event["params"]["request"]["url"] for event in browser.events
                        if event.get("method") == "Network.requestWillBeSent" and not event["params"]["request"]["url"].startswith(("file:", "data:"))]
    browser.call("Target.closeTarget", targetId=target)
    return seen


def faults(seen, theme):
    if seen["errors"]:
        yield "errors: " + json.dumps(seen["errors"])[:600]
    if seen["requests"] or seen["resources"]:
        yield f"asks the network: {seen['requests']}"
    if seen["theme"] != theme:
        yield f"theme {seen['theme']}"
    if seen["ready"] < 0:
        yield "its script did not reach its end"
    if not seen["sections"]:
        yield "no section"
    if any(colours < 3 for colours in seen["canvases"]) or 0 in seen["marks"]:
        yield f"an empty chart: colours {seen['canvases']}, marks {seen['marks']}"
    if seen["overflow"] > 0:
        yield f"runs {seen['overflow']} px over the edge"
    if seen["unlabelled"]:
        yield f"{seen['unlabelled']} controls or charts without a label"


def make_results(fusion_sim, folder):
    """A ranking, a schedule to replay, a run with losses and its trace, and a sweep over bandwidth."""
    run = lambda *arguments: subprocess.run([fusion_sim, *arguments, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    problem = ("--model", "mlp", "--platform", "lan4")
    run("rank", *problem, "-o", folder / "ranking.json")
    run("plan", *problem, "--policy", "equal-compute", "--compress", "int8", "-o", folder / "schedule.json")
    run("simulate", "--plan", folder / "schedule.json", "--report", folder / "report.json", "--timeline", folder / "timeline.json")
    executed = json.loads((folder / "report.json").read_text())
    executed.update(engine="mpi", loss=[2.3, 1.9, 1.7, 1.4])
    (folder / "executed.json").write_text(json.dumps(executed))
    run("sweep", "model=mlp", "platform=lan4", "policy=op-fence,equal-number", "bandwidth=8 Mbps,100 Mbps,1 Gbps", "-o", folder / "sweep")
    return [folder / name for name in ("schedule.json", "executed.json", "timeline.json", "ranking.json", "sweep")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("results", nargs="*")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        print("skipped: no Chromium (Debian package chromium)")
        return SKIPPED
    fusion_sim = pathlib.Path(os.environ.get("FUSION_BIN", "build/release/bin")) / "fusion-sim"
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        page = folder / "page.html"
        results = options.results or make_results(fusion_sim, folder)
        made = subprocess.run([fusion_sim, "report", *results, "-o", page], stderr=subprocess.PIPE, text=True)
        if made.returncode != 0:
            print(("skipped: " if "node-d3" in made.stderr else "") + made.stderr)
            return SKIPPED if "node-d3" in made.stderr else 1
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
        browser = Browser(chromium, folder / "profile")
        for size in SIZES:
            for theme in ("light", "dark"):
                seen = open_page(browser, page.resolve(), size, theme, options.keep and options.keep / f"{size}-{theme}.png")
                wrong = list(faults(seen, theme))
                failed |= bool(wrong)
                print(f"{size}, {theme}: {page.stat().st_size / 1e6:.2f} MB, ready after {seen['ready']} ms, "
                      f"{len(seen['marks'])} SVG and {len(seen['canvases'])} canvas charts" + "".join(f"\n  {each}" for each in wrong))
        browser.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
