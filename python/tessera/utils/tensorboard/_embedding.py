"""Points for TensorBoard's projector: files beside the log."""

import math
import os

from tessera.utils.tensorboard import _images
from tessera.utils.tensorboard._values import array


def _labels(metadata, header, count):
    """The lines of the file of labels."""
    if len(metadata) != count:
        raise ValueError(f"#labels should equal with #data points, but there are {len(metadata)} for {count}")
    rows = metadata if header else [[label] for label in metadata]
    if header and any(len(row) != len(header) for row in rows):
        raise ValueError(f"len of header must be equal to the number of columns in metadata: {len(header)}")
    lines = ["\t".join(str(cell) for cell in row) for row in rows]
    return ["\t".join(header), *lines] if header else lines


def _sprite(pictures, count):
    """(the bytes of a square of pictures, [width, height] of one)."""
    levels = array(pictures)
    if levels.ndim != 4 or levels.shape[0] != count:
        raise ValueError(f"#images should equal with #data points: shape {list(levels.shape)} for {count}")
    if levels.shape[2] != levels.shape[3]:
        raise ValueError(f"Image should be square, but is {levels.shape[2]} high and {levels.shape[3]} wide")
    side = math.ceil(math.sqrt(count))
    if side * levels.shape[2] > 8192:
        raise ValueError(f"Sprite too large: {side} x {side} pictures of {levels.shape[2]} pixels; 8192 is the limit")
    sheet = _images.grid(_images.as_bytes(levels.transpose(0, 2, 3, 1)), side)
    if sheet.shape[0] < sheet.shape[1]:
        import numpy

        sheet = numpy.pad(sheet, ((0, sheet.shape[1] - sheet.shape[0]), (0, 0), (0, 0)))
    return _images.png(sheet)[0], [levels.shape[3], levels.shape[2]]


def write(log_dir, folder, points, metadata, label_img, header):
    """Writes the files of an embedding into a folder of the log, and its entry into projector_config.pbtxt."""
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig, SpriteMetadata

    if points.ndim != 2 or 0 in points.shape:
        raise ValueError(f"mat should be 2D, where mat.size(0) is the number of data points: {list(points.shape)}")
    if header is not None and metadata is None:
        raise ValueError("metadata_header names the columns of metadata, which is None")
    name = folder.replace(os.sep, "/")
    info = EmbeddingInfo(tensor_name=f"{name.partition('/')[2]}:{name.partition('/')[0]}")
    files = {"tensors.tsv": "".join("\t".join(map(str, row)) + "\n" for row in points.tolist()).encode()}
    info.tensor_path = f"{name}/tensors.tsv"
    if metadata is not None:
        files["metadata.tsv"] = "".join(line + "\n" for line in _labels(metadata, header, len(points))).encode()
        info.metadata_path = f"{name}/metadata.tsv"
    if label_img is not None:
        files["sprite.png"], size = _sprite(label_img, len(points))
        info.sprite.CopyFrom(SpriteMetadata(image_path=f"{name}/sprite.png", single_image_dim=size))
    path = os.path.join(log_dir, folder)
    os.makedirs(path, exist_ok=True)
    for file_name, content in files.items():
        with open(os.path.join(path, file_name), "wb") as file:
            file.write(content)
    config_path = os.path.join(log_dir, "projector_config.pbtxt")
    config = ProjectorConfig()
    if os.path.exists(config_path):
        with open(config_path) as file:
            text_format.Parse(file.read(), config)
    others = [entry for entry in config.embeddings if entry.tensor_name != info.tensor_name]
    with open(config_path, "w") as file:
        file.write(text_format.MessageToString(ProjectorConfig(embeddings=[*others, info])))
