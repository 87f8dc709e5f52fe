// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <utility>

#include "comm/launch/environment.hpp"
#include "core/isa.hpp"
#include "engine/room.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cuda.hpp"
#include "zeroth/version.hpp"
#ifdef ZEROTH_HAS_MPI
#include <mpi.h>
#endif
#ifdef ZEROTH_HAS_NCCL
#include "device/nccl_library.hpp"
#endif

namespace zeroth {
namespace {

/// What is behind `key` and a separator in the first line of a file that begins with it.
std::string value_in(char const* file, std::string_view key, char separator) {
  std::ifstream lines{file};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) {
      auto const at = line.find_first_not_of(" \t\"", line.find(separator) + 1);
      auto const end = line.find_last_not_of(" \"");
      return at == std::string::npos ? std::string{} : line.substr(at, end + 1 - at);
    }
  }
  return "unknown";
}

std::string system_fact() {
  utsname name{};
  auto const distribution = value_in("/etc/os-release", "PRETTY_NAME", '=');
  return ::uname(&name) == 0
             ? fmt::format("{}, {} {}, glibc {}", distribution, name.sysname, name.release, gnu_get_libc_version())
             : distribution;
}

std::string processor_fact() {
  cpu_set_t set;
  int const cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  auto const isa = current_isa();
  return fmt::format("{}, {} cores for this process, kernels for {}", value_in("/proc/cpuinfo", "model name", ':'),
                     cores,
                     isa == Isa::avx512 ? "AVX-512"
                     : isa == Isa::avx2 ? "AVX2"
                                        : "any processor");
}

std::string memory_fact() {
  constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();
  auto const left = engine::room({});
  auto const gib = [](std::uint64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / 0x1p30); };
  auto const limit = left.memory_of_process;
  return fmt::format("{} left on this machine{}", gib(left.memory_of_machine),
                     limit == unlimited ? std::string{} : fmt::format(", {} by this process's limits", gib(limit)));
}

std::string gpus_fact() {
  int const count = device::cuda_device_count();
  return count == 0 ? fmt::format("none: {}", device::why_no_gpu()) : fmt::format("{}", count);
}

std::string mpi_fact() {
#if defined(ZEROTH_HAS_MPI) && defined(OMPI_MAJOR_VERSION)
  return fmt::format("built with Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#elif defined(ZEROTH_HAS_MPI)
  return fmt::format("built with an MPI of standard {}.{}", MPI_VERSION, MPI_SUBVERSION);
#else
  return "the library was built without MPI";
#endif
}

std::string nccl_fact() {
#ifdef ZEROTH_HAS_NCCL
  try {
    return device::describe_nccl_version(device::nccl().version);
  } catch (SystemError const& error) {
    return error.what();
  }
#else
  return "the library was built without NCCL";
#endif
}

std::string transports_fact() {
  std::vector<std::string_view> names{"local", "tcp"};
#ifdef ZEROTH_HAS_MPI
  names.emplace_back("mpi");
#endif
#ifdef ZEROTH_HAS_NCCL
  names.emplace_back("nccl");
#endif
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string launcher_fact() {
  try {
    auto const launched = comm::find_launched_rank([](char const* name) { return std::getenv(name); });
    return launched ? fmt::format("{} ({})", launched->launcher, launched->variables) : "none: ranks would be threads";
  } catch (ConfigError const& error) {
    return error.what();
  }
}

std::string build_fact() {
#ifdef NDEBUG
  constexpr auto assertions = "without assertions";
#else
  constexpr auto assertions = "with assertions";
#endif
#ifdef __clang__
  constexpr auto compiler = "Clang " __clang_version__;
#else
  constexpr auto compiler = "GCC " __VERSION__;
#endif
  return fmt::format("{}, {}, fmt {}.{}.{}", compiler, assertions, FMT_VERSION / 10'000, FMT_VERSION / 100 % 100,
                     FMT_VERSION % 100);
}

}  // namespace

std::vector<EnvironmentFact> environment() {
  return {{"zeroth", std::string{version}},
          {"build", build_fact()},
          {"system", system_fact()},
          {"processor", processor_fact()},
          {"memory", memory_fact()},
          {"gpus", gpus_fact()},
          {"nccl", nccl_fact()},
          {"mpi", mpi_fact()},
          {"transports", transports_fact()},
          {"launcher", launcher_fact()}};
}

}  // namespace zeroth
