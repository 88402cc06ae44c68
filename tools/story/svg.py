"""Small SVG pictures for documents, light or dark as their reader likes it. Everything is text, rectangles and lines."""
import html

STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.t{font-size:15px;font-weight:600}.q{fill:#6e7781}.s{font-size:11px}"
    ".m{font:11px ui-monospace,monospace}.e{text-anchor:end}.c{text-anchor:middle}.g{stroke:#8884;stroke-width:1}"
    ".bg{fill:#fff}.k0{fill:#d8dee4}.k1{fill:#2f6fde}.k2{fill:#d9822b}.k3{fill:#2a9d5c}.k4{fill:#b0419a}.k5{fill:#c93c37}.k6{fill:#1b9aaa}.k7{fill:#8a6d3b}.k8{fill:#6b4fbb}"
    ".b0{fill:#8c959f33}.b1{fill:#2f6fde33}.b2{fill:#d9822b33}.b3{fill:#2a9d5c33}.b4{fill:#b0419a33}"
    ".l1{stroke:#2f6fde}.l2{stroke:#d9822b}.l3{stroke:#2a9d5c}.l5{stroke:#c93c37}.l{fill:none;stroke-width:2.5}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.q{fill:#8b949e}.bg{fill:#0d1117}.k0{fill:#30363d}}")


class Picture:
    def __init__(self, width, height, title):
        self.width, self.height, self.parts = width, height, []
        self.text(16, 24, title, "t")

    def text(self, x, y, text, kind=""):
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{self._class(kind)}>{html.escape(str(text), quote=False)}</text>')

    def rect(self, x, y, width, height, kind, radius=0):
        corner = f' rx="{radius}"' if radius else ""
        self.parts.append(f'<rect x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}"{corner}{self._class(kind)}/>')

    def line(self, x1, y1, x2, y2, kind="g"):
        self.parts.append(f'<path d="M{x1:.4g} {y1:.4g}L{x2:.4g} {y2:.4g}"{self._class(kind)}/>')

    def path(self, points, kind):
        self.parts.append(f'<path d="M{"L".join(f"{x:.4g} {y:.4g}" for x, y in points)}" class="l {kind}"/>')

    def legend(self, x, y, entries):
        """entries: (kind, text); the column behind the last."""
        for kind, text in entries:
            self.rect(x, y - 10, 11, 11, kind, 2)
            self.text(x + 16, y, text, "s")
            x += 30 + 6.2 * len(text)
        return x

    @staticmethod
    def _class(kind):
        return f' class="{kind}"' if kind else ""

    def __str__(self):
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}">'
        back = f'<rect width="{self.width}" height="{self.height}" rx="8" class="bg"/>'
        return "\n".join([head, f"<style>{STYLE}</style>", back, *self.parts, "</svg>", ""])


class Axes:
    """Two linear axes with round steps; maps values to places."""

    def __init__(self, picture, box, x_most, y_most, labels):
        self.picture, self.box, self.x_most, self.y_most = picture, box, x_most, y_most
        left, top, right, bottom = box
        for step in self._steps(y_most):
            y = self.at(0, step)[1]
            picture.line(left, y, right, y)
            picture.text(left - 6, y + 4, f"{step:,g}", "s q e")
        for step in self._steps(x_most):
            picture.text(self.at(step, 0)[0], bottom + 16, f"{step:,g}", "s q c")
        picture.text((left + right) / 2, bottom + 34, labels[0], "s c")
        picture.text(left - 6, top - 10, labels[1], "s e" if len(labels[1]) < 9 else "s")

    @staticmethod
    def _steps(most):
        size = 10 ** len(str(int(most))) / 10 if most >= 1 else 0.1
        step = next(size * part for part in (0.1, 0.2, 0.25, 0.5, 1, 2) if most / (size * part) <= 6)
        return [i * step for i in range(int(most / step) + 1)]

    def at(self, x, y):
        left, top, right, bottom = self.box
        return left + (right - left) * x / self.x_most, bottom - (bottom - top) * y / self.y_most
