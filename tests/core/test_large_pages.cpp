// SPDX-License-Identifier: Apache-2.0
/// Memory that processes share, in large pages: it behaves as it would without them.
#include "core/large_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "support/catch.hpp"

namespace zeroth {
namespace {

constexpr std::int64_t large_page = 2 << 20;

/// A file without a name, mapped twice.
class Shared {
 public:
  explicit Shared(std::int64_t bytes) : file_{::memfd_create("zeroth test", MFD_CLOEXEC)} {
    REQUIRE(::ftruncate(file_, bytes) == 0);
    for (auto& each : mapped_) {
      void* const at = map_shared(file_, bytes, PROT_READ | PROT_WRITE);
      REQUIRE(at != MAP_FAILED);
      each = {static_cast<std::byte*>(at), static_cast<std::size_t>(bytes)};
    }
  }
  Shared(Shared const&) = delete;
  Shared& operator=(Shared const&) = delete;
  ~Shared() {
    for (auto const& each : mapped_) {
      ::munmap(each.data(), each.size());
    }
    ::close(file_);
  }
  [[nodiscard]] std::span<std::byte> operator[](std::size_t who) const { return mapped_[who]; }

 private:
  int file_;
  std::span<std::byte> mapped_[2];
};

/// The line `what` of /proc/self/smaps_rollup, in bytes.
std::int64_t memory_that_is(std::string const& what) {
  std::ifstream rollup{"/proc/self/smaps_rollup"};
  for (std::string word; rollup >> word;) {
    if (std::int64_t kib = 0; word == what + ":" && rollup >> kib) {
      return kib * 1024;
    }
  }
  return 0;
}

std::int64_t mappings() {
  std::ifstream maps{"/proc/self/maps"};
  return std::count(std::istreambuf_iterator<char>{maps}, {}, '\n');
}

}  // namespace

TEST_CASE("shared memory in large pages starts as zero, and both sides see each other's writes") {
  for (std::int64_t const bytes : {std::int64_t{1}, std::int64_t{4096}, large_page - 1, large_page, large_page + 1,
                                   3 * large_page - 4096, 5 * large_page + 12345}) {
    INFO(bytes << " bytes");
    Shared const shared{bytes};
    take_large_pages(shared[0]);
    REQUIRE(std::all_of(shared[1].begin(), shared[1].end(), [](std::byte each) { return each == std::byte{}; }));
    std::fill(shared[0].begin(), shared[0].end(), std::byte{7});
    REQUIRE(std::all_of(shared[1].begin(), shared[1].end(), [](std::byte each) { return each == std::byte{7}; }));
    shared[1].back() = std::byte{9};
    REQUIRE(shared[0].back() == std::byte{9});
  }
}

TEST_CASE("both mappings of shared memory use large pages, if the system gives any") {
  Shared const shared{8 * large_page};
  auto const before = memory_that_is("ShmemPmdMapped");
  std::fill(shared[0].begin(), shared[0].end(), std::byte{1});
  errno = 0;
  constexpr int collapse = 25;
  if (::madvise(shared[0].data(), shared[0].size(), collapse) != 0 || memory_that_is("ShmemPmdMapped") == before) {
    WARN("this system gives shared memory no large pages");
    return;
  }
  Shared const taken{8 * large_page};
  auto const begin = memory_that_is("ShmemPmdMapped");
  take_large_pages(taken[0]);
  CHECK(memory_that_is("ShmemPmdMapped") - begin == 8 * large_page);
  std::byte sum{};
  for (auto const each : taken[1]) {
    sum |= each;
  }
  CHECK(sum == std::byte{});
  CHECK(memory_that_is("ShmemPmdMapped") - begin == 16 * large_page);
}

TEST_CASE("mapping shared memory leaks nothing, and reports why it fails") {
  { Shared const first{3 * large_page + 1}; }
  auto const before = mappings();
  for (int i = 0; i < 10; ++i) {
    Shared const again{3 * large_page + 1};
  }
  CHECK(mappings() <= before + 1);
  errno = 0;
  CHECK(map_shared(-1, 3 * large_page, PROT_READ) == MAP_FAILED);
  CHECK(errno == EBADF);
  CHECK(mappings() <= before + 1);
}

}  // namespace zeroth
