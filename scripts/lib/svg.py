# SPDX-License-Identifier: Apache-2.0
"""The parts of SVG that the charts need: elements as strings."""

import re
from html import escape


def element(name, content="", **attributes):
    """An element. In names of attributes `_` stands for `-`, and a trailing `_` is dropped (class_)."""
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(v)}"' for key, v in attributes.items())
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(content, **attributes):
    return element("text", escape(str(content)), **attributes)


def hint(content):
    """A tooltip for the element that contains it."""
    return element("title", escape(content))


def group(parts, label):
    """A group of elements; a screen reader reads `label`."""
    return element("g", "".join(parts), role="group", aria_label=label)


def figure(width, height, parts, label):
    """A drawing that scales with the page; a screen reader reads `label`."""
    return element("svg", hint(label) + "".join(parts), viewBox=f"0 0 {width} {height}", role="img",
                   xmlns="http://www.w3.org/2000/svg")


def alone(drawing, style):
    """A figure as a separate file, with its style and the page's colour as background."""
    width, height = re.search(r'viewBox="0 0 (\d+) (\d+)"', drawing).groups()
    opening, inner = re.match(r"(<svg[^>]*)>(.*)$", drawing, re.DOTALL).groups()
    paper = element("rect", width=width, height=height, rx=10, class_="paper")
    return f'{opening} width="{width}" height="{height}">{element("style", style)}{paper}{inner}\n'


def legend(entries, x, y):
    """A legend of (label, class) in a row. Line classes are shown as lines, ring classes as rings, all others as
    boxes."""
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
