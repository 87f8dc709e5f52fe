// SPDX-License-Identifier: Apache-2.0
/// The elements of a state of a parameter in a checkpoint, however many files they are in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <zeroth/checkpoint/file_reader.hpp>

namespace zeroth::tools {

/// Parameters may be larger than memory.
inline constexpr std::int64_t elements_at_once = std::int64_t{1} << 20U;

/// Of all files of a checkpoint, without what stands beside states.
[[nodiscard]] std::int64_t bytes_of_states(checkpoint::Contents const& contents) noexcept;

/// Refers to the reader and to its record.
class SavedElements {
 public:
  SavedElements(checkpoint::Reader& reader, checkpoint::Space const& space, checkpoint::SavedState const& state,
                checkpoint::SavedParam const& param)
      : reader_{&reader}, space_{&space}, state_{&state}, param_{&param} {}

  [[nodiscard]] checkpoint::SavedState const& state() const noexcept { return *state_; }
  [[nodiscard]] checkpoint::SavedParam const& param() const noexcept { return *param_; }
  [[nodiscard]] Dtype dtype() const noexcept { return state_->dtype; }
  [[nodiscard]] std::int64_t count() const noexcept { return param_->count; }
  /// Elements [first, first + count), as they are in the files, in `buffer`. Throws SystemError, also for damage.
  [[nodiscard]] std::span<std::byte const> read(std::int64_t first, std::int64_t count,
                                                std::vector<std::byte>& buffer) {
    buffer.resize(static_cast<std::size_t>(count * bytes_of(dtype())));
    reader_->read(*space_, *state_, param_->at + first, buffer);
    return buffer;
  }

 private:
  checkpoint::Reader* reader_;
  checkpoint::Space const* space_;
  checkpoint::SavedState const* state_;
  checkpoint::SavedParam const* param_;
};

/// Element `i` of `elements`, which are fp32, bf16 or fp16.
[[nodiscard]] float value_at(std::span<std::byte const> elements, Dtype dtype, std::size_t i) noexcept;

}  // namespace zeroth::tools
