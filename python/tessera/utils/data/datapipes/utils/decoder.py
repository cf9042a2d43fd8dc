"""Handlers that make objects of files' bytes, by their names' extensions."""

import io
import json
import os
import pickle

import tessera

__all__ = ["Decoder", "basichandlers", "extension_extract_fn", "imagehandler", "mathandler"]


def extension_extract_fn(pathname):
    """The extension of a path without its dot."""
    return os.path.splitext(pathname)[1][1:]


_BASIC = {
    "int": ("cls cls2 class count index inx id", int),
    "text": ("txt text transcript", lambda data: data.decode("utf-8")),
    "json": ("json jsn", json.loads),
    "pickle": ("pickle pyd", pickle.loads),
    "tensor": ("pt", lambda data: tessera.load(io.BytesIO(data))),
}


def basichandlers(extension, data):
    """Text, numbers, JSON, pickles, and files of torch.save (weights only); None for other extensions.

    Pickles run the code that their author put into them: leave this handler out for files of strangers.
    """
    for extensions, decode in _BASIC.values():
        if extension in extensions.split():
            return decode(data)
    return None


_IMAGES = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm")


class _ImageHandler:
    """Decodes images with the package Pillow. The spec's parts: "l" (grey), "rgb" or "rgba"; after it "8" for bytes
    instead of floats in 0 ... 1; before it "torch" (channels, height, width), "pil" or nothing (an array).
    """

    def __init__(self, imagespec):
        self.spec = imagespec.lower()
        kind = self.spec.removeprefix("torch").removeprefix("pil")
        self.mode, self.as_bytes = kind.removesuffix("8"), kind.endswith("8")
        if self.mode not in ("l", "rgb", "rgba") and self.spec != "pil":
            raise AssertionError(f"unknown image specification: {imagespec}")

    def __call__(self, extension, data):
        if extension.lower() not in _IMAGES:
            return None
        try:
            from PIL import Image
        except ImportError as error:
            raise ModuleNotFoundError("imagehandler() needs the package Pillow: pip install pillow") from error
        image = Image.open(io.BytesIO(data))
        image.load()
        image = image.convert((self.mode or "rgb").upper())
        if self.spec.startswith("pil"):
            return image
        import numpy

        array = numpy.asarray(image)
        array = array[:, :, None] if self.spec.startswith("torch") and array.ndim == 2 else array
        array = array if self.as_bytes else array.astype("float32") / 255
        if not self.spec.startswith("torch"):
            return array
        return tessera.from_numpy(array.transpose(2, 0, 1).copy())


def imagehandler(imagespec):
    """A handler of images, see above. AssertionError for another specification."""
    return _ImageHandler(imagespec)


class _MatHandler:
    def __init__(self, **options):
        self.options = options

    def __call__(self, extension, data):
        if extension != "mat":
            return None
        try:
            from scipy.io import loadmat
        except ImportError as error:
            raise ModuleNotFoundError("mathandler() needs the package scipy: pip install scipy") from error
        return loadmat(io.BytesIO(data), **self.options)


def mathandler(**loadmat_kwargs):
    """A handler of .mat files, which scipy.io.loadmat reads with these options."""
    return _MatHandler(**loadmat_kwargs)


class Decoder:
    """Decodes the data of (name, data), or of all keys of a dict, by the first handler that knows them."""

    def __init__(self, *handler, key_fn=extension_extract_fn):
        self.handlers, self.key_fn = list(handler), key_fn

    def add_handler(self, *handler):
        """Adds handlers behind those that are there."""
        self.handlers.extend(handler)

    def decode1(self, key, data):
        """What the first handler makes of the data; the data themselves, read from a file, if there is none."""
        if not data:
            return data
        if hasattr(data, "read"):
            stream, data = data, data.read()
            stream.close()
        for handler in self.handlers:
            result = handler(key, data)
            if result is not None:
                return result
        return data

    def __call__(self, data):
        if isinstance(data, dict):
            return {name: self._decode(name, value) for name, value in data.items()}
        name, value = data
        return name, self._decode(name, value)

    def _decode(self, name, value):
        if isinstance(value, (bytes, bytearray)) or hasattr(value, "read"):
            return self.decode1(self.key_fn(name), value)
        return value
