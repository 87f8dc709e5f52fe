// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/store_address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "comm/launch/node_list.hpp"
#include "comm/store/frame.hpp"
#include "comm/store/socket.hpp"
#include "core/hash.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr int first_derived_port = 20000;  // below the ports that systems assign, above the well-known ones
constexpr std::uint64_t derived_ports = 12000;
constexpr int ports_of_a_job = 8;  // another job, or any program, may have the first
constexpr int last_port = 65535;
constexpr std::int64_t most_job_number = std::int64_t{1} << 40;

/// A variable that is set.
struct Setting {
  std::string name, value;
  [[nodiscard]] std::string words() const { return fmt::format("{}={}", name, value); }
};

/// The first of `names` that is set and not empty.
std::optional<Setting> first_set(Variables const& variable, std::initializer_list<char const*> names) {
  for (char const* const name : names) {
    if (char const* const value = variable(name); value != nullptr && *value != '\0') {
      return Setting{name, value};
    }
  }
  return std::nullopt;
}

/// Distinguishes this job from others.
struct JobId {
  std::string text;          // "slurm 1234.0"
  std::uint64_t number = 0;  // for a port; a hash, because consecutive job numbers would overlap
};

std::optional<JobId> slurm_id(Variables const& variable, bool with_step) {
  auto const job = first_set(variable, {"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!job) {
    return std::nullopt;
  }
  auto const step = with_step ? first_set(variable, {"SLURM_STEP_ID", "SLURM_STEPID"}) : std::nullopt;
  auto text = fmt::format("slurm {}", whole_number(job->name, job->value, 0, most_job_number));
  if (step) {
    text += fmt::format(".{}", whole_number(step->name, step->value, 0, most_job_number));
  }
  return JobId{text, Fnv1a{}.characters(text).value()};
}

std::optional<JobId> find_job_id(Variables const& variable, Launcher launcher) {
  std::optional<Setting> own;
  if (launcher == Launcher::torchrun) {
    own = first_set(variable, {"TORCHELASTIC_RUN_ID"});
    if (own && own->value == "none") {
      own.reset();
    }
  } else if (launcher == Launcher::open_mpi) {
    own = first_set(variable, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  }
  if (own) {
    return JobId{own->words(), Fnv1a{}.characters(own->value).value()};
  }
  return slurm_id(variable, launcher == Launcher::slurm);
}

[[noreturn]] void throw_missing(LaunchedRank const& launched, char const* name, char const* what) {
  throw ConfigError{
      fmt::format("{} started this process as rank {} of {} ({}), but {} is not set in the environment: "
                  "set it, on all ranks, to {}",
                  launched.launcher, launched.rank, launched.world, launched.variables, name, what)};
}

/// The host, and a description of its source.
std::pair<std::string, std::string> find_host(Variables const& variable, LaunchedRank const& launched) {
  constexpr auto missing = "a name or address of the machine of rank 0";
  if (auto const given = first_set(variable, {"MASTER_ADDR"})) {
    auto host = given->value;
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    return {host, given->words()};
  }
  if (launched.kind == Launcher::torchrun) {
    throw_missing(launched, "MASTER_ADDR", missing);
  }
  if (launched.world == 1 || launched.local_world == launched.world) {
    return {"127.0.0.1", "all ranks are on one machine"};
  }
  auto const list = launched.kind == Launcher::slurm
                        ? first_set(variable, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
                        : first_set(variable, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (!list) {
    throw_missing(launched, "MASTER_ADDR", missing);
  }
  return {expand_node_list(list->value, list->name).front(), "the first of " + list->words()};
}

struct Port {
  int first;
  std::string from;
  int count = 1;
};

Port find_port(Variables const& variable, LaunchedRank const& launched, std::optional<JobId> const& id) {
  if (auto const given = first_set(variable, {"ZEROTH_STORE_PORT", "MASTER_PORT"})) {
    auto const port = static_cast<int>(whole_number(given->name, given->value, 1, last_port));
    auto const torchruns = first_set(variable, {"TORCHELASTIC_USE_AGENT_STORE"});
    if (given->name != "MASTER_PORT" || launched.kind != Launcher::torchrun || !torchruns ||
        torchruns->value != "True") {
      return {port, given->words()};
    }
    return {port < last_port ? port + 1 : port - 1, fmt::format("{} and {}", given->words(), torchruns->words())};
  }
  constexpr auto missing = "a port that is free on the machine of rank 0";
  if (launched.kind == Launcher::torchrun || !id) {
    throw_missing(launched, "MASTER_PORT", missing);
  }
  return {first_derived_port + static_cast<int>(id->number % derived_ports), fmt::format("port from {}", id->text),
          ports_of_a_job};
}

}  // namespace

std::string program_of(std::string_view words) {
  auto const next = [&words] {
    auto const word = words.substr(0, words.find('\0'));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    return word;
  };
  auto const path = next();
  Fnv1a hash;
  while (!words.empty()) {
    auto word = next();
    auto const digits = word.find_last_not_of("0123456789") + 1;  // 0 if there are only digits
    word = digits == 0 || word[digits - 1] == '=' ? word.substr(0, digits) : word;
    hash.add(word);
  }
  return fmt::format("{} {:016x}", path.substr(path.rfind('/') + 1), hash.value()).substr(0, most_token_bytes / 2);
}

std::string this_program() {
  std::ifstream in{"/proc/self/cmdline", std::ios::binary};
  std::string const words{std::istreambuf_iterator<char>{in}, {}};
  return words.empty() ? words : program_of(words);
}

StoreAddress find_store_address(Variables const& variable, LaunchedRank const& launched, std::string const& program) {
  auto const id = find_job_id(variable, launched.kind);
  auto const [host, host_from] = find_host(variable, launched);
  auto const [port, port_from, ports] = find_port(variable, launched, id);
  StoreAddress address{host, port, fmt::format("{}, {}", host_from, port_from), {}, ports};
  if (auto const given = first_set(variable, {"ZEROTH_JOB_TOKEN"})) {
    if (given->value.size() > most_token_bytes) {
      throw ConfigError{fmt::format("ZEROTH_JOB_TOKEN in the environment has {} bytes: allowed are {}",
                                    given->value.size(), most_token_bytes)};
    }
    address.token = given->value;
  } else {
    address.token = id ? id->text : fmt::format("{} {}", address_of(host, port), program).substr(0, most_token_bytes);
  }
  return address;
}

}  // namespace zeroth::comm
