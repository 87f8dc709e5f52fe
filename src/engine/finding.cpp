// SPDX-License-Identifier: Apache-2.0
#include "engine/finding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "comm/rank_error.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

Finding describe_failure() {
  auto const text = comm::describe_current_exception().bare;
  try {
    throw;
  } catch (ContractError const&) {
    return {Finding::Kind::contract_error, text};
  } catch (...) {
    return {Finding::Kind::system_error, text};
  }
}

std::vector<Finding> share(Finding const& mine, std::string_view purpose, comm::Communicator& communicator,
                           device::Device& device, device::Stream& stream) {
  auto const world = static_cast<std::size_t>(communicator.world());
  auto const rank = static_cast<std::size_t>(communicator.rank());
  std::vector<Finding> all(world);
  auto const lengths_memory = device.allocate_host(static_cast<std::int64_t>(world * sizeof(std::int64_t)));
  std::span const lengths{reinterpret_cast<std::int64_t*>(lengths_memory->data()), world};
  lengths[rank] = mine.kind == Finding::Kind::nothing ? 0 : static_cast<std::int64_t>(1 + mine.text.size());
  communicator.all_gather(stream, {purpose, ""}, &lengths[rank], lengths.data(), 1, Dtype::int64);
  stream.synchronize();
  auto const longest = static_cast<std::size_t>(*std::ranges::max_element(lengths));
  if (longest == 0) {
    return all;
  }
  auto const memory = device.allocate_host(static_cast<std::int64_t>(world * longest));
  auto const said = [&](std::size_t of) { return reinterpret_cast<char*>(memory->data()) + of * longest; };
  *said(rank) = static_cast<char>(mine.kind);
  std::ranges::copy(mine.text.substr(0, longest - 1), said(rank) + 1);
  communicator.all_gather(stream, {purpose, ""}, said(rank), said(0), static_cast<std::int64_t>(longest), Dtype::byte);
  stream.synchronize();
  for (std::size_t of = 0; of < world; ++of) {
    if (lengths[of] > 0) {
      all[of] = {static_cast<Finding::Kind>(*said(of)), {said(of) + 1, static_cast<std::size_t>(lengths[of]) - 1}};
    }
  }
  return all;
}

void throw_if_failed(std::string_view what, std::vector<Finding> const& all) {
  auto const first = std::ranges::find_if(all, &Finding::failed);
  if (first == all.end()) {
    return;
  }
  auto const others = std::count_if(first + 1, all.end(), [](auto const& each) { return each.failed(); });
  bool const all_say_it = std::ranges::all_of(all, [&](auto const& each) { return each.text == first->text; });
  auto const who = all_say_it ? std::string{}
                              : fmt::format("rank {}{}: ", first - all.begin(),
                                            others > 0 ? fmt::format(" (and {} more)", others) : std::string{});
  auto const text = fmt::format("{}: {}{}", what, who, first->text);
  if (first->kind == Finding::Kind::contract_error) {
    throw ContractError{text};
  }
  throw SystemError{text};
}

}  // namespace zeroth::engine
