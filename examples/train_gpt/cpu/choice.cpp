// SPDX-License-Identifier: Apache-2.0
#include "cpu/choice.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <cstddef>
#include <string_view>
#include <zeroth/core/error.hpp>

#include "cpu/onednn.hpp"

namespace gpt::cpu {

namespace {

using zeroth::Dtype;

bool has_amx(std::string_view isa) { return isa.find("amx") != std::string_view::npos; }
bool has_bf16(std::string_view isa) {
  return has_amx(isa) || isa == "avx512_core_bf16" || isa == "avx512_core_fp16" || isa.starts_with("avx10");
}

Processor this_processor() {
  Processor processor;
#if defined(__x86_64__)
  processor.amd = __builtin_cpu_is("amd") != 0;
#endif
  if (auto const library = onednn()) {
    processor.onednn_isa = library->isa;
  }
  return processor;
}

void expect_onednn(Dtype compute) {
  auto const library = onednn();
  if (!library) {
    throw zeroth::ConfigError{
        "--math onednn: train_gpt was built without oneDNN (Debian's libdnnl-dev); allowed here: auto and eigen"};
  }
  if (compute != Dtype::fp32 && compute != Dtype::bf16) {
    throw zeroth::ConfigError{fmt::format(
        "--math onednn: oneDNN multiplies fp32 and bf16, but the compute dtype is {}; allowed here: auto and eigen",
        zeroth::name_of(compute))};
  }
  if (compute == Dtype::bf16 && !library->isa.starts_with("avx512_core") && !has_bf16(library->isa)) {
    throw zeroth::ConfigError{
        fmt::format("--math onednn: oneDNN {} has no bf16 products for {}, to which this processor or "
                    "ONEDNN_MAX_CPU_ISA limits it; allowed here: auto and eigen",
                    library->version, library->isa)};
  }
}

std::string name_of_eigen(Dtype compute) {
  auto const name = fmt::format("Eigen {}.{}.{} ({})", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION,
                                Eigen::SimdInstructionSetsInUse());
  return compute == Dtype::fp32 ? name : fmt::format("{}, {} widened to fp32", name, zeroth::name_of(compute));
}

}  // namespace

bool is_slow(std::string_view implementation, std::string_view isa) {
  return !implementation.starts_with("brg:") && (has_amx(isa) || !implementation.starts_with("gemm:jit"));
}

MathLibrary best_library(Processor const& processor, Dtype compute) {
  if (!processor.onednn_isa) {
    return MathLibrary::eigen;
  }
  auto const& isa = *processor.onednn_isa;
  bool const fast = compute == Dtype::fp32   ? isa.starts_with("avx512_core") || isa.starts_with("avx10")
                    : compute == Dtype::bf16 ? has_amx(isa) || (processor.amd && has_bf16(isa))
                                             : false;
  return fast ? MathLibrary::onednn : MathLibrary::eigen;
}

MathChoice choose(MathLibrary asked, Dtype compute) {
  auto const library = asked == MathLibrary::automatic ? best_library(this_processor(), compute) : asked;
  if (library == MathLibrary::eigen) {
    return {library, name_of_eigen(compute)};
  }
  expect_onednn(compute);
  auto const with = onednn();
  return {library, fmt::format("oneDNN {} ({})", with->version, with->isa)};
}

void expect_same_on_all_ranks(zeroth::Job& job, MathChoice const& choice) {
  auto const names = job.gather(choice.name);
  for (std::size_t rank = 1; rank < names.size(); ++rank) {
    if (names[rank] != names[0]) {
      throw zeroth::ConfigError{
          fmt::format("--math: rank 0 multiplies by {}, rank {} by {}, but all ranks must round alike; --math eigen "
                      "may be available on all",
                      names[0], rank, names[rank])};
    }
  }
}

std::unique_ptr<Matmul> make_matmul(MathChoice const& choice) {
  return choice.library == MathLibrary::onednn ? onednn_matmul() : eigen_matmul();
}

}  // namespace gpt::cpu
