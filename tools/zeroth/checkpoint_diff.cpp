// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_diff.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include <zeroth/checkpoint/file_reader.hpp>
#include <zeroth/engine/work_bar.hpp>
#include <zeroth/tool/config/changes.hpp>
#include <zeroth/tool/core/utf8.hpp>

#include "readable.hpp"
#include "saved_elements.hpp"

namespace zeroth::tools {
namespace {

using checkpoint::Reader;
using checkpoint::Record;
using checkpoint::SavedState;

constexpr std::int64_t most_values = 1000;  // maximum number of values listed

class Comparison {
 public:
  Comparison(Reader& ours, Reader& theirs, ProgramState program_state, CheckpointDifference& result)
      : ours_{ours},
        theirs_{theirs},
        program_state_{program_state},
        result_{result},
        bar_{"diff", bytes_of_states(ours.record().contents)} {}

  void run() {
    compare_positions(ours_.record(), theirs_.record());
    auto const ours = ours_.record().contents.by_name();
    auto const theirs = theirs_.record().contents.by_name();
    each_name(ours_, [&](std::string const& name) {
      if (auto const at = theirs.find(name); at.empty()) {
        add("parameter " + escaped(name), "is there", "is not");
      } else {
        compare_params(ours.find(name), at);
      }
    });
    each_name(theirs_, [&](std::string const& name) {
      if (ours.find(name).empty()) {
        add("parameter " + escaped(name), "is not there", "is");
      }
    });
  }

 private:
  using Parts = std::span<checkpoint::Found const>;

  /// Calls `use` for every parameter once, in the order of the files.
  template <class F>
  static void each_name(Reader const& reader, F const& use) {
    for (auto const& space : reader.record().contents.spaces) {
      for (auto const& param : space.params) {
        if (param.comes_first()) {
          use(param.name);
        }
      }
    }
  }
  void add(std::string what, std::string value, std::string other) {
    if (std::ssize(result_.values) < most_values) {
      result_.values.push_back({std::move(what), std::move(value), std::move(other)});
    } else {
      ++result_.values_left_out;
    }
  }
  void compare_texts(char const* what, std::string const& value, std::string const& other) {
    if (value != other) {
      add(what, value, other);
    }
  }

  void compare_positions(Record const& a, Record const& b) {
    auto const number = [&](char const* what, auto value, auto other) {
      compare_texts(what, fmt::format("{}", value), fmt::format("{}", other));
    };
    auto const order = [](Record const& record) {
      return !record.order              ? std::string{"not told"}
             : record.order->shuffled() ? fmt::format("{} samples, seed {}", record.order->size(), record.order->seed())
                                        : fmt::format("{} samples, in order", record.order->size());
    };
    auto const scale = [](Record const& record) {
      auto const& state = record.position.loss_scale;
      return !state ? std::string{"not dynamic"}
                    : fmt::format("{:g}, {} overflows to halve it, step {}, last overflow {}{}", state->scale,
                                  state->hysteresis_left, state->iteration, state->last_overflow,
                                  state->exhausted ? ", exhausted" : "");
    };
    number("step", a.position.step, b.position.step);
    number("updates", a.position.applied, b.position.applied);
    number("samples", a.position.samples, b.position.samples);
    compare_texts("data", order(a), order(b));
    compare_texts("loss scale", scale(a), scale(b));
    compare_texts("optimizer", escaped(a.optimizer), escaped(b.optimizer));
    compare_rank_states();
    number("seed of initial values", a.model_seed, b.model_seed);
    number("seed of stochastic rounding", a.rounding_seed, b.rounding_seed);
    if (program_state_ == ProgramState::counts && a.program_state != b.program_state) {
      auto const size = [](Record const& record) { return readable_bytes(std::ssize(record.program_state)); };
      add("program state", size(a), size(a) == size(b) ? "others of as many" : size(b));
    }
  }

  /// Compares file by file: the program alone knows which ranks' states belong together at another number of ranks.
  void compare_rank_states() {
    auto const& ours = ours_.record().contents.rank_states;
    auto const& theirs = theirs_.record().contents.rank_states;
    if (program_state_ == ProgramState::does_not_count || (ours.empty() && theirs.empty())) {
      return;
    }
    if (ours.size() != theirs.size()) {
      add("rank states", fmt::format("of {} ranks", ours.size()), fmt::format("of {}", theirs.size()));
      return;
    }
    for (std::size_t place = 0; place < ours.size(); ++place) {
      auto const number = static_cast<int>(place);
      if (ours[place] != theirs[place] || ours_.rank_state(number) != theirs_.rank_state(number)) {
        add(fmt::format("rank state of {}", checkpoint::file_name(number)), readable_bytes(ours[place]),
            ours[place] == theirs[place] ? "others of as many" : readable_bytes(theirs[place]));
      }
    }
  }

  void compare_params(Parts ours, Parts theirs) {
    ++result_.params;
    auto const& space = ours_.record().contents.spaces[ours.front().space];
    auto const& their_space = theirs_.record().contents.spaces[theirs.front().space];
    auto const& param = space.params[ours.front().param];
    auto const& their_param = their_space.params[theirs.front().param];
    auto const what = [&](char const* of) { return fmt::format("{} of parameter {}", of, escaped(param.name)); };
    if (param.shape != their_param.shape) {
      add(what("shape"), fmt::format("[{}]", fmt::join(param.shape, ", ")),
          fmt::format("[{}]", fmt::join(their_param.shape, ", ")));
      return;
    }
    for (std::size_t state = 0; state < space.states.size(); ++state) {
      auto const& name = space.states[state].name;
      auto const their_state = std::ranges::find(their_space.states, name, &SavedState::name);
      if (their_state == their_space.states.end()) {
        add(what(escaped(name).c_str()), "is there", "is not");
      } else {
        auto const their_index = static_cast<std::size_t>(their_state - their_space.states.begin());
        compare_states({ours_, ours, state}, {theirs_, theirs, their_index});
      }
    }
    for (auto const& state : their_space.states) {
      if (std::ranges::find(space.states, state.name, &SavedState::name) == space.states.end()) {
        add(what(escaped(state.name).c_str()), "is not there", "is");
      }
    }
  }

  void compare_states(SavedElements ours, SavedElements theirs) {
    StateDifference difference{
        ours.state().name, ours.param().name, ours.dtype(), theirs.dtype(), ours.count(), 0, 0, 0};
    for (std::int64_t first = 0; first < ours.count(); first += elements_at_once) {
      auto const count = std::min(elements_at_once, ours.count() - first);
      auto const a = ours.read(first, count, our_buffer_);
      auto const b = theirs.read(first, count, their_buffer_);
      bool const same_dtype = ours.dtype() == theirs.dtype();
      if (!same_dtype || std::memcmp(a.data(), b.data(), a.size()) != 0) {
        compare_elements(a, b, first, count, difference);
      }
      bar_.add(std::ssize(a));
    }
    result_.elements += ours.count();
    if (difference.differing > 0 || ours.dtype() != theirs.dtype()) {
      result_.states.push_back(std::move(difference));
    }
  }

  static void compare_elements(std::span<std::byte const> a, std::span<std::byte const> b, std::int64_t first,
                               std::int64_t count, StateDifference& difference) {
    auto const size = static_cast<std::size_t>(bytes_of(difference.dtype));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      auto const x = static_cast<double>(value_at(a, difference.dtype, i));
      auto const y = static_cast<double>(value_at(b, difference.other_dtype, i));
      bool const differ = difference.dtype == difference.other_dtype
                              ? std::memcmp(&a[i * size], &b[i * size], size) != 0
                              : x != y && !(std::isnan(x) && std::isnan(y));
      if (differ) {
        difference.first = difference.differing++ == 0 ? first + static_cast<std::int64_t>(i) : difference.first;
        auto const apart = x == y ? 0.0 : std::abs(x - y);
        difference.largest = std::max(difference.largest, apart);
        if (std::isnan(apart)) {
          difference.largest = std::numeric_limits<double>::infinity();
        }
      }
    }
  }

  Reader& ours_;
  Reader& theirs_;
  ProgramState program_state_;
  CheckpointDifference& result_;
  WorkBar bar_;
  std::vector<std::byte> our_buffer_, their_buffer_;
};

}  // namespace

CheckpointDifference compare(std::filesystem::path const& checkpoint, std::filesystem::path const& other,
                             ProgramState program_state) {
  Reader ours{checkpoint}, theirs{other};
  CheckpointDifference result{checkpoint, other, {}, 0, {}, 0, 0, {}};
  Comparison{ours, theirs, program_state, result}.run();
  result.settings = config::changes(ours.record().stage_file, theirs.record().stage_file);
  return result;
}

}  // namespace zeroth::tools
