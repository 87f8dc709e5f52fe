// SPDX-License-Identifier: Apache-2.0
/// Matrix products on a CPU. GELU is not fused: it is a separate pass there.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "product.hpp"

namespace gpt::cpu {

/// Use it on the thread that made it. Runs on one thread, whatever the environment says. Gives the same bits for the
/// same kind of product at any address. `beta` is 0 or 1.
class Matmul {
 public:
  Matmul() = default;
  Matmul(Matmul const&) = delete;
  Matmul& operator=(Matmul const&) = delete;
  virtual ~Matmul() = default;

  /// Allocates the memory and other resources for products of this kind, so that later calls allocate nothing.
  virtual void prepare(ProductKind const& kind) = 0;
  /// Throws ContractError for shapes that do not fit, SystemError if the library refuses the product.
  virtual void operator()(Product const& product) = 0;
  /// Bytes of memory besides the operands, once all kinds are prepared.
  [[nodiscard]] virtual std::int64_t scratch_bytes() const = 0;
  /// The implementation used for each kind, one line each.
  [[nodiscard]] virtual std::string table() const = 0;
  /// The lines of kinds without a fast implementation, about which the library does not warn.
  [[nodiscard]] virtual std::string slow_products() const = 0;
};

[[nodiscard]] std::unique_ptr<Matmul> eigen_matmul();

}  // namespace gpt::cpu
