# SPDX-License-Identifier: Apache-2.0
"""Reads measurements kept as JSON. Errors name the file, the line and the key."""

import json
import math


class ReportError(Exception):
    """A file is invalid. Names the file and, if they apply, the line and the key."""


def read_document(path):
    """The single object of a .json file."""
    text = _text(path)
    try:
        return Record(str(path), json.loads(text))
    except ValueError as error:
        raise ReportError(f"{path}: no JSON: {error}") from error


def read_lines(path):
    """The objects of a .jsonl file, one per line."""
    found = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        try:
            found.append(Record(f"{path}:{number}", json.loads(line)))
        except ValueError as error:
            raise ReportError(f"{path}:{number}: no JSON: {error}") from error
    if not found:
        raise ReportError(f"{path}: nothing was recorded")
    return found


def _text(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: no UTF-8: {error}") from error


class Record:
    """An object of a file. Each accessor returns a value of the kind that it is named after, or raises a
    ReportError."""

    def __init__(self, where, fields):
        if not isinstance(fields, dict):
            raise ReportError(f"{where}: is {_shown(fields)}; it must be an object")
        self.where, self.fields = where, fields

    def fail(self, problem):
        raise ReportError(f"{self.where}: {problem}")

    def number(self, key, above=-math.inf):
        """A finite number greater than `above`."""
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= above:
            self._refuse(key, value, "a number" + (f" above {above:g}" if math.isfinite(above) else ""))
        return value

    def amount(self, key):
        """A number of at least 0."""
        value = self.number(key)
        if value < 0:
            self._refuse(key, value, "a number of at least 0")
        return value

    def losses_and_peaks(self):
        """The fields `losses` and `peak_bytes` of a run: lists of one or more numbers, and peaks above 0."""
        found = {key: self.list(key) for key in ("losses", "peak_bytes")}
        for key, values in found.items():
            if not values or not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
                self.fail(f"{key} must be a list of one or more numbers")
        if min(found["peak_bytes"]) <= 0:
            self.fail(f"peak_bytes has {min(found['peak_bytes'])}; a peak is above 0")
        return found

    def count(self, key, least=0):
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self._refuse(key, value, f"a whole number of at least {least}")
        return value

    def text(self, key):
        value = self._value(key)
        if not isinstance(value, str):
            self._refuse(key, value, "text")
        return value

    def one_of(self, key, allowed):
        value = self._value(key)
        if isinstance(value, bool) or value not in allowed:
            self._refuse(key, value, " or ".join(json.dumps(word) for word in allowed))
        return value

    def list(self, key):
        value = self._value(key)
        if not isinstance(value, list):
            self._refuse(key, value, "a list")
        return value

    def interval(self, key):
        """Two numbers, the first not more than the second."""
        value = self.list(key)
        low, high = (Record(self.where, {key: end}).number(key) for end in value) if len(value) == 2 else (1, 0)
        if low > high:
            self._refuse(key, value, "two numbers, the smaller one first")
        return low, high

    def record(self, key):
        return Record(f"{self.where}: {key}", self._value(key))

    def records(self, key):
        return [Record(f"{self.where}: {key}[{index}]", fields) for index, fields in enumerate(self.list(key))]

    def __contains__(self, key):
        return key in self.fields

    def _value(self, key):
        if key not in self.fields:
            self.fail(f"{key} is missing")
        return self.fields[key]

    def _refuse(self, key, value, allowed):
        self.fail(f"{key} is {_shown(value)}; it must be {allowed}")


def _shown(value):
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
