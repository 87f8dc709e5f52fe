# SPDX-License-Identifier: Apache-2.0
"""A self-contained HTML file: no script, no external font, no network."""

from html import escape

from lib import style


def whole(title, body):
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{style.PAGE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}</body>
</html>
"""


def claims(sentences):
    """A list of claims, each (holds, sentence)."""
    items = "".join(f'<li{"" if holds else " class=failed"}>{escape(sentence)}</li>' for holds, sentence in sentences)
    return f'<ul class="claims">{items}</ul>\n'


def note(sentence):
    return f'<p class="note">{escape(sentence)}</p>\n'


def chart(drawing):
    return f'<div class="scroll">{drawing}</div>\n'


def table(header, rows, names=1, class_of=lambda row: ""):
    """A table whose first `names` columns are words, and the others figures."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = "".join(f'<tr class="{class_of(row)}">' + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
                    for row in rows)
    return (f'<div class="scroll"><table class="names{names}"><thead><tr>{head}</tr></thead>'
            f"<tbody>{lines}</tbody></table></div>\n")
