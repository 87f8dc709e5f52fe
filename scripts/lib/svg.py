"""The little SVG that the charts need: elements as strings, and axes with round numbers."""

import math
import re
from html import escape


def element(name, content="", **attributes):
    """attributes: `_` stands for `-`, a trailing `_` is dropped (class_)."""
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(v)}"' for key, v in attributes.items())
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(content, **attributes):
    return element("text", escape(str(content)), **attributes)


def group(parts, **attributes):
    return element("g", "".join(parts), **attributes)


def figure(width, height, parts, label):
    """A drawing that scales with the page; `label` is what a screen reader says."""
    return element("svg", element("title", escape(label)) + "".join(parts), viewBox=f"0 0 {width} {height}", role="img",
                   xmlns="http://www.w3.org/2000/svg")


def alone(drawing, style, legend):
    """A figure as a file of its own: on the page's colours, below a legend of (label, class)."""
    width, height = (int(v) for v in re.search(r'viewBox="0 0 (\d+) (\d+)"', drawing).groups())
    top, x = 34, 20
    parts = [element("style", style), element("rect", width=width, height=height + top, rx=10, class_="paper")]
    for label, name in legend:
        parts.append(element("rect", x=x, y=13, width=13, height=13, rx=3, class_=name))
        parts.append(text(label, x=x + 20, y=24))
        x += 46 + 8 * len(label)
    inner = re.sub(r"^<svg[^>]*>|</svg>$", "", drawing)
    parts.append(element("g", inner, transform=f"translate(0 {top})"))
    return element("svg", "".join(parts), viewBox=f"0 0 {width} {height + top}", width=width, height=height + top,
                   role="img", xmlns="http://www.w3.org/2000/svg") + "\n"


def ticks(low, high, wanted=6):
    """Round numbers from below `low` to at least `high`, about `wanted` of them."""
    span = (high - low) or abs(high) or 1.0
    raw = span / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]


def tick_text(value, step):
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6:  # 2.5, 0.25 ...
        decimals += 1
    return f"{value:,.{decimals}f}"


def _value(value):
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))
