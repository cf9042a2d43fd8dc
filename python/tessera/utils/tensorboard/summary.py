"""Summaries: what a writer puts into a log, as messages of TensorBoard's own formats. Tensors, arrays, numbers and
lists are taken alike.
"""

import io
import json
import wave

import numpy
from tensorboard.compat.proto import summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2

from tessera.utils.tensorboard import _images
from tessera.utils.tensorboard._values import array, number

__all__ = [
    "audio",
    "custom_scalars",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "image_boxes",
    "mesh",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "tensor_proto",
    "text",
    "video",
]

Summary = summary_pb2.Summary


def _metadata(plugin, content=b"", data_class=None):
    kinds = summary_pb2.DATA_CLASS_UNKNOWN if data_class is None else data_class
    plugin_data = summary_pb2.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return summary_pb2.SummaryMetadata(plugin_data=plugin_data, data_class=kinds)


def _strings(values):
    """A tensor of TensorBoard's with bytes."""
    shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=len(values))])
    return tensor_pb2.TensorProto(dtype="DT_STRING", string_val=values, tensor_shape=shape)


def _tensor(values):
    """A tensor of TensorBoard's with the values of an array."""
    kinds = {
        "f2": types_pb2.DT_HALF,
        "f4": types_pb2.DT_FLOAT,
        "f8": types_pb2.DT_DOUBLE,
        "i1": types_pb2.DT_INT8,
        "i2": types_pb2.DT_INT16,
        "i4": types_pb2.DT_INT32,
        "i8": types_pb2.DT_INT64,
        "u1": types_pb2.DT_UINT8,
        "b1": types_pb2.DT_BOOL,
        "c8": types_pb2.DT_COMPLEX64,
        "c16": types_pb2.DT_COMPLEX128,
    }
    kind = f"{values.dtype.kind}{values.dtype.itemsize}"
    if kind not in kinds:
        raise ValueError(f"there is no type of TensorBoard for arrays of {values.dtype}")
    dims = [tensor_shape_pb2.TensorShapeProto.Dim(size=size) for size in values.shape]
    shape = tensor_shape_pb2.TensorShapeProto(dim=dims)
    content = numpy.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes()
    return tensor_pb2.TensorProto(dtype=kinds[kind], tensor_shape=shape, tensor_content=content)


def _one(**value):
    return Summary(value=[Summary.Value(**value)])


def scalar(name, tensor, collections=None, new_style=False, double_precision=False):
    """One number.

    Args:
        name: the tag.
        tensor: the number.
        collections: not supported by TensorBoard any more: has to be None.
        new_style: write a tensor instead of a simple value, which newer readers take faster.
        double_precision: write 64 bits (a tensor).

    Raises: ValueError for several numbers.
    """
    if collections is not None:
        raise ValueError("summaries have no collections any more")
    value, tag = number(tensor), name
    if not (new_style or double_precision):
        return _one(tag=tag, simple_value=value)
    content = _tensor(numpy.asarray(value, "f8" if double_precision else "f4"))
    return _one(tag=tag, tensor=content, metadata=_metadata("scalars", b"", summary_pb2.DATA_CLASS_SCALAR))


def tensor_proto(tag, tensor):
    """A tensor with all of its values."""
    return _one(tag=tag, tensor=_tensor(array(tensor)), metadata=_metadata("tensor", b""))


def exponential_bins():
    """The limits of "tensorflow" bins: each a tenth further from zero than the last one, from 1e-12 to 1e20."""
    steps = 1e-12 * 1.1 ** numpy.arange(int(numpy.log(1e32) / numpy.log(1.1)) + 1)
    return numpy.concatenate([-steps[::-1], [0.0], steps])


def histogram(name, values, bins, max_bins=None):
    """How values are distributed.

    Args:
        name: the tag.
        values: any shape.
        bins: limits, their number, or a name that numpy.histogram knows.
        max_bins: join bins until there are at most so many.

    Raises: ValueError for no values.
    """
    flat = array(values).reshape(-1).astype(numpy.float64)
    if flat.size == 0:
        raise ValueError("The input has no element.")
    counts, limits = numpy.histogram(flat, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        together = -(-len(counts) // max_bins)
        counts = numpy.add.reduceat(counts, numpy.arange(0, len(counts), together))
        limits = numpy.append(limits[:-1][::together], limits[-1])
    filled = numpy.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError("The histogram is empty: no value lies within the limits of the bins.")
    # The filled part with an empty bin in front, whose limit says where the first one begins.
    first, last = filled[0], filled[-1]
    return histogram_raw(
        name,
        flat.min(),
        flat.max(),
        flat.size,
        flat.sum(),
        flat.dot(flat),
        limits[first : last + 2],
        numpy.append(0, counts[first : last + 1]),
    )


def histogram_raw(name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts):
    """A histogram that was counted already.

    Args:
        name: the tag.
        min, max, num, sum, sum_squares: of the values.
        bucket_limits: the upper limit of each bin.
        bucket_counts: how many values lie in it.

    Raises: ValueError for limits and counts of different lengths.
    """
    limits, counts = array(bucket_limits).reshape(-1).tolist(), array(bucket_counts).reshape(-1).tolist()
    if len(limits) != len(counts):
        raise ValueError(f"len(bucket_limits) != len(bucket_counts): {len(limits)} and {len(counts)}")
    message = summary_pb2.HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=limits, bucket=counts
    )
    return _one(tag=name, histo=message)


def _image(name, encoded):
    content, height, width, channels = encoded
    message = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=content)
    return _one(tag=name, image=message)


def image(tag, tensor, rescale=1, dataformats="NCHW"):
    """A picture, or several in rows of eight.

    Args:
        tag: the tag.
        tensor: levels: uint8 from 0 to 255, or floating from 0 to 1.
        rescale: a factor for height and width.
        dataformats: the meaning of the dimensions: "NCHW", "NHWC", "CHW", "HWC", "HW", "WH".

    Raises: ValueError for dimensions that do not fit, ModuleNotFoundError without the package PIL.
    """
    picture = _images.as_bytes(_images.channels_last(array(tensor), dataformats))
    return _image(tag, _images.png(picture, rescale))


def image_boxes(tag, tensor_image, tensor_boxes, rescale=1, dataformats="CHW", labels=None):
    """A picture with frames.

    Args:
        tag, tensor_image, rescale, dataformats: those of `image`.
        tensor_boxes: [n, 4]: left, top, right, bottom in pixels.
        labels: a text for each.

    Raises: ValueError for boxes of another shape, or another number of labels.
    """
    boxes = array(tensor_boxes)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"boxes have the shape [n, 4], but these have {list(boxes.shape)}")
    if labels is not None and len(labels) != len(boxes):
        raise ValueError(f"there are {len(labels)} labels for {len(boxes)} boxes")
    picture = _images.as_bytes(_images.channels_last(array(tensor_image), dataformats))
    return _image(tag, _images.png(_images.with_boxes(picture, boxes, labels), rescale))


def video(tag, tensor, fps=4):
    """A film, as a GIF.

    Args:
        tag: the tag.
        tensor: [n, time, channels, height, width]: uint8 from 0 to 255, or floating from 0 to 1; the n films run side
            by side.
        fps: frames a second.

    Raises: ValueError for another shape, ModuleNotFoundError without the package PIL.
    """
    films = array(tensor)
    if films.ndim != 5 or films.size == 0 or films.shape[2] not in (1, 3):
        raise ValueError(f"a film has the shape [n, time, 1 or 3, height, width], but this has {list(films.shape)}")
    return _image(tag, _images.gif(_images.frames(_images.as_bytes(films)), fps))


def audio(tag, tensor, sample_rate=44100):
    """Sound of one channel, as a WAV file of 16 bits.

    Args:
        tag: the tag.
        tensor: [samples] or [1, samples] from -1 to 1; others are cut off.
        sample_rate: in Hz.

    Raises: ValueError for several channels.
    """
    samples = array(tensor)
    if samples.size != max(samples.shape, default=1):
        raise ValueError(f"sound has the shape [samples] or [1, samples], but this has {list(samples.shape)}")
    levels = (numpy.clip(samples.reshape(-1), -1, 1) * 32767).round().astype("<i2")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(levels.tobytes())
    message = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=levels.size,
        encoded_audio_string=out.getvalue(),
        content_type="audio/wav",
    )
    return _one(tag=tag, audio=message)


def text(tag, text):
    """A text, or a list of them; Markdown is shown as such."""
    from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

    texts = [text] if isinstance(text, str) else list(text)
    metadata = _metadata("text", TextPluginData(version=0).SerializeToString(), summary_pb2.DATA_CLASS_TENSOR)
    content = _strings([line.encode() for line in texts])
    return _one(tag=f"{tag}/text_summary", tensor=content, metadata=metadata)


def pr_curve(tag, labels, predictions, num_thresholds=127, weights=None):
    """Precision against recall at equally spaced thresholds.

    Args:
        tag: the tag.
        labels: whether each element belongs to the class.
        predictions: how likely that is said to be, from 0 to 1.
        num_thresholds: how many; at most 127 are shown.
        weights: of each element; all 1 by default.

    Raises: ValueError for different numbers of labels, predictions and weights.
    """
    steps = min(num_thresholds, 127)
    truth = array(labels).reshape(-1).astype(bool)
    levels = array(predictions).reshape(-1).astype(numpy.float64)
    weigh = numpy.ones(truth.shape) if weights is None else array(weights).reshape(-1).astype(numpy.float64)
    if not truth.size == levels.size == weigh.size:
        raise ValueError(f"there are {truth.size} labels, {levels.size} predictions and {weigh.size} weights")
    place = numpy.clip(numpy.floor(levels * (steps - 1)), 0, steps - 1).astype(int)
    # What is above a threshold, from the highest threshold down.
    positive = numpy.bincount(place, weigh * truth, steps)[::-1].cumsum()[::-1]
    negative = numpy.bincount(place, weigh * ~truth, steps)[::-1].cumsum()[::-1]
    precision = positive / numpy.maximum(positive + negative, 1e-12)
    recall = positive / max(positive[0], 1e-12)
    missed, left = positive[0] - positive, negative[0] - negative
    return pr_curve_raw(tag, positive, negative, left, missed, precision, recall, steps)


def pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds=127, weights=None):
    """Precision against recall that were counted already.

    Args:
        tag: the tag.
        tp, fp, tn, fn: true and false positives and negatives at each threshold.
        precision, recall: at each threshold.
        num_thresholds: how many; at most 127 are shown.
        weights: the counts are multiplied by these.

    Raises: ValueError for other numbers of values.
    """
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    steps = min(num_thresholds, 127)
    rows = [array(row).reshape(-1).astype(numpy.float64) for row in (tp, fp, tn, fn, precision, recall)]
    if any(row.size < steps for row in rows):
        raise ValueError(f"{steps} thresholds need as many values, but there are {[row.size for row in rows]}")
    if weights is not None:
        rows[:4] = [row * array(weights) for row in rows[:4]]
    content = PrCurvePluginData(version=0, num_thresholds=steps).SerializeToString()
    values = numpy.stack([row[:steps] for row in rows]).astype("f4")
    return _one(
        tag=tag,
        tensor=_tensor(values),
        metadata=_metadata("pr_curves", content, summary_pb2.DATA_CLASS_TENSOR),
    )


def custom_scalars(layout):
    """Which scalars are shown in one chart.

    Args:
        layout: {category: {chart: ["Multiline", [tags]] or ["Margin", [tag, tag of the lower, of the upper limit]]}}.

    Raises: ValueError for another kind of chart, or not three tags for a margin.
    """
    from tensorboard.plugins.custom_scalar import layout_pb2

    def chart(title, kind, tags):
        if kind == "Multiline":
            content = layout_pb2.MultilineChartContent(tag=list(tags))
            return layout_pb2.Chart(title=title, multiline=content)
        if kind != "Margin" or len(tags) != 3:
            raise ValueError(
                f"chart {title!r}: expected ['Multiline', tags] or ['Margin', [value, lower, upper]], but got "
                f"[{kind!r}, {tags!r}]"
            )
        series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
        return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))

    categories = [
        layout_pb2.Category(title=title, chart=[chart(name, *what) for name, what in charts.items()])
        for title, charts in layout.items()
    ]
    content = _strings([layout_pb2.Layout(category=categories).SerializeToString()])
    return _one(tag="custom_scalars__config__", tensor=content, metadata=_metadata("custom_scalars"))


def mesh(tag, vertices, colors, faces, config_dict, display_name=None, description=None):
    """Points in space, their colors, and the triangles between them.

    Args:
        tag: the tag.
        vertices: [batch, n, 3].
        colors: [batch, n, 3] from 0 to 255, or None.
        faces: [batch, m, 3]: numbers of vertices, or None.
        config_dict: how it is shown: camera, lights, material of three.js.
        display_name, description: shown with it.
    """
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    kinds = (
        (vertices, MeshPluginData.VERTEX, "f4"),
        (faces, MeshPluginData.FACE, "i4"),
        (colors, MeshPluginData.COLOR, "u1"),
    )
    given = [(array(values).astype(dtype), kind) for values, kind, dtype in kinds if values is not None]
    for values, kind in given:
        if values.ndim != 3 or values.shape[-1] != 3:
            name = MeshPluginData.ContentType.Name(kind).lower()
            raise ValueError(f"the {name} values of a mesh have the shape [batch, n, 3], but not {list(values.shape)}")
    components = metadata.get_components_bitmask([kind for _, kind in given])
    config = json.dumps(config_dict or {}, sort_keys=True)
    found = []
    for values, kind in given:
        about = metadata.create_summary_metadata(
            tag, display_name, kind, components, values.shape, description, json_config=config
        )
        found.append(Summary.Value(tag=metadata.get_instance_name(tag, kind), tensor=_tensor(values), metadata=about))
    return Summary(value=found)


def _hparam_value(name, value):
    """A setting as a message, with the type that the dashboard has for it."""
    from google.protobuf.struct_pb2 import Value
    from tensorboard.plugins.hparams import api_pb2

    if not isinstance(value, (bool, int, float, str)) and value is not None:
        found = array(value)
        if found.size != 1:
            raise ValueError(
                f"value of hparam {name!r} should be one of int, float, str, bool, or tensor of one element"
            )
        value = found.reshape(()).item()
    if value is None or isinstance(value, str):
        return Value(string_value=str(value)), api_pb2.DATA_TYPE_STRING
    if isinstance(value, bool):
        return Value(bool_value=value), api_pb2.DATA_TYPE_BOOL
    return Value(number_value=value), api_pb2.DATA_TYPE_FLOAT64


def hparams(hparam_dict=None, metric_dict=None, hparam_domain_discrete=None):
    """Settings of a run and the names of its results: three summaries, the experiment's, and the session's start and
    end.

    Args:
        hparam_dict: {name: bool, number, text or tensor of one element}.
        metric_dict: {tag of a scalar: value}.
        hparam_domain_discrete: {name: the values that it may have}.

    Raises: TypeError for what is no dict, ValueError for another kind of value or a name of the domains that is not
        among the settings.
    """
    from google.protobuf.struct_pb2 import ListValue
    from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
    from tensorboard.plugins.hparams.metadata import PLUGIN_NAME

    domains = hparam_domain_discrete or {}
    for name, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict), ("domains", domains)):
        if not isinstance(given, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, but is {type(given).__name__}")
    stray = [name for name in domains if name not in hparam_dict]
    if stray:
        raise ValueError(f"hparam_domain_discrete names {', '.join(stray)}, which hparam_dict lacks")
    infos, values = [], {}
    for name, value in hparam_dict.items():
        message, kind = _hparam_value(name, value)
        values[name] = message
        info = api_pb2.HParamInfo(name=name, type=kind)
        if name in domains:
            allowed = [_hparam_value(name, choice) for choice in domains[name]]
            if any(other != kind for _, other in allowed):
                raise ValueError(f"hparam_domain_discrete: the values for {name} are of another type than {value!r}")
            info = api_pb2.HParamInfo(
                name=name, type=kind, domain_discrete=ListValue(values=[choice for choice, _ in allowed])
            )
        infos.append(info)
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metric_dict]
    start = plugin_data_pb2.SessionStartInfo()
    for name, message in values.items():
        start.hparams[name].CopyFrom(message)
    parts = (
        ("_hparams_/experiment", {"experiment": api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics)}),
        ("_hparams_/session_start_info", {"session_start_info": start}),
        (
            "_hparams_/session_end_info",
            {"session_end_info": plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)},
        ),
    )
    return tuple(
        _one(
            tag=tag,
            metadata=_metadata(
                PLUGIN_NAME, plugin_data_pb2.HParamsPluginData(version=0, **content).SerializeToString()
            ),
        )
        for tag, content in parts
    )
