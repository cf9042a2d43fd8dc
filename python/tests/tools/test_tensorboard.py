"""utils.tensorboard: what is written, TensorBoard's own package reads."""

import io
import pathlib
import struct
import subprocess
import sys
import threading
import time
import types
import wave

import numpy
import pytest
import tessera
from google.protobuf import text_format
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.util.tensor_util import make_ndarray
from tessera import nn
from tessera.utils.tensorboard import FileWriter, RecordWriter, SummaryWriter


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0, "images": 0})
    events.Reload()
    return events


@pytest.fixture
def log(tmp_path):
    """(a writer, a function that closes it and gives what was written)"""
    writer = SummaryWriter(tmp_path / "run")

    def written():
        writer.close()
        return read(tmp_path / "run")

    return writer, written


def values(event):
    return make_ndarray(event.tensor_proto)


def test_scalars(log):
    writer, written = log
    for step in range(3):
        writer.add_scalar("train/loss", tessera.tensor(step / 2), step, walltime=1000 + step)
    writer.add_scalar("new", 0.25, 7, new_style=True)
    writer.add_scalar("double", 1 / 3, 7, double_precision=True)
    writer.add_scalars("pair", {"a": 1, "b": numpy.float32(2)}, 5)
    with pytest.raises(ValueError, match="one number"):
        writer.add_scalar("x", tessera.ones(2))
    with pytest.raises(NotImplementedError, match="but expected a tensor"):
        writer.add_scalar("x", object())
    events = written()
    assert [(e.step, e.value, e.wall_time) for e in events.Scalars("train/loss")] == [
        (0, 0.0, 1000.0),
        (1, 0.5, 1001.0),
        (2, 1.0, 1002.0),
    ]
    assert values(events.Tensors("new")[0]) == numpy.float32(0.25)
    assert values(events.Tensors("double")[0]) == 1 / 3 and events.Tensors("double")[0].step == 7
    assert events.SummaryMetadata("new").plugin_data.plugin_name == "scalars"
    folder = pathlib.Path(writer.get_logdir())
    assert read(folder / "pair_a").Scalars("pair")[0].value == 1
    assert read(folder / "pair_b").Scalars("pair")[0].step == 5


def test_histograms(log):
    writer, written = log
    data = tessera.arange(100.0) - 50
    writer.add_histogram("h", data, 3)
    writer.add_histogram("ten", data, 3, bins=10)
    writer.add_histogram("few", data, 3, bins=50, max_bins=4)
    writer.add_histogram_raw("raw", 0, 4, 5, 10, 30, [1, 2, 4], [1, 1, 3], 3)
    for wrong, message in ((tessera.empty(0), "no element"), (tessera.tensor([1e30]), "is empty")):
        with pytest.raises(ValueError, match=message):
            writer.add_histogram("x", wrong)
    with pytest.raises(ValueError, match="3 and 2"):
        writer.add_histogram_raw("x", 0, 1, 1, 1, 1, [1, 2, 3], [1, 2])
    events = written()
    h = events.Histograms("h")[0].histogram_value
    assert (h.min, h.max, h.num, h.sum, h.sum_squares) == (-50, 49, 100, -50, float((data * data).sum()))
    assert (
        sum(h.bucket) == 100 and len(h.bucket) == len(h.bucket_limit) and sorted(h.bucket_limit) == list(h.bucket_limit)
    )
    ten = events.Histograms("ten")[0].histogram_value
    assert list(ten.bucket) == [0] + [10] * 10 and ten.bucket_limit[0] == -50 and ten.bucket_limit[-1] == 49
    few = events.Histograms("few")[0].histogram_value
    assert len(few.bucket) <= 5 and sum(few.bucket) == 100
    assert list(events.Histograms("raw")[0].histogram_value.bucket) == [1, 1, 3]


def pixels(event):
    return numpy.asarray(Image.open(io.BytesIO(event.encoded_image_string)))


def test_pictures(log):
    writer, written = log
    picture = tessera.randint(0, 256, (3, 4, 5), dtype=tessera.uint8)
    writer.add_image("chw", picture)
    writer.add_image("hwc", picture.permute(1, 2, 0), dataformats="HWC")
    writer.add_image("float", picture / 255.0)
    writer.add_image("hw", picture[0], dataformats="HW")
    writer.add_image("wh", picture[0].t(), dataformats="WH")
    writer.add_images("many", tessera.stack([picture] * 9))
    writer.add_image_with_boxes("boxes", tessera.zeros(3, 30, 40), [[5, 6, 20, 25]], labels="cat")
    writer.add_video("film", tessera.rand(2, 5, 3, 8, 8), fps=10)
    for wrong, layout in ((picture, "HW"), (picture, "CHH"), (picture[0], "CHW"), (picture, "XYZ")):
        with pytest.raises(ValueError, match="dataformats"):
            writer.add_image("x", wrong, dataformats=layout)
    with pytest.raises(ValueError, match=r"\[n, 4\]"):
        writer.add_image_with_boxes("x", tessera.zeros(3, 4, 4), [1, 2, 3, 4])
    with pytest.raises(ValueError, match="a film has the shape"):
        writer.add_video("x", tessera.rand(5, 3, 8, 8))
    events = written()
    wanted = picture.permute(1, 2, 0).numpy()
    for tag in ("chw", "hwc"):
        assert numpy.array_equal(pixels(events.Images(tag)[0]), wanted)
    assert numpy.abs(pixels(events.Images("float")[0]).astype(int) - wanted).max() <= 1
    for tag in ("hw", "wh"):
        assert numpy.array_equal(pixels(events.Images(tag)[0])[..., 1], picture[0].numpy())
    many = events.Images("many")[0]
    assert (many.width, many.height) == (8 * 5, 2 * 4)
    assert numpy.array_equal(pixels(many)[4:, :5], wanted) and not pixels(many)[4:, 5:].any()
    boxes = pixels(events.Images("boxes")[0])
    assert boxes[23, 20].tolist() == [255, 0, 0] and not boxes[28].any()
    film = Image.open(io.BytesIO(events.Images("film")[0].encoded_image_string))
    assert film.n_frames == 5 and film.size == (16, 8) and film.info["duration"] == 100


def test_figures(log, monkeypatch):
    """matplotlib's part is played by a module that draws one color."""
    agg, pyplot, closed = types.ModuleType("agg"), types.ModuleType("pyplot"), []

    class Canvas:
        def __init__(self, figure):
            self.level = figure

        def draw(self):
            self.pixels = numpy.full((4, 6, 4), self.level, numpy.uint8)

        def buffer_rgba(self):
            return memoryview(self.pixels)

    agg.FigureCanvasAgg, pyplot.close = Canvas, closed.append
    for name in ("matplotlib", "matplotlib.backends"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["matplotlib"].pyplot = pyplot
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", agg)
    writer, written = log
    writer.add_figure("one", 7)
    writer.add_figure("two", [8, 9], close=False)
    events = written()
    assert closed == [7] and pixels(events.Images("one")[0]).shape == (4, 6, 3)
    two = pixels(events.Images("two")[0])
    assert two.shape == (4, 12, 3) and two[0, 0, 0] == 8 and two[0, 6, 0] == 9


def test_sound_and_text(log):
    writer, written = log
    wave_form = tessera.sin(tessera.arange(1000) / 10.0)
    writer.add_audio("beep", wave_form, sample_rate=8000)
    writer.add_text("note", "hello *you*", 4)
    with pytest.raises(ValueError, match=r"\[samples\]"):
        writer.add_audio("x", tessera.rand(2, 100))
    events = written()
    sound = events.Audio("beep")[0]
    assert sound.sample_rate == 8000 and sound.length_frames == 1000
    with wave.open(io.BytesIO(sound.encoded_audio_string)) as file:
        levels = numpy.frombuffer(file.readframes(1000), "<i2")
    assert numpy.abs(levels / 32767 - wave_form.numpy()).max() < 1e-4
    note = events.Tensors("note/text_summary")[0]
    assert values(note).tolist() == [b"hello *you*"] and note.step == 4
    assert events.SummaryMetadata("note/text_summary").plugin_data.plugin_name == "text"


def test_precision_and_recall(log):
    writer, written = log
    labels, predictions = [1, 0, 1, 1, 0], [0.9, 0.8, 0.6, 0.1, 0.05]
    writer.add_pr_curve("pr", labels, predictions, 1, num_thresholds=5)
    writer.add_pr_curve("weighted", labels, predictions, 1, num_thresholds=5, weights=[2, 1, 1, 1, 1])
    writer.add_pr_curve_raw("raw", [3, 1], [2, 0], [0, 2], [0, 2], [0.6, 1], [1, 1 / 3], 1, num_thresholds=2)
    with pytest.raises(ValueError, match="3 labels, 2 predictions"):
        writer.add_pr_curve("x", [1, 0, 1], [0.5, 0.5])
    events = written()
    # Thresholds 0, 1/4, 1/2, 3/4, 1.
    tp, fp, tn, fn, precision, recall = values(events.Tensors("pr")[0])
    assert tp.tolist() == [3, 2, 2, 1, 0] and fp.tolist() == [2, 1, 1, 1, 0]
    assert tn.tolist() == [0, 1, 1, 1, 2] and fn.tolist() == [0, 1, 1, 2, 3]
    assert numpy.allclose(precision, [3 / 5, 2 / 3, 2 / 3, 1 / 2, 0]) and numpy.allclose(recall, tp / 3)
    assert values(events.Tensors("weighted")[0])[0].tolist() == [4, 3, 3, 2, 0]
    assert numpy.allclose(values(events.Tensors("raw")[0])[5], [1, 1 / 3])


def test_charts_meshes_and_tensors(log):
    writer, written = log
    writer.add_custom_scalars({"all": {"two": ["Multiline", ["a", "b"]], "band": ["Margin", ["m", "l", "u"]]}})
    vertices, faces = tessera.rand(1, 4, 3), tessera.tensor([[[0, 1, 2]]])
    colors = tessera.randint(0, 256, (1, 4, 3))
    writer.add_mesh("mesh", vertices, colors, faces, {"camera": {"cls": "PerspectiveCamera"}}, 2)
    writer.add_tensor("whole", tessera.arange(6).view(2, 3), 1)
    with pytest.raises(ValueError, match="'Margin'"):
        writer.add_custom_scalars_marginchart(["m", "l"])
    with pytest.raises(ValueError, match="vertex values"):
        writer.add_mesh("x", tessera.rand(4, 3))
    events = written()
    layout = Layout.FromString(values(events.Tensors("custom_scalars__config__")[0]).item())
    two, band = layout.category[0].chart
    assert layout.category[0].title == "all" and list(two.multiline.tag) == ["a", "b"]
    assert (band.margin.series[0].value, band.margin.series[0].upper) == ("m", "u")
    assert numpy.array_equal(values(events.Tensors("mesh_VERTEX")[0]), vertices.numpy())
    assert numpy.array_equal(values(events.Tensors("mesh_FACE")[0]), faces.numpy())
    assert numpy.array_equal(values(events.Tensors("mesh_COLOR")[0]), colors.numpy())
    data = MeshPluginData.FromString(events.SummaryMetadata("mesh_VERTEX").plugin_data.content)
    assert "PerspectiveCamera" in data.json_config and list(data.shape) == [1, 4, 3]
    assert values(events.Tensors("whole")[0]).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_settings_of_runs(log):
    writer, written = log
    settings = {"lr": 0.1, "batch": tessera.tensor(4), "name": "x", "flag": True}
    writer.add_hparams(settings, {"hparam/accuracy": 0.75}, {"batch": [4, 8]}, run_name="first", global_step=3)
    with pytest.raises(TypeError, match="hparam_dict should be a dictionary"):
        writer.add_hparams([1], {})
    with pytest.raises(ValueError, match="'lr' should be one of"):
        writer.add_hparams({"lr": tessera.ones(2)}, {})
    with pytest.raises(ValueError, match="of another type"):
        writer.add_hparams({"lr": 0.1}, {}, {"lr": ["a"]})
    with pytest.raises(ValueError, match="which hparam_dict lacks"):
        writer.add_hparams({"lr": 0.1}, {}, {"rl": [0.1]})
    written()
    run = read(pathlib.Path(writer.get_logdir()) / "first")
    assert [(e.step, e.value) for e in run.Scalars("hparam/accuracy")] == [(3, 0.75)]

    def content(tag):
        return HParamsPluginData.FromString(run.SummaryMetadata("_hparams_/" + tag).plugin_data.content)

    infos = {info.name: info for info in content("experiment").experiment.hparam_infos}
    assert set(infos) == set(settings) and [v.number_value for v in infos["batch"].domain_discrete.values] == [4, 8]
    started = content("session_start_info").session_start_info.hparams
    assert started["lr"].number_value == 0.1 and started["batch"].number_value == 4 and started["flag"].bool_value
    assert content("session_end_info").session_end_info.status == 1


def test_embeddings(log):
    writer, written = log
    points = tessera.rand(5, 3)
    writer.add_embedding(points, list("abcde"), tessera.rand(5, 3, 8, 8), global_step=2, tag="my points")
    writer.add_embedding(points, [["a", 1]] * 5, metadata_header=["name", "number"])
    writer.add_embedding(points)  # takes the place of the one before
    for arguments, message in (
        ((points, ["a"]), "1 for 5"),
        ((points, None, tessera.rand(4, 3, 8, 8)), "for 5"),
        ((points, None, tessera.rand(5, 3, 8, 6)), "square"),
        ((tessera.rand(5),), "2D"),
    ):
        with pytest.raises(ValueError, match=message):
            writer.add_embedding(*arguments)
    written()
    folder = pathlib.Path(writer.get_logdir())
    config = text_format.Parse((folder / "projector_config.pbtxt").read_text(), ProjectorConfig())
    assert [e.tensor_path for e in config.embeddings] == ["00002/my_points/tensors.tsv", "00000/default/tensors.tsv"]
    rows = [line.split("\t") for line in (folder / config.embeddings[0].tensor_path).read_text().splitlines()]
    assert numpy.allclose(numpy.asarray(rows, float), points.numpy())
    assert (folder / config.embeddings[0].metadata_path).read_text().split() == list("abcde")
    with Image.open(folder / config.embeddings[0].sprite.image_path) as sprite:
        assert sprite.size == (24, 24)
    assert (folder / "00000/default/metadata.tsv").read_text().splitlines()[:2] == ["name\tnumber", "a\t1"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())
        self.head = nn.Linear(72, 2)

    def forward(self, x, scale):
        return self.head(self.features(x).flatten(1)) * scale


def test_graphs(log, capsys):
    writer, written = log
    net = Net()
    writer.add_graph(net, (tessera.rand(1, 1, 8, 8), tessera.tensor(2.0)), verbose=True)
    assert "aten::convolution" in capsys.readouterr().out
    assert not net._forward_hooks and not net.features[0]._forward_pre_hooks
    graph = GraphDef.FromString(written().Graph().SerializeToString())
    nodes = {node.name: node for node in graph.node}
    conv = next(node for node in graph.node if node.op == "aten::convolution")
    assert conv.name.startswith("Net/Sequential[features]/Conv2d[0]/")
    assert conv.input[0] == "input/0" and conv.input[1] == "Net/Sequential[features]/Conv2d[0]/weight"
    assert [d.size for d in conv.attr["_output_shapes"].list.shape[0].dim] == [1, 2, 6, 6]
    # Every input is a node, and from the output one comes back to both inputs of the module.
    assert all(name in nodes for node in graph.node for name in node.input)
    reached, waiting = set(), ["output/0"]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += nodes[name].input
    assert {"input/0", "input/1", "Net/Linear[head]/weight"} <= reached

    class Dict(nn.Module):
        def forward(self, x):
            return {"y": x + 1}

    with pytest.raises(TypeError, match="use_strict_trace=False"):
        writer.add_graph(Dict(), tessera.ones(1))
    writer.add_graph(Dict(), tessera.ones(1), use_strict_trace=False)
    with pytest.raises(TypeError, match="expected a Module"):
        writer.add_graph(len, tessera.ones(1))


def test_files(tmp_path):
    with SummaryWriter(tmp_path / "a", filename_suffix=".mine", purge_step=5) as writer:
        writer.add_scalar("x", 1, 6)
        writer.flush()
        assert [e.step for e in read(tmp_path / "a").Scalars("x")] == [6]
    assert writer.file_writer is None
    writer.add_scalar("x", 2, 7)  # opens another file
    writer.close()
    assert [e.value for e in read(tmp_path / "a").Scalars("x")] == [1, 2]
    files = sorted((tmp_path / "a").iterdir())
    assert files and all(file.name.endswith(".mine") and "tfevents" in file.name for file in files)
    single = FileWriter(tmp_path / "b")
    assert single.get_logdir() == str(tmp_path / "b")
    single.close()
    out = io.BytesIO()
    RecordWriter(out).write(b"abc")
    assert struct.unpack("<Q", out.getvalue()[:8]) == (3,) and out.getvalue()[12:15] == b"abc"


def test_default_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="-lr1") as writer:
        assert writer.get_logdir().startswith("runs/") and writer.get_logdir().endswith("-lr1")
    assert (tmp_path / writer.get_logdir()).is_dir()


def test_a_program_that_does_not_close(tmp_path):
    code = (
        "import sys\nfrom tessera.utils.tensorboard import SummaryWriter\n"
        "w = SummaryWriter(sys.argv[1])\nw.add_scalar('x', 1, 2)\n"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and not result.stderr
    assert [e.step for e in read(tmp_path).Scalars("x")] == [2]


def test_without_the_package():
    code = (
        "import sys; sys.modules['tensorboard'] = None\n"
        "try:\n    import tessera.utils.tensorboard\n"
        "except ModuleNotFoundError as e:\n    print('tensorboard' in str(e))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout == "True\n", result.stderr


def test_versions_that_are_too_old():
    from tessera.utils.tensorboard import _check_version

    _check_version("1.15.0")
    with pytest.raises(ImportError, match="1.15 or above"):
        _check_version("1.14.2")


def scalars_of(folder):
    return [event.step for event in read(folder).Scalars("x")]


def test_what_waits_is_written_in_time_and_in_order(tmp_path):
    with SummaryWriter(tmp_path / "some", max_queue=4) as writer:
        for step in range(6):
            writer.add_scalar("x", step, step)
        assert scalars_of(tmp_path / "some") == [0, 1, 2, 3]
        writer.flush()
        assert scalars_of(tmp_path / "some") == [0, 1, 2, 3, 4, 5]
    with SummaryWriter(tmp_path / "late", max_queue=1000, flush_secs=0.01) as writer:
        writer.add_scalar("x", 1, 8)
        (file,) = (tmp_path / "late").iterdir()
        size, end = file.stat().st_size, time.monotonic() + 30
        while file.stat().st_size == size and time.monotonic() < end:
            time.sleep(0.01)
        assert scalars_of(tmp_path / "late") == [8]


def test_many_threads_write_one_file(tmp_path):
    def add(writer, first):
        for step in range(first, first + 50):
            writer.add_scalar("x", step, step)

    with SummaryWriter(tmp_path) as writer:
        threads = [threading.Thread(target=add, args=(writer, 50 * i)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(scalars_of(tmp_path)) == list(range(200))


def test_a_closed_file_takes_nothing_and_another_can_follow(tmp_path):
    writer = FileWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(OSError, match="is closed"):
        writer.add_event(Event())
    writer.reopen()
    with pytest.raises(TypeError, match="of type Event"):
        writer.event_writer.add_event(b"bytes")
    writer.add_event(Event(file_version="x"), 3)
    writer.close()
    assert len(list(tmp_path.iterdir())) == 2
