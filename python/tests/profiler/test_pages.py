"""Pages of recordings: what is in them, and that a browser without a network shows it."""

import html
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import time

import pytest
import tessera
from tessera.cuda import _memory_viz
from tessera.profiler import profile
from tessera.profiler.__main__ import main as viewer

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no browser; tools/setup installs one")


@pytest.fixture(scope="module")
def recording():
    net = tessera.nn.Sequential(tessera.nn.Linear(4, 8), tessera.nn.ReLU(), tessera.nn.Linear(8, 2))
    optimizer = tessera.optim.SGD(net.parameters(), lr=0.1)
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True, with_modules=True) as prof:
        with tessera.profiler.record_function("</script>"):
            net(tessera.ones(16, 4)).sum().backward()
        optimizer.step()
    return prof


def data_of(page):
    (text,) = re.findall(r'<script id="recording" type="application/json">(.*?)</script>', page, re.S)
    return json.loads(text)


def shown(path, view=""):
    """The page's document after its script has run."""
    options = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage --disable-background-networking"
    )
    for attempt in range(3):  # a browser's first start may wait for services that a small machine lacks
        folder = path.parent / f"browser{attempt}"
        command = [BROWSER, *options.split(), f"--user-data-dir={folder}", "--window-size=1200,800", "--dump-dom"]
        with open(path.parent / "document", "w+", encoding="utf-8") as document:  # a pipe would wait for its helpers
            running = subprocess.Popen(
                [*command, f"file://{path}{view}"],
                stdout=document,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                assert running.wait(timeout=60) == 0
                document.seek(0)
                return html.unescape(document.read())
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)  # with its helpers
                running.wait()
    raise AssertionError("the browser did not end")


def test_a_page_holds_the_recording(recording, tmp_path):
    recording.export_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    data = data_of(page)
    assert not re.search(r"""(src|href)\s*=|@import|https?://|url\(""", page)
    events = [e for thread in data["threads"] for e in thread["events"]]
    names = [data["names"][e[0]] for e in events]
    assert data["count"] == len(events) and names.count("aten::addmm") == 2 and "</script>" in names
    product = events[names.index("aten::addmm")]
    assert product[4]["shapes"][1] == [16, 4] and product[4]["flops"] == 2 * 16 * 4 * 8
    assert product[4]["memory"] == 16 * 8 * 4 and product[4]["modules"] == "Sequential_0.Linear_0"
    made = events[names.index("AddmmBackward0")]
    assert made[4]["forward"] == "aten::addmm"
    for average in recording.key_averages():
        if average.key != "[memory]":
            total = sum(e[3] - e[2] for e, name in zip(events, names) if name == average.key)
            assert total == pytest.approx(average.cpu_time_total, abs=0.01)


@needs_browser
@pytest.mark.parametrize("view", ["#timeline", "#flame"])
def test_a_browser_draws_it(recording, tmp_path, view):
    recording.export_html(tmp_path / "page.html")
    document = shown(tmp_path / "page.html", view)
    assert f"{data_of((tmp_path / 'page.html').read_text())['count']} events" in document
    boxes = int(re.search(r'data-boxes="(\d+)"', document)[1])
    assert boxes > 20


@needs_browser
def test_a_browser_shows_the_table(recording, tmp_path):
    recording.export_html(tmp_path / "page.html")
    rows = re.findall(r"<tr><td>(.*?)</td><td>(\d+)</td>", shown(tmp_path / "page.html", "#table"))
    counts = {name: int(count) for name, count in rows}
    for average in recording.key_averages():
        assert average.key == "[memory]" or counts[average.key] == average.count


@needs_browser
def test_a_browser_shows_memory(recording, tmp_path):
    recording.export_memory_timeline(str(tmp_path / "memory.html"))
    document = shown(tmp_path / "memory.html")
    blocks = data_of((tmp_path / "memory.html").read_text())["devices"][0]["blocks"]
    assert f"{len(blocks)} blocks" in document
    assert int(re.search(r'data-boxes="(\d+)"', document)[1]) >= len(blocks) / 2


SNAPSHOT = {
    "segments": [
        {
            "device": 0,
            "blocks": [
                {"size": 512, "state": "active_allocated", "address": 4096, "frames": []},
                {"size": 256, "state": "inactive", "address": 8192},
            ],
        }
    ],
    "device_traces": [
        [
            {"action": "segment_alloc", "addr": 4096, "size": 2048, "frames": [], "stream": 0},
            {"action": "alloc", "addr": 4096, "size": 512, "stream": 0}
            | {"frames": [{"filename": "a.py", "line": 3, "name": "f"}]},
            {"action": "free_requested", "addr": 4096, "size": 512, "frames": [], "stream": 0},
            {"action": "free_completed", "addr": 4096, "size": 512, "frames": [], "stream": 0},
            {"action": "free_completed", "addr": 9000, "size": 64, "frames": [], "stream": 0},
        ]
    ],
}


def test_pages_of_snapshots(tmp_path):
    (device,) = data_of(_memory_viz.trace_plot(SNAPSHOT))["devices"]
    assert device["blocks"] == [[1, 3, 512, 0, "0x1000", ["a.py:3 f"]], [None, 4, 64, 0, "0x2328", []]]
    (device,) = data_of(_memory_viz.trace_plot(SNAPSHOT, plot_segments=True))["devices"]
    assert [block[2] for block in device["blocks"]] == [2048]
    (device,) = data_of(_memory_viz.segment_plot(SNAPSHOT))["devices"]
    assert [block[2] for block in device["blocks"]] == [512]
    with pytest.raises(ValueError, match="no device 3"):
        _memory_viz.trace_plot(SNAPSHOT, device=3)
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(SNAPSHOT))
    _memory_viz.main(["trace_plot", str(tmp_path / "s.pickle"), "-o", str(tmp_path / "page.html")])
    assert data_of((tmp_path / "page.html").read_text())["devices"][0]["to"] == 5


class Block(tessera.nn.Module):
    def __init__(self, inside, out, stride):
        super().__init__()
        nn = tessera.nn
        self.body = nn.Sequential(
            nn.Conv2d(inside, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.side = nn.Sequential() if stride == 1 else nn.Conv2d(inside, out, 1, stride, bias=False)

    def forward(self, x):
        return tessera.relu(self.body(x) + self.side(x))


@pytest.fixture(scope="module")
def training_step():
    nn = tessera.nn
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        *(Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )
    optimizer = tessera.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    with profile(record_shapes=True) as prof:
        with tessera.profiler.record_function("step"):
            loss = nn.functional.cross_entropy(net(tessera.randn(2, 3, 16, 16)), tessera.tensor([1, 2]))
            loss.backward()
            optimizer.step()
    return prof


def outermost(spans):
    """(count, nanoseconds) of each name; a span inside of one of the same name and thread adds none."""
    found, ends = {}, {}
    for name, thread, begin, length in sorted(spans, key=lambda span: (span[2], -span[3])):
        count, total = found.get(name, (0, 0))
        inside = begin + length <= ends.get((name, thread), -1)
        if not inside:
            ends[name, thread] = begin + length
        found[name] = count + 1, total + (0 if inside else length)
    return found


def test_a_trace_of_a_resnet_step_has_the_sums_of_the_table(training_step, tmp_path):
    training_step.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    # Times are after the trace's base, so that a float keeps their nanoseconds.
    assert trace["baseTimeNanoseconds"] == training_step.profiler._ready().raw["start_ns"]
    events = [e for e in trace["traceEvents"] if e["ph"] == "X" and "tid" in e]
    spans = [(e["name"], e["tid"], round(1000 * e["ts"]), round(1000 * e["dur"])) for e in events]
    sums = outermost(spans)
    averages = {a.key: a for a in training_step.key_averages()}
    assert {"step", "aten::convolution", "aten::relu"} <= set(averages)
    for name, average in averages.items():
        count, total = sums[name]
        assert count == average.count
        assert total == pytest.approx(1000 * average.cpu_time_total, abs=1)


def microseconds(text):
    number, unit = text.split()
    return float(number) * {"s": 1e6, "ms": 1e3, "us": 1.0}[unit]


def check_table(document, averages):
    """The page's table has the counts and times of the averages."""
    rows = re.findall(r"<tr>(.*?)</tr>", document)
    cells = {c[0]: c[1:] for c in (re.findall(r"<td>(.*?)</td>", row) for row in rows) if c}
    assert len(averages) > 20
    for average in averages:
        assert int(cells[average.key][0]) == average.count, average.key
        shown_us = [microseconds(cell) for cell in cells[average.key][1:3]]
        expected = [average.self_cpu_time_total, average.cpu_time_total]
        assert shown_us == pytest.approx(expected, rel=1e-3, abs=0.01), average.key


@needs_browser
def test_a_browser_shows_a_resnet_step(training_step, tmp_path):
    training_step.export_html(tmp_path / "page.html")
    check_table(shown(tmp_path / "page.html", "#table"), training_step.key_averages())
    boxes = int(re.search(r'data-boxes="(\d+)"', shown(tmp_path / "page.html", "#timeline"))[1])
    assert boxes > 50


@needs_browser
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_browser_shows_a_trace_file(training_step, tmp_path, name, capsys):
    training_step.export_chrome_trace(str(tmp_path / name))
    assert viewer(["view", str(tmp_path / name)]) == 0
    page = tmp_path / "trace.html"
    assert capsys.readouterr().out.strip() == str(page)
    check_table(shown(page, "#table"), training_step.key_averages())
    document = shown(page, "#timeline")
    assert int(re.search(r'data-boxes="(\d+)"', document)[1]) > 50 and name in document


class Browser:
    """A browser that is spoken to over pipes, in the protocol of its developers' tools."""

    def __init__(self, folder):
        ours, theirs = os.pipe(), os.pipe()
        options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage --remote-debugging-pipe"

        def descriptors():
            os.dup2(ours[0], 3)
            os.dup2(theirs[1], 4)

        for end in (ours[0], theirs[1]):
            os.set_inheritable(end, True)
        self.running = subprocess.Popen(
            [BROWSER, *options.split(), f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=descriptors,
            close_fds=False,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self.to, self.source, self.number, self.rest = ours[1], theirs[0], 0, b""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def ask(self, method, **arguments):
        """The answer to one request; events are left out."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": arguments}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                read = os.read(self.source, 1 << 16)
                assert read, "the browser ended"
                self.rest += read
            text, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def value(self, expression):
        """What a script gives, once that is true."""
        for _ in range(300):
            found = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True)["result"].get("value")
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"{expression} stayed false")

    def close(self):
        os.close(self.to)
        os.killpg(self.running.pid, signal.SIGKILL)
        self.running.wait()
        os.close(self.source)


@needs_browser
@pytest.mark.parametrize("name", ["step.json", "step.json.gz"])
def test_a_page_opens_a_trace_by_its_file(training_step, recording, tmp_path, name):
    training_step.export_chrome_trace(str(tmp_path / name))
    (tmp_path / "broken.json").write_text('{"traceEvents": []}')
    recording.export_html(tmp_path / "page.html")
    browser = Browser(tmp_path / "profile")
    try:
        browser.ask("Page.enable")
        browser.ask("Page.navigate", url=f"file://{tmp_path}/page.html#table")
        browser.value("document.readyState === 'complete' && !!document.getElementById('open')")
        root = browser.ask("DOM.getDocument")["root"]["nodeId"]
        node = browser.ask("DOM.querySelector", nodeId=root, selector="#open")["nodeId"]
        browser.ask("DOM.setFileInputFiles", files=[str(tmp_path / name)], nodeId=node)
        browser.value(f"document.getElementById('title').textContent.startsWith('{name}')")
        check_table(html.unescape(browser.value("document.documentElement.outerHTML")), training_step.key_averages())
        browser.ask("DOM.setFileInputFiles", files=[str(tmp_path / "broken.json")], nodeId=node)
        assert "no events" in browser.value("document.getElementById('failed')?.textContent")
    finally:
        browser.close()


def test_files_that_are_no_traces(tmp_path, capsys):
    for name, text, said in [("a", "{", "no JSON"), ("b", '{"x": 1}', "traceEvents"), ("c", "3", "traceEvents")]:
        (tmp_path / name).write_text(text)
        assert viewer(["view", str(tmp_path / name), "-o", str(tmp_path / "page.html")]) == 1
        assert said in capsys.readouterr().err
    assert viewer(["view", str(tmp_path / "missing.json")]) == 1
    assert not (tmp_path / "page.html").exists()
