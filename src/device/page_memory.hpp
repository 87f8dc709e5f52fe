// SPDX-License-Identifier: Apache-2.0
/// Pages straight from the system: zero, aligned, and given back at once.
#pragma once
#include <cstdint>

#include "zeroth/device/device.hpp"
#include "zeroth/device/memory.hpp"

namespace zeroth::device {

enum class Pages : std::uint8_t {
  all,      ///< The system refuses what it could not all have at once.
  touched,  ///< Most are never touched.
  shared,   ///< Taken at once; they are those of a file without a name, which other processes may map.
};

class PageMemory final : public Memory {
 public:
  /// Throws SystemError naming category and bytes if the system refuses.
  PageMemory(Ledger& ledger, Category category, std::int64_t bytes, Pages pages = Pages::all);
  ~PageMemory() override;

  [[nodiscard]] bool registrable() const noexcept override { return file_ >= 0; }
  [[nodiscard]] int file() const noexcept { return file_; }  ///< Of shared pages, its descriptor; otherwise -1.

 private:
  Ledger& ledger_;
  Category category_;
  int file_ = -1;
};

}  // namespace zeroth::device
