"""The figure of train.py: loss curves, confusion matrices and misread digits, drawn into a PNG file with nothing but
the standard library.
"""

import math
import struct
import zlib
from typing import NamedTuple

# 5 x 7 letters: a character per row, its five bits from left to right in base 32. Descending letters have nine rows,
# the others seven.
_GLYPHS = {
    "0": "ehhlhhe",
    "1": "4c4444e",
    "2": "eh1248v",
    "3": "v2421he",
    "4": "26aiv22",
    "5": "vgu11he",
    "6": "68guhhe",
    "7": "v124888",
    "8": "ehhehhe",
    "9": "ehhf12c",
    "a": "00e1fhf",
    "b": "ggmphhu",
    "c": "00eggge",
    "d": "11djhhf",
    "e": "00ehvge",
    "f": "69s8888",
    "g": "00fhhhf1e",
    "h": "ggmphhh",
    "i": "40c444e",
    "j": "20622ic",
    "k": "ggikoki",
    "l": "c44444e",
    "m": "00qllll",
    "n": "00mphhh",
    "o": "00ehhhe",
    "p": "00uhhhugg",
    "q": "00fhhhf11",
    "r": "00mpggg",
    "s": "00fge1u",
    "t": "88s8896",
    "u": "00hhhjd",
    "v": "00hhha4",
    "w": "00hllla",
    "x": "00ha4ah",
    "y": "00hhhhf1e",
    "z": "00v248v",
    "C": "ehggghe",
    "L": "ggggggv",
    "M": "hrllhhh",
    "N": "hhpljhh",
    "P": "uhhuggg",
    ".": "00000cc",
    ",": "0000c48",
    ":": "0cc0cc0",
    "%": "op248j3",
    "-": "000v000",
    "/": "01248g0",
    "(": "2488842",
    ")": "8422248",
    ">": "8421248",
    " ": "0000000",
}

INK, SOFT, FAINT, PAPER = (38, 43, 51), (120, 128, 140), (226, 230, 236), (255, 255, 255)
BLUE, ORANGE, RED = (33, 102, 172), (224, 130, 20), (200, 50, 47)


class Panel(NamedTuple):
    """What is drawn of one model: its name, [(training loss, test loss)] by epoch, the test images (8 x 8 lists in [0,
    1]), labels, predictions.
    """

    title: str
    history: list
    images: list
    labels: list
    predicted: list


class Canvas:
    """An RGB picture with a few ways to draw on it."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.rows = [bytearray(bytes(PAPER) * width) for _ in range(height)]

    def rect(self, x, y, w, h, color):
        for row in self.rows[max(y, 0) : max(y + h, 0)]:
            row[3 * x : 3 * (x + w)] = bytes(color) * w

    def frame(self, x, y, w, h, color):
        for args in ((x, y, w, 1), (x, y + h - 1, w, 1), (x, y, 1, h), (x + w - 1, y, 1, h)):
            self.rect(*args, color)

    def blend(self, x, y, color, alpha):
        if 0 <= x < self.width and 0 <= y < self.height and alpha > 0:
            row = self.rows[y]
            for c in range(3):
                row[3 * x + c] = round(row[3 * x + c] * (1 - alpha) + color[c] * alpha)

    def curve(self, points, color, thickness=2.2):
        """A smooth-edged line through the points: a pixel is covered by how far it is from the nearest segment."""
        cover = {}
        for (ax, ay), (bx, by) in zip(points, points[1:]):
            dx, dy = bx - ax, by - ay
            length = dx * dx + dy * dy or 1.0
            for y in range(int(min(ay, by)) - 2, int(max(ay, by)) + 4):
                for x in range(int(min(ax, bx)) - 2, int(max(ax, bx)) + 4):
                    t = min(1.0, max(0.0, ((x - ax) * dx + (y - ay) * dy) / length))
                    alpha = thickness / 2 + 0.5 - math.hypot(x - ax - t * dx, y - ay - t * dy)
                    if alpha > cover.get((x, y), 0):
                        cover[x, y] = min(1.0, alpha)
        for (x, y), alpha in cover.items():
            self.blend(x, y, color, alpha)

    def text(self, x, y, words, color=INK, scale=2, align=0):
        """Words whose top is at y; align: 0 left, 0.5 centred, 1 right of x."""
        x -= round(align * (6 * len(words) - 1) * scale)
        for letter in words:
            for dy, row in enumerate(_GLYPHS[letter]):
                for dx in range(5):
                    if int(row, 32) >> (4 - dx) & 1:
                        self.rect(x + dx * scale, y + dy * scale, scale, scale, color)
            x += 6 * scale

    def save(self, path):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        pixels = zlib.compress(b"".join(b"\0" + row for row in self.rows), 9)
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        with open(path, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def _mix(a, b, t):
    return tuple(round(u + (v - u) * t) for u, v in zip(a, b))


def _loss_curves(canvas, x, y, w, h, history):
    """Both losses on a logarithmic axis."""
    values = [max(v, 1e-6) for pair in history for v in pair if math.isfinite(v)]
    low, high = math.floor(math.log10(min(values, default=0.1))), math.ceil(math.log10(max(values, default=1.0)))
    high = max(high, low + 1)

    def at(epoch, value):
        value = math.log10(max(value, 1e-6)) if math.isfinite(value) else high
        return x + w * (epoch / max(len(history) - 1, 1)), y + h * (high - value) / (high - low)

    for power in range(low, high + 1):
        level = round(at(0, 10.0**power)[1])
        canvas.rect(x, level, w, 1, FAINT)
        canvas.text(x - 8, level - 7, f"{10.0**power:.{max(-power, 0)}f}", SOFT, align=1)
    canvas.rect(x, y, 1, h, SOFT)
    canvas.rect(x, y + h, w + 1, 1, SOFT)
    for epoch in sorted({0, len(history) // 2 - 1 if len(history) > 2 else 0, len(history) - 1}):
        canvas.text(round(at(epoch, 1.0)[0]), y + h + 8, str(epoch + 1), SOFT, align=0.5)
    canvas.text(x + w // 2, y + h + 30, "epoch", SOFT, align=0.5)
    for k, (label, color) in enumerate((("training loss", BLUE), ("test loss", ORANGE))):
        points = [at(epoch, pair[k]) for epoch, pair in enumerate(history)]
        canvas.curve(points if len(points) > 1 else points * 2, color)
        canvas.rect(x + w - 190, y + 8 + 22 * k, 20, 4, color)
        canvas.text(x + w - 162, y + 3 + 22 * k, label)


def _confusion(canvas, x, y, cell, labels, predicted):
    """Rows: the true digit; columns: what was read."""
    counts = [[0] * 10 for _ in range(10)]
    for a, b in zip(labels, predicted):
        counts[a][b] += 1
    for a in range(10):
        canvas.text(x - 12, y + a * cell + cell // 2 - 7, str(a), SOFT, align=1)
        canvas.text(x + a * cell + cell // 2, y + 10 * cell + 8, str(a), SOFT, align=0.5)
        total = max(sum(counts[a]), 1)
        for b in range(10):
            n = counts[a][b]
            share = n / total
            full = BLUE if a == b else RED
            color = _mix(
                (246, 248, 250), full, 0 if n == 0 else (0.25 + 0.75 * share if a == b else min(1.0, 0.35 + 2 * share))
            )
            canvas.rect(x + b * cell, y + a * cell, cell - 2, cell - 2, color)
            if n:
                canvas.text(
                    x + b * cell + cell // 2 - 1,
                    y + a * cell + cell // 2 - 8,
                    str(n),
                    PAPER if a == b or share > 0.1 else INK,
                    align=0.5,
                )
    canvas.text(x + 5 * cell, y + 10 * cell + 30, "read as", SOFT, align=0.5)


def _misread(canvas, x, y, panel, limit=12):
    """The first misread images, each with its true digit and what was read."""
    wrong = [i for i, (a, b) in enumerate(zip(panel.labels, panel.predicted)) if a != b]
    if not wrong:
        canvas.text(x, y + 20, "none", SOFT)
    for k, i in enumerate(wrong[:limit]):
        left, top = x + k % 4 * 92, y + k // 4 * 112
        for row in range(8):
            for column in range(8):
                canvas.rect(left + 9 * column, top + 9 * row, 9, 9, _mix(PAPER, INK, panel.images[i][row][column]))
        canvas.frame(left - 1, top - 1, 74, 74, FAINT)
        canvas.text(left + 36, top + 80, f"{panel.labels[i]}->{panel.predicted[i]}", RED, align=0.5)
    return len(wrong)


def draw(panels, path):
    """Writes one row of three pictures for each model."""
    height = 460
    canvas = Canvas(1400, height * len(panels))
    for k, panel in enumerate(panels):
        top = k * height
        if k:
            canvas.rect(40, top, 1320, 1, FAINT)
        right = sum(a == b for a, b in zip(panel.labels, panel.predicted))
        count = len(panel.labels)
        canvas.text(40, top + 26, panel.title, scale=3)
        canvas.text(110, top + 33, f"{100 * right / count:.2f} % of {count} test digits read correctly")
        canvas.text(110, top + 72, "loss", SOFT)
        _loss_curves(canvas, 110, top + 100, 360, 280, panel.history)
        canvas.text(570, top + 72, "true digit, and how it was read", SOFT)
        _confusion(canvas, 570, top + 96, 31, panel.labels, panel.predicted)
        canvas.text(985, top + 72, f"misread: {count - right}", SOFT)
        _misread(canvas, 985, top + 98, panel)
    canvas.save(path)
