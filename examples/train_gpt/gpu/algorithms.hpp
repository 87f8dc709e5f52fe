// SPDX-License-Identifier: Apache-2.0
/// cuBLASLt's algorithms for the products of a model, chosen by measurement, and the file that keeps the choice.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "product.hpp"

namespace gpt::gpu {

/// Memory that an algorithm may use: NVIDIA's recommendation for Hopper and Blackwell.
inline constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20U;

/// The number of results of cuBLASLt's heuristics that a measurement compares.
inline constexpr int results_compared = 8;

/// Whether cuBLASLt may compute the epilogue's GELU: it takes row lengths that are multiples of 8, and does not
/// document the accuracy of its GELU, which suffices for results rounded to 16 bits.
[[nodiscard]] bool may_fuse_gelu(ProductKind const& kind);

/// The properties, besides the product, on which a choice depends.
struct Origin {
  std::string gpu;            ///< The GPU's name.
  std::int64_t cublaslt = 0;  ///< cublasLtGetVersion()
  bool tf32 = false;
};

struct Algorithm {
  std::array<std::uint64_t, 8> data{};  ///< cublasLtMatmulAlgo_t, which only the same cuBLASLt understands.
  int result = 0;              ///< Its index among the heuristics' results, which begin with cuBLASLt's choice.
  bool separate_gelu = false;  ///< GELU is a kernel after the product.
  std::int64_t workspace_bytes = 0;
  std::vector<double> us = {};  ///< Time of each result, in microseconds.
};

/// A choice for each product. A choice does not depend on whether a product adds to a matrix: cuBLASLt chooses without
/// knowing it.
class Algorithms {
 public:
  /// `source` names the file in messages.
  Algorithms(std::string source, Origin origin) : source_{std::move(source)}, origin_{std::move(origin)} {}
  /// Parses a file. Throws ConfigError with all problems: each names the key, the value and what is allowed.
  [[nodiscard]] static Algorithms parse(std::string_view text, std::string const& source);
  /// The file's text.
  [[nodiscard]] std::string to_json() const;

  void add(ProductKind const& kind, Algorithm algorithm);
  [[nodiscard]] bool contain(ProductKind const& kind) const;
  /// Throws ConfigError, which names the product, if there is no choice for it.
  [[nodiscard]] Algorithm const& of(ProductKind const& kind) const;
  [[nodiscard]] std::map<ProductKind, Algorithm> const& all() const noexcept { return algorithms_; }
  [[nodiscard]] std::string const& source() const noexcept { return source_; }
  /// Throws ConfigError if the choice is for another GPU, cuBLASLt or precision.
  void expect_origin(Origin const& here) const;

 private:
  std::string source_;
  Origin origin_;
  std::map<ProductKind, Algorithm> algorithms_;
};

}  // namespace gpt::gpu
