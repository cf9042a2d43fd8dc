"""Pages of recordings: what is in them, and that a browser without a network shows it."""

import html
import json
import os
import pickle
import re
import shutil
import signal
import subprocess

import pytest
import tessera
from tessera.cuda import _memory_viz
from tessera.profiler import profile

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
