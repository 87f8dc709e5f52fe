// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "zeroth/device/memory.hpp"

namespace zeroth::device {

std::string_view name_of(Category category) noexcept {
  switch (category) {
    case Category::parameters: return "parameters";
    case Category::gradients: return "gradients";
    case Category::optimizer: return "optimizer";
    case Category::slots: return "slots";
    case Category::scratch: return "scratch";
  }
  return "?";
}

std::int64_t& bytes_in(MemoryBytes& bytes, Category category) noexcept {
  switch (category) {
    case Category::parameters: return bytes.parameters;
    case Category::gradients: return bytes.gradients;
    case Category::optimizer: return bytes.optimizer;
    case Category::slots: return bytes.slots;
    case Category::scratch: break;
  }
  return bytes.scratch;
}

void Ledger::add(Category category, std::int64_t bytes) noexcept {
  auto const live = bytes_in(live_, category) += bytes;
  auto& peak = bytes_in(peak_, category);
  peak = std::max(peak, live);
}

void Ledger::remove(Category category, std::int64_t bytes) noexcept { bytes_in(live_, category) -= bytes; }

}  // namespace zeroth::device
