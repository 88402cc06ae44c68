"""Charts as SVG text, with nothing but the standard library: labelled lines, and bars of ratios."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 70, 150, 50, 55
COLOURS = ["#2f6fde", "#d9822b", "#2a9d5c", "#b0419a"]


def _ticks(low, high):
    return [10 ** e * m for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 2, 5) if low <= 10 ** e * m <= high]


def line_chart(title, x_label, y_label, series):
    """series: {label: [(x, y), …]}; both axes logarithmic."""
    xs = sorted({x for points in series.values() for x, _ in points})
    ys = [y for points in series.values() for _, y in points]
    low, high = min(ys) / 1.3, max(ys) * 1.3
    span_x = math.log(xs[-1] / xs[0]) or 1

    def at(x, y):
        return (LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / xs[0]) / span_x,
                HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(y / low) / math.log(high / low))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
           "<style>text{fill:#333}.grid{stroke:#ddd;stroke-width:1}</style>",
           f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff"/>',
           f'<text x="{LEFT}" y="26" font-size="16" font-weight="bold">{title}</text>']
    for y in _ticks(low, high):
        _, py = at(xs[0], y)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py:.1f}" y2="{py:.1f}"/>')
        out.append(f'<text x="{LEFT - 8}" y="{py + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in xs:
        px, _ = at(x, low)
        out.append(f'<line class="grid" x1="{px:.1f}" x2="{px:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        out.append(f'<text x="{px:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:g}</text>')
    for colour, (label, points) in zip(COLOURS, series.items()):
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in (at(x, y) for x, y in points))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        for x, y in points:
            px, py = at(x, y)
            out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{colour}"/>')
        px, py = at(*points[-1])
        out.append(f'<text x="{px + 10:.1f}" y="{py + 4:.1f}" style="fill:{colour}">{label}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{x_label}</text>')
    out.append(f'<text x="16" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" transform="rotate(-90 16 {(TOP + HEIGHT - BOTTOM) / 2})">{y_label}</text>')
    return "\n".join(out + ["</svg>", ""])


def ratio_bars(title, rows):
    """rows: [(label, ratio, note)], longest labels first in nobody's way; 1 is a line of its own."""
    left, top, step = 250, 56, 24
    height = top + step * len(rows) + 30
    longest = max(1.0, *(ratio for _, ratio, _ in rows))
    scale = (WIDTH - left - 150) / longest
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
           "<style>text{fill:#333}.grid{stroke:#999;stroke-width:1;stroke-dasharray:4 3}</style>",
           f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>',
           f'<text x="16" y="26" font-size="16" font-weight="bold">{title}</text>']
    for i, (label, ratio, note) in enumerate(rows):
        y = top + step * i
        colour = COLOURS[0] if ratio >= 1 else COLOURS[1]
        out.append(f'<text x="{left - 10}" y="{y + 13}" text-anchor="end">{label}</text>')
        out.append(f'<rect x="{left}" y="{y}" width="{ratio * scale:.1f}" height="{step - 7}" rx="2" fill="{colour}"/>')
        out.append(f'<text x="{left + ratio * scale + 6:.1f}" y="{y + 13}">{ratio:.2f}x <tspan style="fill:#888">{note}</tspan></text>')
    one = left + scale
    out.append(f'<line class="grid" x1="{one:.1f}" x2="{one:.1f}" y1="{top - 8}" y2="{height - 24}"/>')
    out.append(f'<text x="{one:.1f}" y="{height - 10}" text-anchor="middle">1x</text>')
    return "\n".join(out + ["</svg>", ""])
