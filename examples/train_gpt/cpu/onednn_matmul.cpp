// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <omp.h>

#include <dnnl_debug.h>
#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <zeroth/core/error.hpp>

#include "cpu/memory.hpp"
#include "cpu/onednn.hpp"

namespace gpt::cpu {

namespace {

using dnnl::memory;
using zeroth::Dtype;

memory::data_type type_of(Dtype dtype) {
  return dtype == Dtype::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc factor(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride, bool transposed) {
  return {{rows, cols}, type_of(dtype), transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

dnnl::matmul::primitive_desc describe_to_library(ProductKind const& kind, dnnl::engine const& engine) {
  auto const a = factor(kind.factors, kind.m, kind.k, kind.a_stride, kind.a_transposed);
  auto const b = factor(kind.factors, kind.k, kind.n, kind.b_stride, kind.b_transposed);
  auto const out = factor(kind.out, kind.m, kind.n, kind.out_stride, false);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (kind.adds) {
    dnnl::post_ops sum;
    sum.append_sum(1);
    attributes.set_post_ops(sum);
  }
  bool const biased = kind.epilogue == Epilogue::bias;
  auto const bias = biased ? factor(kind.out, 1, kind.n, kind.n, false) : memory::desc{};
#if DNNL_VERSION_MAJOR >= 3
  return biased ? dnnl::matmul::primitive_desc{engine, a, b, bias, out, attributes}
                : dnnl::matmul::primitive_desc{engine, a, b, out, attributes};
#else
  return {biased ? dnnl::matmul::desc{a, b, bias, out} : dnnl::matmul::desc{a, b, out}, attributes, engine};
#endif
}

/// A prepared product of oneDNN.
struct Plan {
  dnnl::matmul primitive;
  std::string implementation;
  memory a, b, bias, out;  // their addresses are set for each product
  std::unordered_map<int, memory> arguments;
};

class OnednnMatmul final : public Matmul {
 public:
  OnednnMatmul() {
    // A rank's thread is its share of the machine, and splitting sums over threads would change the bits.
    omp_set_num_threads(1);
  }

  void prepare(ProductKind const& kind) override { static_cast<void>(plan_for(kind)); }
  void operator()(Product const& product) override {
    auto const kind = kind_of(product);
    Plan& plan = plan_for(kind);
    if (product.addend != nullptr) {
      copy_rows(product, kind);
    }
    // The library's memory objects are not const-correct.
    plan.a.set_data_handle(const_cast<void*>(product.a.data));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    plan.b.set_data_handle(const_cast<void*>(product.b.data));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    plan.out.set_data_handle(product.out.data);
    if (product.bias != nullptr) {
      plan.bias.set_data_handle(const_cast<void*>(product.bias));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    }
    plan.arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratch_.data());
    try {
      plan.primitive.execute(stream_, plan.arguments);
    } catch (dnnl::error const& error) {
      throw zeroth::SystemError{fmt::format("oneDNN: {} of {}", error.what(), describe(kind))};
    }
  }
  [[nodiscard]] std::int64_t scratch_bytes() const override { return scratch_.count(); }
  [[nodiscard]] std::string table() const override {
    return lines_of([](Plan const&) { return true; });
  }
  [[nodiscard]] std::string slow_products() const override {
    return lines_of([&](Plan const& plan) { return is_slow(plan.implementation, isa_); });
  }

 private:
  template <class Wanted>
  [[nodiscard]] std::string lines_of(Wanted const& wanted) const {
    std::string lines;
    for (auto const& [kind, plan] : plans_) {
      if (wanted(plan)) {
        lines += fmt::format("{}: {}\n", describe(kind), plan.implementation);
      }
    }
    return lines;
  }
  Plan& plan_for(ProductKind const& kind) {
    if (auto const found = plans_.find(kind); found != plans_.end()) {
      return found->second;
    }
    auto const is_known = [](Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::fp32; };
    ZEROTH_EXPECTS(
        !has_gelu(kind.epilogue) && is_known(kind.factors) && is_known(kind.out),
        "matmul on a CPU: " + describe(kind) + ": GELU is a pass of its own, and oneDNN takes fp32 and bf16");
    try {
      auto const description = describe_to_library(kind, engine_);
      return plans_.emplace(kind, plan_of(description, kind)).first->second;
    } catch (dnnl::error const& error) {
      throw zeroth::SystemError{fmt::format("oneDNN has no implementation for {}: {}", describe(kind), error.what())};
    }
  }

  Plan plan_of(dnnl::matmul::primitive_desc const& description, ProductKind const& kind) {
    auto const scratch = description.scratchpad_desc();
    auto const scratch_bytes = static_cast<std::int64_t>(scratch.get_size());
    if (scratch_bytes > scratch_.count()) {
      scratch_.resize(1, scratch_bytes);
    }
    auto const lies = [&](memory::desc const& where) { return memory{where, engine_, nullptr}; };
    Plan plan{.primitive = dnnl::matmul{description},
              .implementation = description.impl_info_str(),
              .a = lies(description.src_desc()),
              .b = lies(description.weights_desc()),
              .bias = {},
              .out = lies(description.dst_desc()),
              .arguments = {}};
    plan.arguments = {{DNNL_ARG_SRC, plan.a},
                      {DNNL_ARG_WEIGHTS, plan.b},
                      {DNNL_ARG_DST, plan.out},
                      {DNNL_ARG_SCRATCHPAD, lies(scratch)}};
    if (kind.epilogue == Epilogue::bias) {
      plan.bias = lies(factor(kind.out, 1, kind.n, kind.n, false));
      plan.arguments.insert({DNNL_ARG_BIAS, plan.bias});
    }
    return plan;
  }

  /// Copies the addend to the output, where the sum is computed.
  static void copy_rows(Product const& product, ProductKind const& kind) {
    auto const bytes = zeroth::bytes_of(kind.out);
    auto const row = static_cast<std::size_t>(kind.n * bytes);
    for (std::int64_t i = 0; i < kind.m; ++i) {
      auto const at = i * kind.out_stride * bytes;
      std::memcpy(static_cast<char*>(product.out.data) + at, static_cast<char const*>(product.addend) + at, row);
    }
  }

  std::string const isa_ = onednn()->isa;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Matrix<char> scratch_;  // sized for the product that needs most
  std::map<ProductKind, Plan> plans_;
};

}  // namespace

std::optional<Onednn> onednn() {
  auto const* const version = dnnl::version();
  std::string isa = dnnl_cpu_isa2str(static_cast<dnnl_cpu_isa_t>(dnnl::get_effective_cpu_isa()));
  constexpr std::string_view prefix = "cpu_isa_";
  if (isa.starts_with(prefix)) {
    isa.erase(0, prefix.size());
  }
  return Onednn{.version = fmt::format("{}.{}.{}", version->major, version->minor, version->patch),
                .isa = std::move(isa)};
}

std::unique_ptr<Matmul> onednn_matmul() { return std::make_unique<OnednnMatmul>(); }

}  // namespace gpt::cpu
