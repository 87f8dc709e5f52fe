// SPDX-License-Identifier: Apache-2.0
#include "engine/call_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

constexpr std::uint64_t no_call = ~std::uint64_t{0};
constexpr std::size_t most_calls = std::size_t{1} << 14U;

std::string describe(std::uint64_t call, model::Description const& model) {
  if (call == no_call) {
    return "no further call";
  }
  auto const argument = static_cast<std::uint32_t>(call);
  auto const& unit = [&]() -> std::string const& { return model.units[static_cast<UnitId>(argument)].name; };
  auto const& param = [&]() -> std::string const& { return model.params[static_cast<ParamId>(argument)].name; };
  switch (static_cast<Verb>(call >> 32U)) {
    case Verb::forward: return fmt::format("forward of unit \"{}\"", unit());
    case Verb::backward: return fmt::format("backward of unit \"{}\"", unit());
    case Verb::backward_inputs: return fmt::format("backward_inputs of unit \"{}\"", unit());
    case Verb::backward_weights: return fmt::format("backward_weights of unit \"{}\"", unit());
    case Verb::pass_over: return fmt::format("skip of unit \"{}\" after its place in backward", unit());
    case Verb::evaluation: return fmt::format("forward of unit \"{}\" in an evaluation pass", unit());
    case Verb::begin_micro_step: return "the start of a micro-step";
    case Verb::begin_action: return fmt::format("the start of action {} of the pipeline's schedule", argument + 1);
    case Verb::begin_evaluation: return "the start of an evaluation pass";
    case Verb::load_weights: return "load_weights()";
    case Verb::swap_ema: return "swap_ema()";
    case Verb::save_weights: return "save_weights()";
    case Verb::save: return fmt::format("save() into a folder whose name has the hash {:08x}", argument);
    case Verb::save_with_rank_state:
      return fmt::format("save() with a rank_state into a folder whose name has the hash {:08x}", argument);
    case Verb::save_failure: return "Saving::failure() of a save that failed";
    case Verb::read: return fmt::format("read() of parameter \"{}\"", param());
    case Verb::write: return fmt::format("write() of parameter \"{}\"", param());
    case Verb::gradient_norm: return "gradient_norm()";
    case Verb::learning_rate_factors: return fmt::format("set_learning_rate_factors(), hash {:08x}", argument);
    case Verb::replay: return "StepGraph::replay()";
    case Verb::edit_gradients: return "edit_gradients()";
    case Verb::gradient_norm_of: return fmt::format("gradient_norm() of parameter \"{}\"", param());
    case Verb::add_metric: return fmt::format("add_metric() of a name with the hash {:08x}", argument);
    case Verb::learning_rate: return fmt::format("step() with a learning rate of {}", std::bit_cast<float>(argument));
  }
  return "?";
}

std::string describe(shard::TransactionLog::Entry const& entry, shard::Layout const& layout) {
  return fmt::format("{} of {} elements ({}{})", comm::name_of(entry.operation), entry.count, entry.what,
                     entry.unit ? fmt::format(" of unit \"{}\"", layout.flats()[*entry.unit].name) : std::string{});
}

}  // namespace

void CallLog::add(Verb verb, std::uint32_t argument) {
  auto const call = (std::uint64_t{static_cast<std::uint8_t>(verb)} << 32U) | argument;
  ++count_;
  if (calls_.size() < most_calls) {
    calls_.push_back(call);
  }
  hash_.add(call);
}

void CallLog::clear() noexcept {
  calls_.clear();
  count_ = settled_ = 0;
  hash_ = {};
}

void CallLog::settle() noexcept {
  calls_.clear();
  settled_ = count_;
}

void compare_call_logs(CallLog const& mine, std::int64_t step, model::Description const& model,
                       Exchange const& exchange) {
  constexpr std::string_view purpose = "call logs";
  auto const count = std::ssize(mine.calls());
  auto const counts = gather(std::span{&count, 1}, purpose, exchange);
  auto const longest = static_cast<std::size_t>(std::ranges::max(counts)) + 1;
  auto calls = mine.calls();
  calls.resize(longest, no_call);
  auto const all = gather(std::span<std::uint64_t const>{calls}, purpose, exchange);
  for (std::size_t call = 0; call < longest; ++call) {
    for (std::size_t other = 1; other < counts.size(); ++other) {
      auto const first = all[call];
      auto const second = all[other * longest + call];
      if (first != second) {
        throw PeerError{fmt::format(
            "ranks took different paths in step {}: as call {} of the step, rank {} made {}, rank {} made {}; all "
            "ranks must make the same calls in the same order (call skip(unit) for a unit that a rank does not use)",
            step, mine.settled() + static_cast<std::int64_t>(call) + 1, exchange.job_rank(0), describe(first, model),
            exchange.job_rank(other), describe(second, model))};
      }
    }
  }
}

void compare_transactions(std::span<shard::TransactionLog const> mine, std::int64_t step, shard::Layout const& layout,
                          Exchange const& exchange) {
  constexpr std::string_view purpose = "transactions";
  for (auto const& log : mine) {
    auto const count = log.count();
    auto const counts = gather(std::span{&count, 1}, purpose, exchange);
    auto const end = std::ranges::max(counts);
    auto const begin = std::max(std::int64_t{0}, end - static_cast<std::int64_t>(shard::TransactionLog::most_entries));
    std::vector<std::uint64_t> hashes;
    for (auto number = begin; number < end; ++number) {
      hashes.push_back(number < count ? log.entry(number).hash : no_call);
    }
    if (hashes.empty()) {
      continue;
    }
    auto const all = gather(std::span<std::uint64_t const>{hashes}, purpose, exchange);
    for (std::size_t at = 0; at < hashes.size(); ++at) {
      for (std::size_t other = 1; other < counts.size(); ++other) {
        if (all[at] == all[other * hashes.size() + at]) {
          continue;
        }
        auto const number = begin + static_cast<std::int64_t>(at);
        std::array<char, 160> text{};
        auto const own = number < count ? describe(log.entry(number), layout) : std::string{"nothing more"};
        std::ranges::copy(own.substr(0, text.size() - 1), text.begin());
        auto const texts = gather(std::span<char const>{text}, purpose, exchange);
        throw PeerError{fmt::format(
            "ranks diverged before the end of step {} although they made the same calls: as transaction {} on "
            "communicator '{}'{}, rank {} did {}, rank {} did {}; do not trust the states that they hold",
            step, number + 1, log.communicator().name(), at == 0 && begin > 0 ? ", or before it" : "",
            exchange.job_rank(0), texts.data(), exchange.job_rank(other), texts.data() + other * text.size())};
      }
    }
  }
}

}  // namespace zeroth::engine
