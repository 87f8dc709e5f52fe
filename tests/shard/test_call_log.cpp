// SPDX-License-Identifier: Apache-2.0
#include "shard/call_log.hpp"

#include <array>
#include <vector>

#include "support/catch.hpp"

namespace zeroth::shard {
namespace {

using comm::Collective;
using comm::Operation;

Collective of(Operation operation, std::int64_t count, Dtype dtype) {
  return {.operation = operation, .count = count, .dtype = dtype};
}

TEST_CASE("bytes of collectives are those of all ranks together, and what a ring sends of them from each") {
  CallLog log;
  std::array const gather{of(Operation::all_gather, 100, Dtype::bf16), of(Operation::all_gather, 5, Dtype::fp32)};
  std::array const reduce{of(Operation::reduce_scatter, 100, Dtype::fp32)};
  std::array const sums{of(Operation::all_reduce, 12, Dtype::fp64)};
  log.add("gather", "first", gather, 4);
  log.add("reduce", "first", reduce, 4);
  log.add("decide", "", sums, 4);
  log.add("gather", "first", gather, 4);
  log.add("gather", "second", gather, 4);
  auto const entries = log.entries();
  REQUIRE(entries.size() == 4);
  CHECK(entries[0].what == "gather");
  CHECK(entries[0].unit == "first");
  CHECK(entries[0].operation == Operation::all_gather);
  CHECK(entries[0].count == 2);
  CHECK(entries[0].bytes == 2 * 4 * (100 * 2 + 5 * 4));
  CHECK(entries[0].sent == 2 * 3 * (100 * 2 + 5 * 4));  // three of four blocks
  CHECK(entries[1].count == 1);
  CHECK(entries[1].bytes == 4 * 100 * 4);
  CHECK(entries[1].sent == 3 * 100 * 4);
  CHECK(entries[2].bytes == 12 * 8);
  CHECK(entries[2].sent == 2 * 0.75 * 12 * 8);  // a reduce-scatter and an all-gather
  CHECK(entries[3].unit == "second");
  CHECK(entries[3].count == 1);
}

TEST_CASE("one rank sends nothing") {
  CallLog log;
  std::array const sums{of(Operation::all_reduce, 3, Dtype::fp32)};
  log.add("decide", "", sums, 1);
  CHECK(log.entries()[0].bytes == 12);
  CHECK(log.entries()[0].sent == 0);
}

}  // namespace
}  // namespace zeroth::shard
