"""Pictures: layouts of arrays, and files in memory (by the package PIL)."""

import io

import numpy


def _check_layout(given, layout, ndim):
    if len(layout) != len(set(layout)):
        raise ValueError(f"dataformats {layout!r} names a dimension twice")
    if given.ndim != len(layout) or ndim not in (None, given.ndim):
        raise ValueError(f"a tensor of shape {given.shape} has not the dimensions of dataformats {layout!r}")
    if set(layout) - set("NCHW"):
        raise ValueError(f"dataformats is made of the letters N, C, H and W, but is {layout!r}")


def channels_last(given, layout):
    """A picture, or several side by side, as an array [height, width, 1, 3 or 4].

    Args:
        given: an array.
        layout: the meaning of its dimensions: "CHW", "HWC", "HW", "WH", "NCHW", "NHWC" ...

    Raises: ValueError for dimensions that do not fit.
    """
    layout = layout.upper()
    _check_layout(given, layout, None)
    order = [layout.index(letter) for letter in "NHWC" if letter in layout]
    picture = given.transpose(order)
    if "C" not in layout:
        picture = picture[..., None]
    if picture.shape[-1] == 1:
        picture = numpy.repeat(picture, 3, -1)
    return grid(picture) if "N" in layout else picture


def grid(pictures, columns=8):
    """Pictures [n, height, width, channels] as one, in rows of `columns`."""
    n, height, width, channels = pictures.shape
    columns = max(1, min(n, columns))
    rows = -(-n // columns)
    sheet = numpy.zeros((rows * columns, height, width, channels), pictures.dtype)
    sheet[:n] = pictures
    sheet = sheet.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    return sheet.reshape(rows * height, columns * width, channels)


def as_bytes(picture):
    """Levels from 0 to 255 of a picture: uint8 as it is, floating values from 0 to 1."""
    if picture.dtype == numpy.uint8:
        return picture
    return numpy.clip(picture * 255.0, 0, 255).astype(numpy.uint8)


def png(picture, rescale=1):
    """(bytes of a PNG file, its height, its width, its channels) of an array [height, width, channels] of uint8."""
    from PIL import Image

    image = Image.fromarray(picture[..., 0] if picture.shape[-1] == 1 else picture)
    if rescale != 1:
        size = max(1, round(image.width * rescale)), max(1, round(image.height * rescale))
        image = image.resize(size, Image.Resampling.LANCZOS)
    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue(), image.height, image.width, picture.shape[-1]


def with_boxes(picture, boxes, labels):
    """A picture with frames [left, top, right, bottom] in pixels, and texts beside them."""
    from PIL import Image, ImageDraw

    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    for i, (left, top, right, bottom) in enumerate(boxes):
        x = sorted((float(left), float(right)))
        y = sorted((float(top), float(bottom)))
        draw.rectangle([x[0], y[0], x[1], y[1]], outline="red", width=2)
        if labels is not None:
            place = draw.textbbox((x[0], y[0]), labels[i])
            draw.rectangle(place, fill="red")
            draw.text((x[0], y[0]), labels[i], fill="white")
    return numpy.asarray(image)


def gif(frames, fps):
    """(bytes of an endless GIF file, height, width, channels) of frames [time, height, width, 1 or 3] of uint8."""
    from PIL import Image

    if frames.shape[-1] == 1:
        frames = numpy.repeat(frames, 3, -1)
    images = [Image.fromarray(frame) for frame in frames]
    out = io.BytesIO()
    images[0].save(
        out, format="GIF", save_all=True, append_images=images[1:], duration=max(1, round(1000 / fps)), loop=0
    )
    return out.getvalue(), *frames.shape[1:]


def frames(video):
    """Videos [n, time, channels, height, width] as one, side by side: [time, height, width, channels]."""
    n, time, channels, height, width = video.shape
    columns = 1
    while columns * columns < n:
        columns *= 2
    ordered = video.transpose(1, 0, 3, 4, 2)
    return numpy.stack([grid(ordered[t], columns) for t in range(time)]) if n else video.transpose(1, 3, 4, 2, 0)


def of_figures(figures, close):
    """A figure of matplotlib, or several of one size, as arrays [channels, height, width] or [n, ...] of uint8."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def drawn(figure):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        pixels = numpy.asarray(canvas.buffer_rgba())[..., :3].transpose(2, 0, 1).copy()
        if close:
            from matplotlib import pyplot

            pyplot.close(figure)
        return pixels

    return numpy.stack([drawn(figure) for figure in figures]) if isinstance(figures, list) else drawn(figures)
