// SPDX-License-Identifier: Apache-2.0
/// A Pass without an engine on the CPU: parameters and gradients of a whole model in plain vectors, in any type.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <zeroth/adapters/eigen.hpp>
#include <zeroth/model/description.hpp>

#include "cpu/cpu.hpp"
#include "math.hpp"

namespace gpt {

/// Aligned as the engine's memory is: Eigen's order of summation depends on it.
template <class S>
using Values = std::vector<S, Eigen::aligned_allocator<S>>;

/// A Param does not expose its index, so this reads it from its bytes: {model, index, shape, shape of the whole, first
/// row}.
template <std::size_t D>
[[nodiscard]] std::size_t index_of(Param<D> const& p) {
  return std::bit_cast<std::array<std::uint32_t, 2 + 4 * D + 2>>(p)[1];
}

/// A pass for a single layer.
struct OneUnit {
  zeroth::Model model{7};
  zeroth::Unit unit = model.unit("unit");
};

using Doubles = cpu::Cpu<double>;  ///< The Device with which layers are compared.

/// zeroth::View, also for double.
template <class T, std::size_t D>
class ViewOf {
 public:
  ViewOf(T const* data, zeroth::Shape<D> const& shape) : data_{data}, shape_{shape} {}
  [[nodiscard]] T const* data() const { return data_; }
  [[nodiscard]] std::int64_t extent(std::size_t dim) const { return shape_[dim]; }

 private:
  T const* data_;
  zeroth::Shape<D> shape_;
};
/// zeroth::Gradient, also for double.
template <class G, std::size_t D>
class GradientAt {
 public:
  GradientAt(G* data, zeroth::Shape<D> const& shape, float beta) : data_{data}, shape_{shape}, beta_{beta} {}
  [[nodiscard]] G* data() const { return data_; }
  [[nodiscard]] zeroth::Shape<D> const& shape() const { return shape_; }
  [[nodiscard]] float beta() const { return beta_; }

 private:
  G* data_;
  zeroth::Shape<D> shape_;
  float beta_;
};

template <class T, class G = T>
class ReferencePass {
 public:
  /// Values of the initialisers, or small random ones for parameters that start as constants, which hide mistakes.
  explicit ReferencePass(zeroth::Model const& model, std::unique_ptr<cpu::Matmul> matmul = cpu::eigen_matmul())
      : params_{model.description().params}, matmul_{std::move(matmul)} {
    for (auto param : params_) {
      if (std::holds_alternative<zeroth::Constant>(param.init)) {
        param.init = zeroth::Normal{0.3F, std::get<zeroth::Constant>(param.init).value};
      } else {
        param.init = zeroth::Normal{0.3F};
      }
      std::vector<float> start(static_cast<std::size_t>(param.count));
      zeroth::model::initialise(model.description().seed, param, 0, start);
      auto& of_param = values.emplace_back();
      for (float const value : start) {
        of_param.push_back(as<T>(value));
      }
    }
    clear_gradients();
  }

  /// Fills gradients with garbage, which they have in an engine until the first contribution overwrites it.
  void clear_gradients() {
    gradients.clear();
    for (auto const& value : values) {
      auto& gradient = gradients.emplace_back(value.size());
      std::memset(static_cast<void*>(gradient.data()), 0xff, gradient.size() * sizeof(G));  // NaN in every type
    }
    written_.assign(values.size(), false);
  }

  struct Guard {
    ReferencePass& pass;
    template <std::size_t D>
    [[nodiscard]] ViewOf<T, D> operator[](Param<D> const& p) const {
      return {pass.values[index_of(p)].data(), p.shape()};
    }
    template <std::size_t D>
    [[nodiscard]] GradientAt<G, D> grad(Param<D> const& p) const {
      bool const first = !pass.written_[index_of(p)];
      pass.written_[index_of(p)] = true;
      return {pass.gradients[index_of(p)].data(), p.shape(), first ? 0.0F : 1.0F};
    }
  };
  using Open = OpenUnit<cpu::Cpu<T>, Guard>;
  [[nodiscard]] Open forward(zeroth::Unit) { return {cpu_, {*this}}; }
  [[nodiscard]] Open backward(zeroth::Unit) { return {cpu_, {*this}}; }

  [[nodiscard]] std::string const& name(std::size_t param) const { return params_[param].name; }

  std::vector<Values<T>> values;     // by parameter
  std::vector<Values<G>> gradients;  // likewise

 private:
  template <class V>
  [[nodiscard]] static V as(float value) {
    if constexpr (std::is_same_v<V, double>) {
      return static_cast<double>(value);
    } else {
      return zeroth::from_float<V>(value);
    }
  }

  std::vector<zeroth::model::ParamDescription> params_;
  std::vector<bool> written_;
  std::unique_ptr<cpu::Matmul> matmul_;
  cpu::Cpu<T> cpu_{*matmul_};
};

/// A copy as layers take it.
template <class S>
[[nodiscard]] cpu::Matrix<S> on_host(zeroth::Matrix<S> const& from) {
  cpu::Matrix<S> matrix;
  matrix.resize(from.rows(), from.cols());
  std::copy_n(from.data(), from.size(), matrix.data());
  return matrix;
}
/// The matrix itself, as an Eigen map.
template <class S>
[[nodiscard]] Eigen::Map<zeroth::Matrix<S>> eigen(cpu::Matrix<S>& matrix) {
  return {matrix.data(), matrix.rows(), matrix.cols()};
}
template <class S>
[[nodiscard]] cpu::Matrix<S> host_matrix(std::int64_t rows, std::int64_t cols) {
  cpu::Matrix<S> matrix;
  matrix.resize(rows, cols);
  std::memset(static_cast<void*>(matrix.data()), 0xff, static_cast<std::size_t>(matrix.count()) * sizeof(S));  // NaN
  return matrix;
}

}  // namespace gpt
