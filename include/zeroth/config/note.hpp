// SPDX-License-Identifier: Apache-2.0
/// Notes on a stage file: settings that are valid but not applied, and values that are left open.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace zeroth::config {

/// The kind of a note.
enum class NoteKind : std::uint8_t {
  no_effect,  ///< A key of DeepSpeed's that has no effect here.
  unknown,    ///< A key unknown to DeepSpeed and Zeroth, in a section where DeepSpeed ignores such keys.
  assumed,    ///< A missing or unusual value, and the assumption made for it.
};

/// One note. zeroth.strict turns it into an error.
struct Note {
  NoteKind kind = NoteKind::no_effect;  ///< The kind.
  std::string path;                     ///< "zero_optimization.sub_group_size".
  int line = 0;                         ///< From 1; 0 if the key is not in the file.
  std::string text;                     ///< The value, and why it has no effect or what is done instead.
};

/// In file order, then the assumptions.
using Notes = std::vector<Note>;

/// A value that the file leaves open and that was not given.
struct OpenValue {
  std::string path;  ///< "optimizer.params.lr".
  int line = 0;      ///< Line of the "auto", from 1; 0 if the key is not in the file.
  std::string text;  ///< The allowed values.
};

}  // namespace zeroth::config
