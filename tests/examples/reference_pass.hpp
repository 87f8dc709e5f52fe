// SPDX-License-Identifier: Apache-2.0
/// A Pass without an engine: parameters and gradients of a whole model in plain vectors, in any scalar type.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <zeroth/model/description.hpp>

#include "parameters.hpp"

namespace gpt {

/// Aligned as the engine's memory is: Eigen's order of summation depends on it.
template <class S>
using Values = std::vector<S, Eigen::aligned_allocator<S>>;

/// A Param does not tell its place, so read it from its bytes: {model, index, shape}.
template <std::size_t D>
[[nodiscard]] std::size_t index_of(Param<D> const& p) {
  return std::bit_cast<std::array<std::uint32_t, 2 + 2 * D>>(p)[1];
}

/// For a layer by itself.
struct OneUnit {
  zeroth::Model model{7};
  zeroth::Unit unit = model.unit("unit");
};

template <class S>
class ReferencePass {
 public:
  /// Values as the initialisers say, or small random ones for those that start as constants, which hide mistakes.
  explicit ReferencePass(zeroth::Model const& model) : params_{model.description().params} {
    for (auto param : params_) {
      if (std::holds_alternative<zeroth::Constant>(param.init)) {
        param.init = zeroth::Normal{0.3F, std::get<zeroth::Constant>(param.init).value};
      } else {
        param.init = zeroth::Normal{0.3F};
      }
      std::vector<float> start(static_cast<std::size_t>(param.count));
      zeroth::model::initialise(model.description().seed, param, 0, start);
      values.emplace_back(start.begin(), start.end());
    }
    clear_gradients();
  }

  /// As the engine hands gradients out: garbage, until the first contribution overwrites it.
  void clear_gradients() {
    gradients.clear();
    for (auto const& value : values) {
      gradients.emplace_back(value.size(), std::numeric_limits<S>::quiet_NaN());
    }
    written_.assign(values.size(), false);
  }

  class Open final : public Gradients<S> {
   public:
    explicit Open(ReferencePass& pass) : pass_{pass} {}
    ConstTensor<S, 1> operator[](Param<1> const& p) const override { return read(p); }
    ConstTensor<S, 2> operator[](Param<2> const& p) const override { return read(p); }
    Contribution<S, 1> grad(Param<1> const& p) const override { return write(p); }
    Contribution<S, 2> grad(Param<2> const& p) const override { return write(p); }

   private:
    template <std::size_t D>
    [[nodiscard]] ConstTensor<S, D> read(Param<D> const& p) const {
      return const_tensor<S, D>(pass_.values[index_of(p)].data(), p.shape());
    }
    template <std::size_t D>
    [[nodiscard]] Contribution<S, D> write(Param<D> const& p) const {
      bool const first = !pass_.written_[index_of(p)];
      pass_.written_[index_of(p)] = true;
      return {pass_.gradients[index_of(p)].data(), p.shape(), first ? 0.0F : 1.0F};
    }
    ReferencePass& pass_;
  };
  [[nodiscard]] Open forward(zeroth::Unit) { return Open{*this}; }
  [[nodiscard]] Open backward(zeroth::Unit) { return Open{*this}; }

  [[nodiscard]] std::string const& name(std::size_t param) const { return params_[param].name; }

  std::vector<Values<S>> values, gradients;  // by parameter

 private:
  std::vector<zeroth::model::ParamDescription> params_;
  std::vector<bool> written_;
};

}  // namespace gpt
