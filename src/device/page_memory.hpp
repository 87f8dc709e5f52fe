// SPDX-License-Identifier: Apache-2.0
/// Pages straight from the system: zeroed, aligned, and returned immediately when freed.
#pragma once
#include <cstdint>

#include "zeroth/device/device.hpp"
#include "zeroth/device/memory.hpp"

namespace zeroth::device {

enum class Pages : std::uint8_t {
  all,      ///< The system refuses if it could not grant all of it at once.
  touched,  ///< Most pages are never touched.
  shared,   ///< Allocated at once, in an unnamed file that other processes may map.
};

class PageMemory final : public Memory {
 public:
  /// Throws SystemError naming category and bytes if the system refuses.
  PageMemory(Ledger& ledger, Category category, std::int64_t bytes, Pages pages = Pages::all);
  ~PageMemory() override;

  [[nodiscard]] bool registrable() const noexcept override { return file_ >= 0; }
  [[nodiscard]] int file() const noexcept { return file_; }  ///< The descriptor of shared pages; otherwise -1.

 private:
  Ledger& ledger_;
  Category category_;
  int file_ = -1;
};

}  // namespace zeroth::device
