// SPDX-License-Identifier: Apache-2.0
#include "comm/conformance.hpp"

#include <exception>

#include "comm/conformance_parts.hpp"

namespace zeroth::comm::conformance {

std::string problem_of(Case const& each, Rank& rank) noexcept {
  try {
    return each.run(rank);
  } catch (std::exception const& error) {
    return std::string{"threw: "} + error.what();
  }
}

std::string problems_of(std::vector<Case> const& cases, Rank& rank) {
  std::string all;
  for (auto const& each : cases) {
    if (auto const problem = problem_of(each, rank); !problem.empty()) {
      all += each.name + ": " + problem + "\n";
    }
  }
  return all;
}

std::vector<Case> conformance_cases() {
  std::vector<Case> all;
  for (auto const& part : {operation_cases(), reduction_cases(), adjoint_cases(), message_cases(), uneven_cases(),
                           transaction_cases(), split_cases(), group_cases(), contract_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Part::Part(Communicator& whole, int color, int key, std::string const& name, std::int64_t count)
    : communicator_{whole.split(color, key, name)} {
  if (exists()) {
    staging_.resize(static_cast<std::size_t>(
        staging_bytes(communicator_->transport(), communicator_->world(), Dtype::fp64, count)));
    communicator_->set_staging(staging_);
  }
}

std::string error_of(device::Stream& stream) {
  try {
    stream.synchronize();
    return {};
  } catch (std::exception const& error) {
    return error.what();
  }
}

}  // namespace zeroth::comm::conformance
