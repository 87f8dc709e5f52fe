// SPDX-License-Identifier: Apache-2.0
/// Pages straight from the system: zero, aligned, and given back at once.
#pragma once
#include <cstdint>

#include "zeroth/device/device.hpp"
#include "zeroth/device/memory.hpp"

namespace zeroth::device {

/// May the system refuse pages that it could not all have at once, or are most never touched?
enum class Pages : bool { all, touched };

class PageMemory final : public Memory {
 public:
  /// Throws SystemError naming category and bytes if the system refuses.
  PageMemory(Ledger& ledger, Category category, std::int64_t bytes, Pages pages = Pages::all);
  ~PageMemory() override;

 private:
  Ledger& ledger_;
  Category category_;
};

}  // namespace zeroth::device
