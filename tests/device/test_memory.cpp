// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::device {
namespace {

using Catch::Contains;

TEST_CASE("categories have the names and order of MemoryBytes") {
  MemoryBytes bytes{1, 2, 3, 4, 5};
  std::vector<std::string> names;
  std::vector<std::int64_t> values;
  for (Category const category : categories) {
    names.emplace_back(name_of(category));
    values.push_back(bytes_in(bytes, category));
  }
  CHECK(names == std::vector<std::string>{"parameters", "gradients", "optimizer", "slots", "scratch"});
  CHECK(values == std::vector<std::int64_t>{1, 2, 3, 4, 5});
  bytes_in(bytes, Category::slots) = 40;
  CHECK(bytes.slots == 40);
  CHECK(bytes.total() == 51);
}

TEST_CASE("the ledger keeps live and peak bytes by category") {
  Ledger ledger;
  ledger.add(Category::slots, 100);
  ledger.add(Category::gradients, 7);
  ledger.remove(Category::slots, 60);
  ledger.add(Category::slots, 20);
  CHECK(ledger.live() == MemoryBytes{0, 7, 0, 60, 0});
  CHECK(ledger.peak() == MemoryBytes{0, 7, 0, 100, 0});
  ledger.add(Category::slots, 50);
  CHECK(ledger.peak().slots == 110);
}

TEST_CASE("memory is zero, aligned to a page, writable to its last byte, and in the ledger while it lives") {
  auto const device = make_cpu_device();
  CHECK(device->name() == "cpu");
  for (std::int64_t const bytes : {std::int64_t{1}, std::int64_t{4095}, std::int64_t{4097}, std::int64_t{3'000'001}}) {
    auto const memory = device->allocate(Category::optimizer, bytes);
    CHECK(memory->bytes() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 4096 == 0);
    CHECK(std::all_of(memory->data(), memory->data() + bytes, [](std::byte value) { return value == std::byte{0}; }));
    std::memset(memory->data(), 0xff, static_cast<std::size_t>(bytes));
    CHECK(device->ledger().live() == MemoryBytes{0, 0, bytes, 0, 0});
  }
  CHECK(device->ledger().live() == MemoryBytes{});
  CHECK(device->ledger().peak() == MemoryBytes{0, 0, 3'000'001, 0, 0});
}

TEST_CASE("an allocation of no bytes is valid") {
  auto const device = make_cpu_device();
  auto const memory = device->allocate(Category::scratch, 0);
  CHECK(memory->bytes() == 0);
  CHECK(device->ledger().peak() == MemoryBytes{});
}

TEST_CASE("a failed allocation names category and bytes, and leaves the ledger unchanged") {
  auto const device = make_cpu_device();
  std::int64_t const absurd = std::int64_t{1} << 60;
  CHECK_THROWS_AS(device->allocate(Category::gradients, absurd), SystemError);
  CHECK_THROWS_WITH(device->allocate(Category::gradients, absurd),
                    Contains("gradients") && Contains("1152921504606846976 bytes") && Contains("mmap"));
  CHECK_THROWS_AS(device->allocate(Category::slots, -1), ContractError);
  CHECK_THROWS_WITH(device->allocate(Category::slots, -1), Contains("slots") && Contains("-1"));
  CHECK(device->ledger().live() == MemoryBytes{});
  CHECK(device->ledger().peak() == MemoryBytes{});
}

TEST_CASE("a failed allocation of shared memory is the same error, before any of it is touched") {
  constexpr int promises_all = 1;
  int overcommit = promises_all;
  std::ifstream{"/proc/sys/vm/overcommit_memory"} >> overcommit;
  if (overcommit == promises_all) {
    WARN("skipped: this system refuses no memory before it is touched");
    return;
  }
  auto const device = make_cpu_device(CpuBuffers::registrable);
  constexpr std::int64_t more_than_any_machine = std::int64_t{1} << 45;
  CHECK_THROWS_WITH(device->allocate(Category::slots, more_than_any_machine),
                    Contains("refused 35184372088832 bytes for slots: Cannot allocate memory"));
  CHECK(device->ledger().live() == MemoryBytes{});
}

TEST_CASE("the file size limit applies to shared memory: the error names it, and no signal ends the process") {
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto const device = make_cpu_device(CpuBuffers::registrable);
  struct rlimit const little{4096, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
  std::string message;
  try {
    static_cast<void>(device->allocate(Category::slots, 8192));
  } catch (SystemError const& error) {
    message = error.what();
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK_THAT(message, Contains("refused 8192 bytes for slots: File too large (files of this process may have 4096 "
                               "bytes: ulimit -f)"));
}

}  // namespace
}  // namespace zeroth::device
