// SPDX-License-Identifier: Apache-2.0
#include "zeroth/simulate/machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "simulate/machine_presets.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/config/nearest.hpp"
#include "zeroth/tool/config/problem.hpp"
#include "zeroth/tool/core/input_file.hpp"

namespace zeroth::simulate {
namespace {

using config::Member;
using config::Object;
using config::Problems;

/// Allowed values. Values outside are not those of any machine, and give useless times.
struct Range {
  double least, most;
};
constexpr Range flops_per_s{1e6, 1e21}, bytes_per_s{1e6, 1e18}, microseconds{0, 1e6}, fraction{1e-3, 1};
constexpr Range passes{0, 1e4}, lost{0, 0.5};
constexpr Range enqueueing{1e-3, 1e6};  // so that every step takes time
constexpr std::int64_t largest_memory = std::int64_t{1} << 60U;
constexpr int most_ranks_per_node = 1 << 20;

/// Reads the members of one object into fields, each by its own rule.
class FieldReader {
 public:
  /// `thing` names what the object describes. `path` is the prefix of its members' names.
  FieldReader(Object const& object, char const* thing, std::string path, Problems& problems)
      : object_{object}, thing_{thing}, path_{std::move(path)}, problems_{problems} {}

  void number(char const* name, double& field, Range const& allowed, bool required = true) {
    if (auto const* const member = find(name, required)) {
      auto const* const value = std::get_if<config::Number>(&member->node.value);
      if (value == nullptr || !(value->real >= allowed.least && value->real <= allowed.most)) {
        refuse(*member, fmt::format("a number from {:g} to {:g}", allowed.least, allowed.most));
      } else {
        field = value->real;
      }
    }
  }
  template <class Integer>
  void integer(char const* name, Integer& field, std::int64_t least, Integer most, bool required = true) {
    if (auto const* const member = find(name, required)) {
      auto const* const value = std::get_if<config::Number>(&member->node.value);
      if (value == nullptr || !value->integer || *value->integer < least || *value->integer > most) {
        refuse(*member, fmt::format("a whole number from {} to {}", least, most));
      } else {
        field = static_cast<Integer>(*value->integer);
      }
    }
  }
  void boolean(char const* name, bool& field) {
    if (auto const* const member = find(name, false)) {
      if (auto const* const value = std::get_if<bool>(&member->node.value)) {
        field = *value;
      } else {
        refuse(*member, "true or false");
      }
    }
  }
  void text(char const* name, std::string& field) {
    if (auto const* const member = find(name, false)) {
      if (auto const* const value = std::get_if<std::string>(&member->node.value)) {
        field = *value;
      } else {
        refuse(*member, "a string");
      }
    }
  }
  void protocols(char const* name, std::vector<Protocol>& field, bool required) {
    auto const* const member = find(name, required);
    if (member == nullptr) {
      return;
    }
    auto const* const array = std::get_if<config::Array>(&member->node.value);
    if (array == nullptr || (required && array->empty())) {
      return refuse(*member, required ? "a list of at least one protocol" : "a list of protocols");
    }
    for (std::size_t i = 0; i < array->size(); ++i) {
      auto const path = fmt::format("{}{}[{}]", path_, name, i);
      auto const* const object = std::get_if<Object>(&(*array)[i].value);
      if (object == nullptr) {
        problems_.push_back({path, member->line, fmt::format("is {}; allowed: an object", show((*array)[i]))});
        continue;
      }
      FieldReader reader{*object, "a protocol", path + ".", problems_};
      auto& protocol = field.emplace_back();
      reader.number("start_us", protocol.start_us, microseconds);
      reader.number("step_us", protocol.step_us, microseconds);
      reader.number("network_step_us", protocol.network_step_us, microseconds, false);
      reader.number("bandwidth_fraction", protocol.bandwidth_fraction, fraction, false);
      reader.refuse_unknown();
    }
  }
  /// If `all_required` is false, missing members keep their values in `rates`.
  void rates(CodeRates& rates, bool all_required) {
    number("math_efficiency", rates.math_efficiency, fraction, all_required);
    number("attention_efficiency", rates.attention_efficiency, fraction, false);
    number("activation_passes", rates.activation_passes, passes, false);
    number("parameter_passes", rates.parameter_passes, passes, false);
    boolean("tensor_overlap", rates.tensor_overlap);
  }
  void codes(char const* name, CodeRates const& otherwise, std::map<std::string, CodeRates, std::less<>>& field) {
    auto const* const member = find(name, false);
    if (member == nullptr) {
      return;
    }
    auto const* const kinds = std::get_if<Object>(&member->node.value);
    if (kinds == nullptr) {
      return refuse(*member, "an object with a member for each kind of code");
    }
    for (auto const& kind : *kinds) {
      auto const path = fmt::format("{}{}.{}", path_, name, config::path_part(kind.name));
      auto const* const object = std::get_if<Object>(&kind.node.value);
      if (object == nullptr) {
        problems_.push_back({path, kind.line, fmt::format("is {}; allowed: an object", show(kind.node))});
        continue;
      }
      FieldReader reader{*object, "a kind of code", path + ".", problems_};
      reader.rates(field.emplace(kind.name, otherwise).first->second, false);
      reader.refuse_unknown();
    }
  }
  void refuse_unknown() {
    std::vector<std::string_view> const names{known_.begin(), known_.end()};
    for (auto const& member : object_) {
      if (!known_.contains(member.name) && problems_.full()) {
        problems_.count_one();
      } else if (!known_.contains(member.name)) {
        auto const near = config::nearest(member.name, names);
        problems_.push_back({path_ + config::path_part(member.name), member.line,
                             near.empty()
                                 ? fmt::format("is not a key of {}; allowed: {}", thing_, fmt::join(names, ", "))
                                 : fmt::format("is not a key of {}; did you mean {}?", thing_, near)});
      }
    }
  }

 private:
  Member const* find(char const* name, bool required) {
    known_.insert(name);
    auto const* const member = config::find(object_, name);
    if (member == nullptr && required) {
      problems_.push_back({path_ + name, 0, "is required"});
    }
    return member;
  }
  void refuse(Member const& member, std::string const& allowed) {
    problems_.push_back(
        {path_ + member.name, member.line, fmt::format("is {}; allowed: {}", show(member.node), allowed)});
  }

  Object const& object_;
  char const* thing_;
  std::string path_;
  Problems& problems_;
  std::set<std::string, std::less<>> known_;
};

Machine read_machine(std::string const& file, std::string const& text) {
  Problems problems;
  auto const document = config::read_document(text, problems);
  Machine machine;
  machine.name = file;
  if (problems.empty()) {
    FieldReader reader{document, "a machine", "", problems};
    reader.text("name", machine.name);
    reader.number("peak_flops_per_s", machine.peak_flops_per_s, flops_per_s);
    reader.number("fp32_peak_flops_per_s", machine.fp32_peak_flops_per_s, flops_per_s, false);
    reader.rates(machine.rates, true);
    reader.codes("code", machine.rates, machine.codes);
    reader.number("memory_bytes_per_s", machine.memory_bytes_per_s, bytes_per_s);
    reader.integer("device_memory_bytes", machine.device_memory_bytes, 0, largest_memory, false);
    reader.integer("ranks_per_node", machine.ranks_per_node, 1, most_ranks_per_node);
    reader.number("node_bytes_per_s", machine.node_bytes_per_s, bytes_per_s);
    reader.number("network_bytes_per_s", machine.network_bytes_per_s, bytes_per_s);
    reader.number("disk_bytes_per_s", machine.disk_bytes_per_s, bytes_per_s, false);
    reader.number("host_bytes_per_s", machine.host_bytes_per_s, bytes_per_s, false);
    reader.number("host_thread_bytes_per_s", machine.host_thread_bytes_per_s, bytes_per_s, false);
    reader.number("host_memory_bytes_per_s", machine.host_memory_bytes_per_s, bytes_per_s, false);
    reader.protocols("ring", machine.ring, true);
    reader.protocols("tree", machine.tree, false);
    reader.boolean("copy_engine_gathers", machine.copy_engine_gathers);
    reader.number("communication_share", machine.communication_share, {0, 1});
    reader.boolean("ordered_collectives", machine.ordered_collectives);
    reader.number("straggler_per_doubling", machine.straggler_per_doubling, lost, false);
    reader.number("enqueue_us", machine.enqueue_us, enqueueing);
    reader.number("kernel_us", machine.kernel_us, microseconds);
    reader.refuse_unknown();
  }
  config::throw_if_any(file, problems);
  return machine;
}

}  // namespace

Machine Machine::running(std::string_view code) const {
  auto const kind = codes.find(code);
  if (kind == codes.end()) {
    std::vector<std::string_view> names;
    for (auto const& [known, its_rates] : codes) {
      names.emplace_back(known);
    }
    throw ConfigError{
        names.empty()
            ? fmt::format(R"(machine "{}" has no "code", and so no kind of code "{}")", name, code)
            : fmt::format(R"(machine "{}" has no kind of code "{}"; allowed: {})", name, code, fmt::join(names, ", "))};
  }
  auto machine = *this;
  machine.rates = kind->second;
  return machine;
}

std::vector<std::string> machine_presets() {
  std::vector<std::string> names;
  for (auto const& preset : preset_texts()) {
    names.emplace_back(preset.name);
  }
  return names;
}

Machine machine_of(std::string_view preset_or_file) {
  for (auto const& preset : preset_texts()) {
    if (preset.name == preset_or_file) {
      return read_machine(std::string{preset.name}, std::string{preset.text});
    }
  }
  std::string const file{preset_or_file};
  std::string text;
  try {
    text = read_text(file);
  } catch (Unreadable const& error) {
    auto const names = machine_presets();
    auto const near = config::nearest(file, {names.begin(), names.end()});
    throw ConfigError{fmt::format(
        "machine \"{}\" is neither a preset ({}) nor a file that can be read; {}", file, fmt::join(names, ", "),
        near.empty() ? fmt::format("as a file it {}", error.what()) : fmt::format("did you mean {}?", near))};
  }
  return read_machine(file, text);
}

}  // namespace zeroth::simulate
