"""A plot of ratios as an SVG file: one row a group, one dot a workload, on a logarithmic axis."""

import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, ROW, TOP = 1000, 150, 70, 34, 50
LOW, HIGH = 1 / 16, 64  # what lies outside is drawn at the edge
STYLE = (
    "text { font: 13px sans-serif; fill: #222 } .small { font-size: 11px; fill: #666 } .grid { stroke: #ddd } .one { "
    "stroke: #444 }"
)


def position(ratio):
    share = (math.log2(min(max(ratio, LOW), HIGH)) - math.log2(LOW)) / (math.log2(HIGH) - math.log2(LOW))
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def axis(height):
    parts, tick = [], LOW
    while tick <= HIGH:
        x = position(tick)
        label = f"{tick:g}" if tick >= 1 else f"1/{1 / tick:g}"
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP - 12}" x2="{x:.1f}" y2="{height - 20}" '
            f'class="{"one" if tick == 1 else "grid"}"/>'
        )
        parts.append(f'<text x="{x:.1f}" y="{TOP - 18}" text-anchor="middle" class="small">{label}</text>')
        tick *= 2
    return parts


def write(path, title, groups):
    """`groups`: name -> (geometric mean, [(workload, ratio), ...])."""
    height = TOP + ROW * len(groups) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"><style>{STYLE}</style><rect '
        f'width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="18">{escape(title)}</text>',
    ] + axis(height)
    for row, (name, (mean, points)) in enumerate(groups.items()):
        y = TOP + ROW * row + ROW / 2
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        for k, (workload, ratio) in enumerate(points):
            shade = "#1b7837" if ratio >= 1 else "#b2182b"
            title = f"<title>{escape(workload)}: {ratio:.2f}</title>"
            parts.append(
                f'<circle cx="{position(ratio):.1f}" cy="{y + (k % 5 - 2) * 4:.1f}" r="3" fill="{shade}" '
                f'fill-opacity="0.45">{title}</circle>'
            )
        parts.append(
            f'<line x1="{position(mean):.1f}" y1="{y - 13:.1f}" x2="{position(mean):.1f}" y2="{y + 13:.1f}" '
            f'stroke="black" stroke-width="2.5"/>'
        )
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{y + 4:.1f}">{mean:.2f}</text>')
    with open(path, "w") as file:
        file.write("\n".join(parts) + "\n</svg>\n")
