# SPDX-License-Identifier: Apache-2.0
"""Colours and fonts of drawings and pages, for light and dark backgrounds. Drawings refer to them by class."""

STAGES = ("ink", "parameters", "gradients", "optimizer")  # the colours of stages 0 to 3

_LIGHT = {"page": "#ffffff", "card": "#f6f7f9", "ink": "#1b1f24", "soft": "#59636e", "line": "#d9dde2",
          "parameters": "#2f6db3", "gradients": "#c2571a", "optimizer": "#1b7f67", "slots": "#8e4ba8",
          "scratch": "#68717c", "good": "#1a7f37", "bad": "#cf222e"}
_DARK = {"page": "#14171c", "card": "#1c2128", "ink": "#e6eaef", "soft": "#9aa5b1", "line": "#333b45",
         "parameters": "#4f8fd9", "gradients": "#d9743a", "optimizer": "#2f9e83", "slots": "#ab6cc4",
         "scratch": "#87919d", "good": "#4cc26a", "bad": "#ff6b6b"}
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif'


def _colours(named):
    return " ".join(f"--{name}: {colour};" for name, colour in named.items())


def _filled(name, colour):
    return f"rect.{name} {{ fill: var(--{colour}); stroke: var(--{colour}); }}\n"


DRAWING = f"""
:root {{ color-scheme: light dark; {_colours(_LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_colours(_DARK)} }} }}
svg {{ font: 13px {_FONT}; }}
svg text {{ fill: var(--ink); }} svg .axis, svg .soft {{ fill: var(--soft); }} svg .strong {{ font-weight: 600; }}
svg .bad {{ fill: var(--bad); }} svg .small {{ font-size: 11.5px; }} svg .heading {{ font-weight: 600; font-size: 15px; }}
svg .inside.measured {{ fill: #ffffff; font-size: 12px; }} svg .inside.planned {{ font-size: 12px; }}
.paper {{ fill: var(--page); }}
.grid {{ stroke: var(--line); stroke-width: 1; }} .limit {{ stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 2 3; }}
.range {{ stroke: var(--ink); stroke-width: 1.5; }}
.curve {{ fill: none; stroke-linejoin: round; stroke-linecap: round; }}
.held {{ stroke-dasharray: 5 4; stroke-width: 1.5; }} .printed {{ fill: var(--page); stroke-width: 1.8; }}
.planned {{ fill-opacity: 0.22; stroke-width: 1; }} text.planned {{ fill-opacity: 1; stroke: none; }}
"""
DRAWING += "".join(_filled(name, name) for name in ("parameters", "gradients", "optimizer", "slots", "scratch"))
DRAWING += _filled("compute", "parameters") + _filled("exposed", "gradients")
DRAWING += _filled("zeroth", "parameters") + _filled("peer", "scratch")
DRAWING += "".join(f".curve.run{i} {{ stroke: var(--{colour}); }}\n"
                   for i, colour in enumerate(("parameters", "gradients", "optimizer", "ink", "slots", "scratch")))
DRAWING += "".join(f".stage{i} {{ stroke: var(--{colour}); }}\n" for i, colour in enumerate(STAGES))

PAGE = DRAWING + f"""
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; max-width: 1040px; padding: 40px 24px 64px; background: var(--page); color: var(--ink);
  font: 16px/1.55 {_FONT}; }}
h1 {{ font-size: 30px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.01em; }}
h2 {{ font-size: 23px; margin: 56px 0 4px; }} h3 {{ font-size: 18px; margin: 36px 0 4px; }}
p {{ margin: 4px 0 14px; }} .soft, p.note {{ color: var(--soft); }} p.note {{ font-size: 14px; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 14px; margin: 26px 0 18px; }}
.card {{ background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 18px; }}
.card b {{ display: block; font-size: 26px; line-height: 1.25; letter-spacing: -0.01em; }}
.card span {{ color: var(--soft); font-size: 14px; display: block; }}
ul.claims {{ list-style: none; padding: 0; margin: 0; }}
ul.claims li::before {{ content: "\\2713"; color: var(--good); font-weight: 700; margin-right: 10px; }}
ul.claims li.failed::before {{ content: "\\2717"; color: var(--bad); }} ul.claims li.failed {{ color: var(--bad); }}
.scroll {{ overflow-x: auto; }}
.scroll svg {{ display: block; width: 100%; min-width: 620px; height: auto; overflow: visible; }}
table {{ border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; margin-top: 10px; }}
th, td {{ padding: 5px 10px; text-align: right; white-space: nowrap; }} th {{ color: var(--soft); font-weight: 600; }}
th:first-child, td:first-child, .names2 th:nth-child(2), .names2 td:nth-child(2) {{ text-align: left; }}
.names3 :is(th, td):nth-child(-n+3) {{ text-align: left; }}
td:first-child {{ font-weight: 600; }}
tr.planned td {{ border-top: 1px solid var(--line); color: var(--soft); }}
tr.planned td:first-child {{ color: var(--ink); }}
"""
