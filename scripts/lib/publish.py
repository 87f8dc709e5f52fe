"""What the kept measurements make: blocks of the README, pictures, a page. Written, or compared with what is there."""

import os
from html import escape

from lib import demo, markdown, page, peers, savings, step_time

SECTIONS = (demo, step_time, peers, savings)


def present(measured):
    """(sections that have all their files, with their data; a sentence for each that has not)."""
    found, left_out = [], []
    for section in SECTIONS:
        missing = [measured / source for source in section.SOURCES if not (measured / source).is_file()]
        if missing:
            left_out.append(f"{section.NAME} is left out: no file {', '.join(map(str, missing))}; "
                            f"scripts/record.sh {section.NAME} makes it")
        else:
            found.append((section, section.read(measured)))
    return found, left_out


def claims(found):
    return [claim for section, data in found for claim in section.claims(data)]


def as_html(found, title):
    parts = [f"<h2>{escape(section.TITLE)}</h2>\n{section.as_html(data)}" for section, data in found]
    return page.whole(title, "".join(parts))


def files(found, readme, pictures):
    """{path: text that it should hold, or None if it should not be there}."""
    wanted = {pictures / name: None for section in SECTIONS for name in section.PICTURES}
    for section, data in found:
        wanted.update({pictures / name: text for name, text in section.pictures(data).items()})
    if readme:
        folder = os.path.relpath(pictures, readme.parent)
        blocks = {section: section.as_markdown(data, folder) + _again(section) for section, data in found}
        text = readme.read_text(encoding="utf-8")
        for section in SECTIONS:
            text = markdown.replaced(text, section.NAME, blocks.get(section, ""))
        wanted[readme] = text
    return wanted


def _again(section):
    return f"\n`scripts/record.sh {section.NAME}` makes this again.\n"


def differences(wanted):
    """The paths that do not hold what they should."""
    return [path for path, text in wanted.items()
            if (path.read_text(encoding="utf-8") if path.exists() else None) != text]


def write(wanted):
    for path, text in wanted.items():
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif path.exists():
            path.unlink()  # its figures are gone
