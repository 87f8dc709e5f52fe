// SPDX-License-Identifier: Apache-2.0
/// Exchanges among the ranks of a job: sums, bytes, machines.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/gather_bytes.hpp"
#include "comm/launch/machines.hpp"
#include "comm/store/presence.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {
namespace {

/// Host memory that the streams of every device can use.
class Bytes {
 public:
  Bytes(device::Device& device, std::int64_t count)
      : memory_{device.allocate_host(std::max(count, std::int64_t{1}))}, count_{count} {}
  [[nodiscard]] std::byte* data() const noexcept { return memory_->data(); }
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<char const*>(memory_->data()), static_cast<std::size_t>(count_)};
  }

 private:
  std::unique_ptr<device::Memory> memory_;
  std::int64_t count_;
};

std::vector<std::string> gather_bytes(Job& job, std::string_view bytes, std::optional<int> root) {
  auto const device = job.make_device();
  return comm::gather_bytes({job.communicator(), *device, device->compute(), "gather"}, bytes, root);
}

void expect_root(Job const& job, char const* call, int root) {
  ZEROTH_EXPECTS(root >= 0 && root < job.world(),
                 fmt::format("Job::{}(): root is {}; allowed are 0 to {}", call, root, job.world() - 1));
}

}  // namespace

void Job::sum(std::span<double> values) {
  auto const device = make_device();
  auto const count = values.size();
  auto const memory =
      device->allocate_host(static_cast<std::int64_t>(static_cast<std::size_t>(world()) * count * sizeof(double)));
  std::span const all{reinterpret_cast<double*>(memory->data()), static_cast<std::size_t>(world()) * count};
  auto const mine = all.subspan(static_cast<std::size_t>(rank()) * count, count);
  std::copy(values.begin(), values.end(), mine.begin());
  auto& stream = device->compute();
  communicator().all_gather(stream, {"sum", "metrics"}, mine.data(), all.data(), std::ssize(values), Dtype::fp64);
  stream.synchronize();
  std::copy_n(all.begin(), count, values.begin());
  for (std::size_t i = count; i < all.size(); ++i) {
    values[i % count] += all[i];
  }
}

std::string Job::broadcast(std::string_view bytes, int root) {
  expect_root(*this, "broadcast", root);
  auto const device = make_device();
  auto& stream = device->compute();
  Bytes const length{*device, sizeof(std::int64_t)};
  auto count = std::ssize(bytes);
  std::memcpy(length.data(), &count, sizeof count);
  communicator().broadcast(stream, {"broadcast", "length"}, length.data(), length.data(), 1, Dtype::int64, root);
  stream.synchronize();
  std::memcpy(&count, length.data(), sizeof count);
  Bytes const all{*device, count};
  if (rank() == root) {
    std::ranges::copy(std::as_bytes(std::span{bytes}), all.data());
  }
  communicator().broadcast(stream, {"broadcast", "bytes"}, all.data(), all.data(), count, Dtype::byte, root);
  stream.synchronize();
  return std::string{all.text()};
}

std::vector<std::string> Job::gather(std::string_view bytes, int root) {
  expect_root(*this, "gather", root);
  return gather_bytes(*this, bytes, root);
}

std::vector<std::string> Job::all_gather(std::string_view bytes) { return gather_bytes(*this, bytes, std::nullopt); }

Job::Machine Job::machine() { return comm::machine_among(all_gather(comm::machine_id()), rank()); }

Job Job::split_by_machine(std::string const& name) { return split(machine().index, rank(), name); }

}  // namespace zeroth
