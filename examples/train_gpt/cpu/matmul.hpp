// SPDX-License-Identifier: Apache-2.0
/// Products on a CPU: without GELU, which is a pass of its own there.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "product.hpp"

namespace gpt::cpu {

/// On the thread that made it, and on one thread, whatever the environment says. The same bits for the same kind of
/// product, wherever its data lie. `beta` is 0 or 1.
class Matmul {
 public:
  Matmul() = default;
  Matmul(Matmul const&) = delete;
  Matmul& operator=(Matmul const&) = delete;
  virtual ~Matmul() = default;

  /// Takes the memory and whatever else products of this kind need, so that none is taken later.
  virtual void prepare(ProductKind const& kind) = 0;
  /// Throws ContractError for shapes that do not fit, SystemError if the library refuses the product.
  virtual void operator()(Product const& product) = 0;
  /// Of memory beside the operands, once all kinds are prepared.
  [[nodiscard]] virtual std::int64_t scratch_bytes() const = 0;
  /// Which implementation multiplies each kind, a line each.
  [[nodiscard]] virtual std::string table() const = 0;
  /// The lines of kinds that the library has nothing fast for: it does not say so itself.
  [[nodiscard]] virtual std::string slow_products() const = 0;
};

[[nodiscard]] std::unique_ptr<Matmul> eigen_matmul();

}  // namespace gpt::cpu
