#include "zeroth/simulate/machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <system_error>

#include "config/document.hpp"
#include "config/names.hpp"
#include "config/problem.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::simulate {
namespace {

using config::Member;
using config::Object;
using config::Problems;

/// Start and steps of NCCL 2.28's tuning table (src/graph/tuning.cc), in microseconds: simple, then low latency, which
/// sends a flag with every word and is assumed to reach a quarter of the bandwidth.
Machine with_nccl(Machine machine) {
  machine.ring = {{8.4, 3.4, 14.0, 1.0}, {6.6, 0.6, 2.7, 0.25}};
  machine.tree = {{6.8, 0.6, 5.0, 0.25}};
  return machine;
}

/// Eight GPUs on NVLink 4 and one 400 Gbit/s adapter for each. NVIDIA's peaks for dense bf16, and for fp32 without
/// TF32; memory as nvidia-smi reports it; bus bandwidths as measured with nccl-tests and reported (nccl issue 1281: 350
/// GB/s for an all-gather on eight H100; nccl-tests issue 290: 46 to 48 GB/s per adapter). memory_bytes_per_s,
/// math_efficiency, communication_share, enqueue_us and kernel_us are assumptions: 90 % of NVIDIA's figure, 70 % of the
/// peak for large matrix products, 20 of 132 multiprocessors for a ring.
Machine hopper(char const* name, double memory_bytes_per_s, std::int64_t device_memory_bytes) {
  Machine machine;
  machine.name = name;
  machine.peak_flops_per_s = 989e12;
  machine.fp32_peak_flops_per_s = 67e12;
  machine.math_efficiency = 0.7;
  machine.memory_bytes_per_s = memory_bytes_per_s;
  machine.device_memory_bytes = device_memory_bytes;
  machine.ranks_per_node = 8;
  machine.node_bytes_per_s = 350e9;
  machine.network_bytes_per_s = 8 * 47e9;
  machine.communication_share = 0.15;
  machine.enqueue_us = 3;
  machine.kernel_us = 3;
  return with_nccl(machine);
}

std::vector<Machine> presets() {
  constexpr std::int64_t mib = std::int64_t{1} << 20U;
  return {hopper("8xH100", 3.015e12, 81'559 * mib), hopper("8xH200", 4.32e12, 143'771 * mib)};  // 90 % of 3.35 and 4.8
}

/// Reads the members of one object into fields, each by its own rule.
class FieldReader {
 public:
  /// `thing` is what the object describes, `path` what its members' names begin with.
  FieldReader(Object const& object, char const* thing, std::string path, Problems& problems)
      : object_{object}, thing_{thing}, path_{std::move(path)}, problems_{problems} {}

  void number(char const* name, double& field, double least, double most, bool required = true) {
    if (auto const* const member = find(name, required)) {
      auto const* const value = std::get_if<config::Number>(&member->node.value);
      if (value == nullptr || !(value->real >= least && value->real <= most)) {
        refuse(*member, std::isinf(most) ? fmt::format("a number from {}", least)
                                         : fmt::format("a number from {} to {}", least, most));
      } else {
        field = value->real;
      }
    }
  }
  template <class Integer>
  void integer(char const* name, Integer& field, std::int64_t least, bool required = true) {
    if (auto const* const member = find(name, required)) {
      auto const* const value = std::get_if<config::Number>(&member->node.value);
      if (value == nullptr || !value->integer || *value->integer < least ||
          *value->integer > std::numeric_limits<Integer>::max()) {
        refuse(*member, fmt::format("a whole number from {}", least));
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
      return refuse(*member, required ? "a list of one protocol or more" : "a list of protocols");
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
      reader.number("start_us", protocol.start_us, 0, infinity);
      reader.number("step_us", protocol.step_us, 0, infinity);
      reader.number("network_step_us", protocol.network_step_us, 0, infinity, false);
      reader.number("bandwidth_fraction", protocol.bandwidth_fraction, 1e-6, 1, false);
      reader.refuse_unknown();
    }
  }
  void refuse_unknown() {
    std::vector<std::string_view> const names{known_.begin(), known_.end()};
    for (auto const& member : object_) {
      if (!known_.contains(member.name)) {
        auto const near = config::nearest(member.name, names);
        problems_.push_back({path_ + member.name, member.line,
                             near.empty() ? fmt::format("is no key of {}; allowed: {}", thing_, fmt::join(names, ", "))
                                          : fmt::format("is no key of {}; did you mean {}?", thing_, near)});
      }
    }
  }

  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr double smallest = 1e-6;  ///< Of what must be above zero.

 private:
  Member const* find(char const* name, bool required) {
    known_.insert(name);
    for (auto const& member : object_) {
      if (member.name == name) {
        return &member;
      }
    }
    if (required) {
      problems_.push_back({path_ + name, 0, "is required"});
    }
    return nullptr;
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
    reader.number("peak_flops_per_s", machine.peak_flops_per_s, FieldReader::smallest, FieldReader::infinity);
    reader.number("fp32_peak_flops_per_s", machine.fp32_peak_flops_per_s, FieldReader::smallest, FieldReader::infinity,
                  false);
    reader.number("math_efficiency", machine.math_efficiency, FieldReader::smallest, 1);
    reader.number("memory_bytes_per_s", machine.memory_bytes_per_s, FieldReader::smallest, FieldReader::infinity);
    reader.integer("device_memory_bytes", machine.device_memory_bytes, 0, false);
    reader.integer("ranks_per_node", machine.ranks_per_node, 1);
    reader.number("node_bytes_per_s", machine.node_bytes_per_s, FieldReader::smallest, FieldReader::infinity);
    reader.number("network_bytes_per_s", machine.network_bytes_per_s, FieldReader::smallest, FieldReader::infinity);
    reader.protocols("ring", machine.ring, true);
    reader.protocols("tree", machine.tree, false);
    reader.boolean("copy_engine_gathers", machine.copy_engine_gathers);
    reader.number("communication_share", machine.communication_share, 0, 1);
    reader.number("enqueue_us", machine.enqueue_us, 0, FieldReader::infinity);
    reader.number("kernel_us", machine.kernel_us, 0, FieldReader::infinity);
    reader.refuse_unknown();
  }
  config::throw_if_any(file, std::move(problems));
  return machine;
}

}  // namespace

std::vector<std::string> machine_presets() {
  std::vector<std::string> names;
  for (auto const& machine : presets()) {
    names.push_back(machine.name);
  }
  return names;
}

Machine machine_of(std::string_view preset_or_file) {
  for (auto const& machine : presets()) {
    if (machine.name == preset_or_file) {
      return machine;
    }
  }
  std::string const file{preset_or_file};
  std::error_code ignored;
  std::ifstream in{file, std::ios::binary};
  if (!in || std::filesystem::is_directory(file, ignored)) {
    auto const names = machine_presets();
    auto const near = config::nearest(file, {names.begin(), names.end()});
    throw ConfigError{fmt::format("machine \"{}\" is neither a preset ({}) nor a file that can be read{}", file,
                                  fmt::join(names, ", "),
                                  near.empty() ? std::string{} : fmt::format("; did you mean {}?", near))};
  }
  std::string const text{std::istreambuf_iterator<char>{in}, {}};
  return read_machine(file, text);
}

}  // namespace zeroth::simulate
