# SPDX-License-Identifier: Apache-2.0
"""Makes blocks of documents, pictures and a page from the kept measurements. Writes them, or compares them with the
files."""

import os
from html import escape

from lib import checkpoints, demo, gpu_figures, markdown, page, peers, peers_lead, savings, stages, step_time, tensor
from lib.records import ReportError

SECTIONS = (demo, stages, gpu_figures, step_time, peers, peers_lead, tensor, checkpoints, savings)


def part(section):
    """The part of scripts/record.sh that measures for it."""
    return getattr(section, "PART", section.NAME)


def present(measured):
    """(sections that have all their files, with their data; a sentence for each other section)."""
    found, left_out = [], []
    for section in SECTIONS:
        missing = [measured / source for source in section.SOURCES if not any(measured.glob(source))]
        if missing:
            left_out.append(f"{section.NAME} is left out: no file {', '.join(map(str, missing))}; "
                            f"scripts/record.sh {part(section)} makes it")
        else:
            found.append((section, section.read(measured)))
    return found, left_out


def claims(found):
    return [claim for section, data in found for claim in section.claims(data)]


def as_html(found, title):
    parts = [f"<h2>{escape(section.TITLE)}</h2>\n{section.as_html(data)}" for section, data in found]
    return page.whole(title, "".join(parts))


def files(found, documents, pictures):
    """{path: text that the file should hold, or None if it should not exist}. Each section's marks are in one
    document."""
    wanted = {path: None for section in SECTIONS for name in section.PICTURES for path in pictures.glob(name)}
    for section, data in found:
        wanted.update({pictures / name: text for name, text in section.pictures(data).items()})
    texts = {document: document.read_text(encoding="utf-8") for document in documents}
    measured = dict(found)
    for section in SECTIONS if texts else ():
        document = _document_of(section, texts)
        block = ""
        if section in measured:
            folder = os.path.relpath(pictures, document.parent)
            again = _again(section) if getattr(section, "SAYS_HOW", True) else ""
            block = section.as_markdown(measured[section], folder) + again
        texts[document] = markdown.replaced(texts[document], section.NAME, block)
    return {**wanted, **texts}


def _document_of(section, texts):
    having = [path for path, text in texts.items() if any(mark in text for mark in markdown.marks(section.NAME))]
    if len(having) != 1:
        begin, end = markdown.marks(section.NAME)
        raise ReportError(f'one of {", ".join(map(str, texts))} must hold "{begin}" and "{end}" once, in this order; '
                          f"{len(having)} have such marks")
    return having[0]


def _again(section):
    return f"\n`scripts/record.sh {part(section)}` makes this again.\n"


def differences(wanted):
    """The paths whose files differ from what they should be."""
    return [path for path, text in wanted.items()
            if (path.read_text(encoding="utf-8") if path.exists() else None) != text]


def write(wanted):
    for path, text in wanted.items():
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif path.exists():
            path.unlink()  # its measurements were removed
