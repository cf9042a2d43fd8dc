"""The trace of a ResNet training step in Chromium's own trace viewer (the Performance panel of its developers' tools).

    python benchmarks/trace_viewer.py [--screenshot FILE.png] [--browser EXE]

Records a step, writes the Chrome trace, opens it in a headless browser without a network, and prints for each operator
the number and the time of the events that the viewer has read beside those of `key_averages()`. Status 1 if they
differ.
"""

import argparse
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from _measure import table

BUNDLED = "devtools://devtools/bundled/"
# Opens the panel, and gives it the trace as a user gives it a file.
OPEN = """(async () => {
  const timeline = await import('%(root)spanels/timeline/timeline.js');
  const legacy = await import('%(root)sui/legacy/legacy.js');
  await legacy.ViewManager.ViewManager.instance().showView('timeline');
  window.panel = timeline.TimelinePanel.TimelinePanel.instance();
  window.panel.loadFromFile(new File([%(text)s], 'step.json', {type: 'application/json'}));
})()"""
# [name, count, microseconds], once the panel has read the trace; an event inside of one of its name adds no time.
SUMS = """(() => {
  const data = window.panel.model.parsedTrace(0)?.data;
  if (!data) return '';
  const found = new Map();
  for (const process of data.Renderer.processes.values())
    for (const thread of process.threads.values()) {
      const ends = new Map();
      for (const event of thread.entries.toSorted((a, b) => a.ts - b.ts || b.dur - a.dur)) {
        if (event.ph !== 'X') continue;
        const sum = found.get(event.name) ?? [0, 0];
        if (!(event.ts + event.dur <= ends.get(event.name))) {
          ends.set(event.name, event.ts + event.dur);
          sum[1] += event.dur;
        }
        sum[0] += 1;
        found.set(event.name, sum);
      }
    }
  return JSON.stringify([...found].map(([name, [count, us]]) => [name, count, us]));
})()"""

# Opens the rows of the threads, and closes what tells of shortcuts.
SHOW = """(() => {
  const chart = window.panel.flameChart.mainFlameChart;
  chart.rawTimelineData.groups.forEach((group, i) => {
    if (!group.expanded && !/Spans/.test(group.name)) chart.toggleGroupExpand(i);
  });
  const close = (root) => {
    for (const element of root.querySelectorAll('*')) {
      if (element.localName === 'devtools-shortcut-dialog') element.remove();
      else if (element.shadowRoot) close(element.shadowRoot);
    }
  };
  close(document);
})()"""


class Browser:
    """A headless browser, spoken to over pipes in the protocol of its developers' tools."""

    def __init__(self, executable, folder):
        ours, theirs = os.pipe(), os.pipe()
        options = "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage"
        window = "--remote-debugging-pipe --window-size=1600,1000"

        def descriptors():
            os.dup2(ours[0], 3)
            os.dup2(theirs[1], 4)

        for end in (ours[0], theirs[1]):
            os.set_inheritable(end, True)
        self.running = subprocess.Popen(
            [executable, *options.split(), *window.split(), f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=descriptors,
            close_fds=False,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self.to, self.source, self.number, self.rest, self.session = ours[1], theirs[0], 0, b"", None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def ask(self, method, **arguments):
        """The answer to one request; events are left out."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": arguments}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data) :]
        while True:
            while b"\0" not in self.rest:
                read = os.read(self.source, 1 << 16)
                if not read:
                    raise RuntimeError("the browser ended")
                self.rest += read
            text, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer["result"]

    def value(self, script, seconds=0):
        """What a script gives, once that is true or the time is over."""
        end = time.monotonic() + seconds
        while True:
            answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
            if "exceptionDetails" in answer:
                raise RuntimeError(answer["exceptionDetails"])
            found = answer["result"].get("value")
            if found or time.monotonic() > end:
                return found
            time.sleep(0.2)

    def close(self):
        os.close(self.to)
        os.killpg(self.running.pid, signal.SIGKILL)
        self.running.wait()
        os.close(self.source)


def recording():
    import tessera
    from mixed_precision import resnet18

    net, x, y = resnet18(tessera)
    optimizer = tessera.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step():
        loss = tessera.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

    step()
    with tessera.profiler.profile(record_shapes=True) as prof:
        with tessera.profiler.record_function("training step"):
            step()
    return prof


def viewed(browser, trace, screenshot):
    """{name: (count, microseconds)} of the events that the viewer has read."""
    browser.ask("Page.enable")
    browser.ask("Page.navigate", url=BUNDLED + "devtools_app.html?panel=timeline")
    browser.value("document.readyState === 'complete'", 20)
    with open(trace, encoding="utf-8") as file:
        browser.value(OPEN % {"root": BUNDLED, "text": json.dumps(file.read())})
    found = browser.value(SUMS, 60)
    if not found:
        raise RuntimeError("the viewer has not read the trace")
    if screenshot:
        browser.value(SHOW)
        time.sleep(2)  # it draws
        data = browser.ask("Page.captureScreenshot", format="png")["data"]
        with open(screenshot, "wb") as file:
            file.write(base64.b64decode(data))
    return {name: (count, us) for name, count, us in json.loads(found)}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--screenshot", metavar="FILE.png")
    ap.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    opts = ap.parse_args()
    prof = recording()
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "step.json")
        prof.export_chrome_trace(trace)
        browser = Browser(opts.browser, os.path.join(folder, "profile"))
        try:
            found = viewed(browser, trace, opts.screenshot)
        finally:
            browser.close()
    rows, good = [], True
    for average in sorted(prof.key_averages(), key=lambda a: -a.cpu_time_total):
        count, us = found.get(average.key, (0, 0.0))
        same = count == average.count and abs(us - average.cpu_time_total) < 0.01 * count + 1e-6 * us
        good &= same
        times = [f"{t / 1e3:.3f} ms" for t in (average.cpu_time_total, us)]
        rows.append([average.key, average.count, count, *times, "" if same else "differs"])
    table(rows, ["", "events", "in the viewer", "time", "in the viewer", ""])
    sys.exit(not good)


if __name__ == "__main__":
    main()
