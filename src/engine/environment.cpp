// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <utility>

#include "comm/launch/environment.hpp"
#include "core/isa.hpp"
#include "device/cuda_gpus.hpp"
#include "engine/capacity.hpp"
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

/// The text after `key` and a separator, in the first line of a file that begins with `key`.
std::string value_in(std::filesystem::path const& file, std::string_view key, char separator) {
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

/// Instruction sets by the system's names: those that kernels or matrix libraries may use.
std::string instructions_fact() {
  constexpr std::string_view asked_for[] = {"avx2",     "fma",      "f16c",        "avx512f",     "avx512bw",
                                            "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16",
                                            "amx_tile", "amx_bf16", "amx_int8",    "asimd",       "asimdhp",
                                            "sve",      "bf16"};
  auto const of_x86 = value_in("/proc/cpuinfo", "flags", ':');
  std::istringstream words{of_x86 == "unknown" ? value_in("/proc/cpuinfo", "Features", ':') : of_x86};
  std::vector<std::string> found;
  for (std::string word; words >> word;) {
    if (std::ranges::find(asked_for, word) != std::end(asked_for)) {
      found.push_back(word);
    }
  }
  return found.empty() ? "unknown" : fmt::format("{}", fmt::join(found, " "));
}

std::string memory_fact() {
  constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();
  auto const left = engine::measure_capacity({});
  auto const gib = [](std::uint64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / 0x1p30); };
  auto const limit = left.memory_of_process;
  double kib_of_all = 0;
  std::istringstream{value_in("/proc/meminfo", "MemTotal", ':')} >> kib_of_all;
  return fmt::format("{} left on this machine, of {:.1f} GiB{}", gib(left.memory_of_machine), kib_of_all / 0x1p20,
                     limit == unlimited ? std::string{} : fmt::format(", {} by this process's limits", gib(limit)));
}

/// The driver as the system reports it, whether or not this library was built with CUDA. Containers often hide it.
std::string driver_fact() {
  namespace fs = std::filesystem;
  fs::path const folder{"/proc/driver/nvidia"};
  auto const found = value_in(folder / "version", "NVRM version", ':');
  auto text = found == "unknown" ? fmt::format("{} has none", folder.string()) : found;
  std::error_code error;
  for (auto each = fs::directory_iterator{folder / "gpus", error}; !error && each != fs::directory_iterator{};
       each.increment(error)) {
    text +=
        fmt::format("; {}: {}", each->path().filename().string(), value_in(each->path() / "information", "Model", ':'));
  }
  return text;
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

/// The transports available here.
std::string transports_fact() {
  std::vector<std::string> names{"local", "tcp"};
#ifdef ZEROTH_HAS_MPI
  names.emplace_back("mpi");
#endif
#ifdef ZEROTH_HAS_NCCL
  try {
    static_cast<void>(device::nccl());
    names.emplace_back(device::cuda_device_count() > 0 ? "nccl" : "nccl if there were a GPU");
  } catch (SystemError const&) {  // nccl_fact() gives the reason
  }
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

std::string options_fact() {
#ifdef ZEROTH_SHARED
  std::string text = "shared library";
#else
  std::string text = "static library";
#endif
#ifndef __OPTIMIZE__
  text += ", not optimised";
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  text += ", under a sanitizer";
#endif
#ifdef ZEROTH_HAS_MPI
  constexpr bool has_mpi = true;
#else
  constexpr bool has_mpi = false;
#endif
#ifdef ZEROTH_HAS_NCCL
  constexpr bool has_nccl = true;
#else
  constexpr bool has_nccl = false;
#endif
  for (auto const& [part, is_in] :
       {std::pair{"MPI", has_mpi}, std::pair{"CUDA", device::has_cuda()}, std::pair{"NCCL", has_nccl}}) {
    text += fmt::format(", {} {}", is_in ? "with" : "without", part);
  }
  return text;
}

}  // namespace

std::vector<EnvironmentFact> environment() {
  return {{"zeroth", std::string{version}},
          {"build", build_fact()},
          {"options", options_fact()},
          {"system", system_fact()},
          {"processor", processor_fact()},
          {"instructions", instructions_fact()},
          {"memory", memory_fact()},
          {"gpus", device::describe_gpus()},
          {"driver", driver_fact()},
          {"nccl", nccl_fact()},
          {"mpi", mpi_fact()},
          {"transports", transports_fact()},
          {"launcher", launcher_fact()}};
}

}  // namespace zeroth
