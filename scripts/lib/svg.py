# SPDX-License-Identifier: Apache-2.0
"""The little SVG that the charts need: elements as strings."""

import re
from html import escape


def element(name, content="", **attributes):
    """attributes: `_` stands for `-`, a trailing `_` is dropped (class_)."""
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(v)}"' for key, v in attributes.items())
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(content, **attributes):
    return element("text", escape(str(content)), **attributes)


def hint(content):
    """What a browser shows over the element that this is put into."""
    return element("title", escape(content))


def group(parts, label):
    """Parts that belong together; `label` is what a screen reader says."""
    return element("g", "".join(parts), role="group", aria_label=label)


def figure(width, height, parts, label):
    """A drawing that scales with the page; `label` is what a screen reader says."""
    return element("svg", hint(label) + "".join(parts), viewBox=f"0 0 {width} {height}", role="img",
                   xmlns="http://www.w3.org/2000/svg")


def alone(drawing, style):
    """A figure as a file of its own, with its style, on the page's colour."""
    width, height = re.search(r'viewBox="0 0 (\d+) (\d+)"', drawing).groups()
    opening, inner = re.match(r"(<svg[^>]*)>(.*)$", drawing, re.DOTALL).groups()
    paper = element("rect", width=width, height=height, rx=10, class_="paper")
    return f'{opening} width="{width}" height="{height}">{element("style", style)}{paper}{inner}\n'


def legend(entries, x, y):
    """(label, class) side by side. Classes of lines are shown as lines, those of rings as rings, all others as boxes."""
    for label, name in entries:
        if name.startswith(("curve", "limit", "range")):
            yield element("line", x1=x - 4, x2=x + 17, y1=y - 4, y2=y - 4, stroke_width=2.5, class_=name)
        elif name.startswith("printed"):
            yield element("circle", cx=x + 6.5, cy=y - 4.5, r=4, class_=name)
        else:
            yield element("rect", x=x, y=y - 11, width=13, height=13, rx=3, class_=name)
        yield text(label, x=x + 22, y=y)
        x += 44 + 7.6 * len(label)


def _value(value):
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))
