// SPDX-License-Identifier: Apache-2.0
/// Reads the elements of a parameter's state in a checkpoint, however it is divided into files and parts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <zeroth/checkpoint/file_reader.hpp>

namespace zeroth::tools {

/// Chunk size for reads, since parameters may be larger than memory.
inline constexpr std::int64_t elements_at_once = std::int64_t{1} << 20U;

/// Bytes of states in all files of a checkpoint, without headers and hashes.
[[nodiscard]] std::int64_t bytes_of_states(checkpoint::Contents const& contents) noexcept;

/// Refers to the reader and its record.
class SavedElements {
 public:
  /// Selects state `state` of Space::states, of the parameter that consists of `parts`.
  SavedElements(checkpoint::Reader& reader, std::span<checkpoint::Found const> parts, std::size_t state)
      : reader_{&reader}, parts_{parts.begin(), parts.end()}, state_{state} {}

  [[nodiscard]] checkpoint::SavedState const& state() const noexcept { return space().states[state_]; }
  [[nodiscard]] checkpoint::SavedParam const& param() const noexcept { return space().params[parts_.front().param]; }
  [[nodiscard]] Dtype dtype() const noexcept { return state().dtype; }
  [[nodiscard]] std::int64_t count() const noexcept { return param().whole_count(); }
  /// Reads elements [first, first + count) of the whole parameter into `buffer`, in their saved dtype. Throws
  /// SystemError, also for damage.
  [[nodiscard]] std::span<std::byte const> read(std::int64_t first, std::int64_t count,
                                                std::vector<std::byte>& buffer) {
    buffer.resize(static_cast<std::size_t>(count * bytes_of(dtype())));
    reader_->read(parts_, state_, first, buffer);
    return buffer;
  }

 private:
  [[nodiscard]] checkpoint::Space const& space() const noexcept {
    return reader_->record().contents.spaces[parts_.front().space];
  }

  checkpoint::Reader* reader_;
  std::vector<checkpoint::Found> parts_;
  std::size_t state_;
};

/// Element `i` of `elements`, which are fp32, bf16 or fp16.
[[nodiscard]] float value_at(std::span<std::byte const> elements, Dtype dtype, std::size_t i) noexcept;

}  // namespace zeroth::tools
