// SPDX-License-Identifier: Apache-2.0
/// What a stage file says that is not wrong, and not done either.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace zeroth::config {

/// What a note is about.
enum class NoteKind : std::uint8_t {
  no_effect,  ///< A key of DeepSpeed's that changes nothing here, and why.
  unknown,    ///< A key that neither DeepSpeed nor Zeroth knows, where DeepSpeed ignores such keys.
  assumed,    ///< What the file does not say, or says oddly, and what comes of it.
};

/// One of them. zeroth.strict makes it an error.
struct Note {
  NoteKind kind = NoteKind::no_effect;  ///< See there.
  std::string path;                     ///< "zero_optimization.sub_group_size".
  int line = 0;                         ///< From 1; 0 where the file does not have it.
  std::string text;                     ///< The value, and why it is without effect, or what is done.
};

/// In the order of the file, then what was assumed.
using Notes = std::vector<Note>;

/// A value that the file leaves to the program, and that nobody has given.
struct OpenValue {
  std::string path;  ///< "optimizer.params.lr".
  int line = 0;      ///< Of the "auto", from 1; 0 where the file has no such key.
  std::string text;  ///< What is allowed there.
};

}  // namespace zeroth::config
