"""A drawing of boxes, arrows, bars and text as SVG, in the style of all pictures of the pages.

Colors follow the reader's light or dark theme. The drawing has a ground of its own, so that it
stays readable where only the page around it changes its theme.
"""

import html

FILLS = {
    "plain": ("ground", "teal"),
    "accent": ("mint", "teal"),
    "group": ("pale", "grey"),
    "gpu": ("pine", None),
    "memory": ("teal", None),
    "pmem": ("sage", None),
    "ssd": ("blue", None),
    "warm": ("coral", None),
    "muted": ("grey", None),
}
LIGHT = {
    "ground": "#ffffff",
    "pale": "#f5f7f7",
    "mint": "#e0f2f1",
    "ink": "#263238",
    "soft": "#5f6f78",
    "grey": "#8a9aa8",
    "teal": "#00897b",
    "pine": "#00574b",
    "sage": "#4f9d92",
    "blue": "#5b7fae",
    "coral": "#d9694a",
}
DARK = LIGHT | {
    "ground": "#1e2429",
    "pale": "#262e34",
    "mint": "#143c3a",
    "ink": "#e6ecef",
    "soft": "#a9b6be",
    "teal": "#1a9d8e",
    "pine": "#0f7466",
}
_STYLE = """svg { font: 15px system-ui, sans-serif }
text { fill: var(--ink) } .small { font-size: 13px } .soft { fill: var(--soft) }
.bold { font-weight: 600 } .on { fill: #ffffff }
.line { fill: none; stroke: var(--ink); stroke-width: 1.4 } .head { fill: var(--ink) }
.dashed { stroke-dasharray: 5 4 }"""
_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0 L8 4 L0 8 z" class="head"/></marker></defs>'
)


class Drawing:
    """Collects shapes, and writes them as one SVG of `width` x `height` pixels."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self._shapes = []
        self._used = {"ground"}

    def box(self, x, y, width, height, *lines, kind="plain", small=False):
        """A box with centred lines of text, of which the first is bold unless all are small."""
        fill, stroke = FILLS[kind]
        dashed = " dashed" if kind == "group" else ""
        border = f' style="stroke: var(--{stroke}); stroke-width: 1.4"' if stroke else ""
        self._shapes.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" '
            f'class="fill-{fill}{dashed}"{border}/>'
        )
        self._used |= {fill, stroke or fill}
        top = y + 24 if kind == "group" else y + height / 2 + 5 - 9 * (len(lines) - 1)
        for place, line in enumerate(lines):
            styles = ["small"] if small or place else ["bold"]
            if not stroke:
                styles.append("on")
            self.text(x + width / 2, top + 18 * place, line, *styles, anchor="middle")

    def text(self, x, y, line, *styles, anchor="start"):
        """A line of text; styles are `small`, `soft`, `bold` and `on` (on a filled box)."""
        classes = f' class="{" ".join(styles)}"' if styles else ""
        where = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self._shapes.append(f'<text x="{x:g}" y="{y:g}"{where}{classes}>{html.escape(line)}</text>')

    def bar(self, x, y, width, height, kind):
        """A filled bar without text."""
        (fill, _) = FILLS[kind]
        self._used.add(fill)
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{max(width, 1):g}" height="{height:g}" '
            f'class="fill-{fill}"/>'
        )

    def arrow(self, *points, dashed=False, head=True):
        """A line through points, with an arrow at its end."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        classes = "line dashed" if dashed else "line"
        end = ' marker-end="url(#head)"' if head else ""
        self._shapes.append(f'<path d="M{path}" class="{classes}"{end}/>')

    def curve(self, points, color):
        """A thick line through points, in one of the named colors."""
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self._used.add(color)
        self._shapes.append(
            f'<path d="M{path}" fill="none" style="stroke: var(--{color}); stroke-width: 2.2"/>'
        )

    def svg(self):
        """Returns the text of the file."""
        names = sorted(self._used | {"ink", "soft"})
        light, dark = (
            ":root { " + "; ".join(f"--{name}: {theme[name]}" for name in names) + " }"
            for theme in (LIGHT, DARK)
        )
        fills = [f".fill-{name} {{ fill: var(--{name}) }}" for name in sorted(self._used)]
        size = f"0 0 {self.width} {self.height}"
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img">',
                f"<title>{html.escape(self.title)}</title>",
                f"<style>{_STYLE}",
                light,
                f"@media (prefers-color-scheme: dark) {{ {dark} }}",
                *fills,
                "</style>",
                _HEAD,
                f'<rect width="{self.width}" height="{self.height}" rx="10" class="fill-ground"/>',
                *self._shapes,
                "</svg>\n",
            ]
        )
