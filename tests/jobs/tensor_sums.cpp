// SPDX-License-Identifier: Apache-2.0
#include "jobs/tensor_sums.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

namespace zeroth::testing::jobs {
namespace {

/// A matrix whose rows are one row times different powers of two: every dtype rounds all of them alike, and no row
/// equals its neighbour.
template <Element T>
class Rows {
 public:
  explicit Rows(int ranks) : rows_{2 * ranks}, values_(static_cast<std::size_t>(rows_ * columns)) {}
  [[nodiscard]] View<T, 2> view() { return {values_.data(), {rows_, columns}}; }

  void fill(double number) {
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        // Multiples of 1/256, which fp16 does not round where they are small.
        auto const value = std::round(256 * number * static_cast<double>(1 + column)) / 256;
        at(row, column) = from_float<T>(to_float(from_float<T>(static_cast<float>(value))) * times(row));
      }
    }
  }
  /// All rows but `own`.
  void spoil_others(View<T, 2> const& own) {
    for (auto& value : values_) {
      if (&value < own.data() || &value >= own.data() + own.count()) {
        value = from_float<T>(std::numeric_limits<float>::quiet_NaN());
      }
    }
  }
  /// The number that the rows `some` encode; all must agree.
  [[nodiscard]] double number_in(View<T, 2> const& some, char const* verb) {
    auto const first = (some.data() - values_.data()) / columns;
    auto const all = number_of(first);
    for (auto row = first; row < first + some.extent(0); ++row) {
      auto const number = number_of(row);
      if (number != all && !(std::isnan(number) && std::isnan(all))) {
        throw std::runtime_error{fmt::format("{} gave {} in row {} and {} in row {}", verb, all, first, number, row)};
      }
    }
    return all;
  }

 private:
  static constexpr std::int64_t columns = 5;
  static float times(std::int64_t row) { return static_cast<float>(1 << (row % 3)); }
  T& at(std::int64_t row, std::int64_t column) { return values_[static_cast<std::size_t>(row * columns + column)]; }
  [[nodiscard]] double number_of(std::int64_t row) {
    double sum = 0;
    for (std::int64_t column = 0; column < columns; ++column) {
      sum += static_cast<double>(to_float(at(row, column)) / times(row));
    }
    return sum / static_cast<double>(columns * (columns + 1) / 2);
  }
  std::int64_t rows_;
  std::vector<T> values_;
};

}  // namespace

template <Element T>
double TensorSums::forward_in(double part) {
  Rows<T> rows{tp_.ranks()};
  rows.fill(part);
  auto const own = tp_.leave(rows.view()).wait();
  auto const sum = rows.number_in(own, "leave()");
  rows.spoil_others(own);
  auto const all = rows.number_in(tp_.enter(rows.view()).wait(), "enter()");
  if (all != sum && !(std::isnan(all) && std::isnan(sum))) {
    throw std::runtime_error{fmt::format("leave() gave {}, and enter() {}", sum, all)};
  }
  return sum;
}

template <Element T>
std::function<double()> TensorSums::backward_in(double same, double part) {
  auto const rows = std::make_shared<Rows<T>>(tp_.ranks());
  rows->fill(same);
  rows->spoil_others(tp_.own(rows->view()));
  static_cast<void>(rows->number_in(tp_.leave_backward(rows->view()).wait(), "leave_backward()"));
  rows->fill(part);
  auto const started = std::make_shared<TensorParallel::Started<T>>(tp_.enter_backward(rows->view()));
  return [rows, started] { return rows->number_in(started->wait(), "enter_backward()"); };
}

double TensorSums::forward(double part) {
  switch (dtype_) {
    case Dtype::bf16: return forward_in<bf16>(part);
    case Dtype::fp16: return forward_in<fp16>(part);
    default: return forward_in<float>(part);
  }
}

std::function<double()> TensorSums::backward(double same, double part) {
  switch (dtype_) {
    case Dtype::bf16: return backward_in<bf16>(same, part);
    case Dtype::fp16: return backward_in<fp16>(same, part);
    default: return backward_in<float>(same, part);
  }
}

}  // namespace zeroth::testing::jobs
