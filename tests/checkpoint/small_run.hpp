// SPDX-License-Identifier: Apache-2.0
/// Runs a job of the small model whose ranks do what a test specifies, and collects their errors.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {

using SmallEngine = Engine<float>;

/// The error that `call` throws, without the rank prefix: "SystemError ...", "ContractError ..."; "" if none.
template <class F>
std::string error_of(F const& call) {
  auto const bare = [](std::exception const& error) { return std::string{error.what()}.substr(rank_prefix().size()); };
  try {
    call();
  } catch (ContractError const& error) {
    return "ContractError " + bare(error);
  } catch (SystemError const& error) {
    return "SystemError " + bare(error);
  }
  return {};
}

/// Runs `rank_main(engine, model, errors)` on each rank, and returns the errors noted by each rank. An exception on a
/// rank fails the test.
using RankMain = std::function<void(SmallEngine& engine, SmallModel const& small, std::vector<std::string>& errors)>;
inline std::vector<std::vector<std::string>> run_small(int world, Config const& config, RankMain const& rank_main) {
  std::vector<std::vector<std::string>> errors(static_cast<std::size_t>(world));
  auto const outcome = run_job(world, [&](Job& job) {
    SmallModel const small;
    SmallEngine engine{job, small.model, config};
    rank_main(engine, small, errors[static_cast<std::size_t>(job.rank())]);
  });
  REQUIRE(messages_of(outcome) == "");
  return errors;
}

}  // namespace zeroth::testing
