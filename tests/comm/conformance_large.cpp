// SPDX-License-Identifier: Apache-2.0
/// Counts beyond 2^31.
#include <fmt/format.h>
#include <sys/mman.h>

#include "comm/conformance_parts.hpp"
#include "comm/elements.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm::conformance {
namespace {

constexpr std::int64_t large = (std::int64_t{1} << 31) + 4097;
Label const label{"test", "large"};

/// Pages that cost nothing until they are touched.
class Pages {
 public:
  explicit Pages(std::int64_t bytes) : bytes_{static_cast<std::size_t>(bytes)} {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) {
      throw SystemError{fmt::format("mmap refused {} bytes", bytes)};
    }
  }
  Pages(Pages const&) = delete;
  Pages& operator=(Pages const&) = delete;
  ~Pages() { munmap(data_, bytes_); }
  [[nodiscard]] std::uint8_t* data() const noexcept { return static_cast<std::uint8_t*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

/// Indices that a count truncated to 31 or 32 bits would miss, and both ends.
constexpr std::int64_t probes[] = {0, 1, 4095, 65537, (1LL << 30) + 5, (1LL << 31) - 1, 1LL << 31, large - 1};

std::uint8_t value(int rank, std::int64_t index) {
  return static_cast<std::uint8_t>(pattern(Dtype::byte, rank, index));
}

std::string check_all_reduce(Rank& rank) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  Part part{rank.communicator, 0, rank.communicator.rank(), "large", large};
  Pages const data{large};
  for (auto const at : probes) {
    data.data()[at] = value(rank.communicator.rank(), at);
  }
  part.communicator().all_reduce(*stream, label, data.data(), data.data(), large, Dtype::byte);
  stream->synchronize();
  for (auto const at : probes) {
    std::uint8_t sum = 0;
    for (int each = 0; each < rank.communicator.world(); ++each) {
      sum = static_cast<std::uint8_t>(sum + value(each, at));
    }
    if (data.data()[at] != sum) {
      return fmt::format("element {} is {} instead of {}", at, data.data()[at], sum);
    }
  }
  return {};
}

/// A single block exceeds 2^31.
std::string check_broadcast_and_messages(Rank& rank) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto& communicator = rank.communicator;
  int const last = communicator.world() - 1;
  Pages const data{large};
  for (auto const at : probes) {
    data.data()[at] = communicator.rank() == 0 ? value(0, at) : std::uint8_t{0};
  }
  communicator.broadcast(*stream, label, data.data(), data.data(), large, Dtype::byte, 0);
  stream->synchronize();
  std::string problem;
  for (auto const at : probes) {
    problem =
        first_of(problem, data.data()[at] == value(0, at) ? "" : fmt::format("broadcast: element {} is wrong", at));
    data.data()[at] = communicator.rank() == last ? value(1, at) : std::uint8_t{0};
  }
  Collective const send{Operation::send, data.data(), nullptr, large, Dtype::byte, 0};
  Collective const receive{Operation::receive, nullptr, data.data(), large, Dtype::byte, last};
  if (last > 0 && (communicator.rank() == 0 || communicator.rank() == last)) {
    communicator.submit(*stream, label, {communicator.rank() == 0 ? &receive : &send, 1});
    stream->synchronize();
    for (auto const at : probes) {
      problem =
          first_of(problem, data.data()[at] == value(1, at) ? "" : fmt::format("receive: element {} is wrong", at));
    }
  }
  return problem;
}

/// Small blocks together exceed 2^31.
std::string check_all_gather(Rank& rank) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  std::int64_t const count = large / world / 4 + 1;  // int32 elements
  Pages const pages{world * count * 4};
  auto* const data = reinterpret_cast<std::int32_t*>(pages.data());
  data[me * count] = me + 1;
  data[me * count + count - 1] = me + 1000;
  communicator.all_gather(*stream, label, data + me * count, data, count, Dtype::int32);
  stream->synchronize();
  for (int each = 0; each < world; ++each) {
    if (data[each * count] != each + 1 || data[each * count + count - 1] != each + 1000) {
      return fmt::format("block {} is wrong", each);
    }
  }
  return {};
}

}  // namespace

std::vector<Case> large_cases() {
  return {{"all_reduce of more than 2^31 elements", check_all_reduce},
          {"broadcast, send and receive of more than 2^31 elements", check_broadcast_and_messages},
          {"all_gather of more than 2^31 bytes", check_all_gather}};
}

}  // namespace zeroth::comm::conformance
