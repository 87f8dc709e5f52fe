# SPDX-License-Identifier: Apache-2.0
"""The format of kept measurements: JSON with a line for each key, and one for each entry of a list of records."""

import json


def text_of(record):
    lines = []
    for key, value in record.items():
        if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
            written = "[\n" + ",\n".join(json.dumps(entry) for entry in value) + "\n]"
        else:
            written = json.dumps(value)
        lines.append(f"{json.dumps(key)}: {written}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
