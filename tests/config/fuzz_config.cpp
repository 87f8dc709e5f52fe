// SPDX-License-Identifier: Apache-2.0
/// libFuzzer's entry point: any exception that leaves it is a finding.
#include <cstddef>
#include <cstdint>
#include <string>

#include "config/fuzz_one.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t bytes) {
  std::string const text{data, data + bytes};
  (void)zeroth::testing::fuzz_one(text);
  return 0;
}
