// SPDX-License-Identifier: Apache-2.0
/// Compares Muon's direction and its iteration with the same formulas in fp64.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/isa.hpp"
#include "zeroth/optim/muon.hpp"

namespace zeroth::testing {
namespace {

/// A matrix in fp64, row by row.
struct Wide {
  std::int64_t rows, columns;
  std::vector<double> values;
  Wide(std::int64_t r, std::int64_t c) : rows{r}, columns{c}, values(static_cast<std::size_t>(r * c)) {}
  double& at(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * columns + j)]; }
  double at(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(i * columns + j)]; }
};

Wide transposed(Wide const& a) {
  Wide result{a.columns, a.rows};
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.columns; ++j) {
      result.at(j, i) = a.at(i, j);
    }
  }
  return result;
}

Wide product(Wide const& a, Wide const& b) {
  Wide result{a.rows, b.columns};
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.columns; ++k) {
      for (std::int64_t j = 0; j < b.columns; ++j) {
        result.at(i, j) += a.at(i, k) * b.at(k, j);
      }
    }
  }
  return result;
}

/// a x + b y
Wide sum(double a, Wide const& x, double b, Wide const& y) {
  Wide result{x.rows, x.columns};
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    result.values[i] = a * x.values[i] + b * y.values[i];
  }
  return result;
}

double dot(Wide const& a, Wide const& b) {
  double result = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    result += a.values[i] * b.values[i];
  }
  return result;
}

double norm(Wide const& a) { return std::sqrt(dot(a, a)); }

/// `steps` of x <- c1 x + c3 x x^T x + c5 (x x^T)^2 x, from the normalised matrix.
Wide iterated(Wide const& matrix, int steps, double c1, double c3, double c5) {
  bool const tall = matrix.rows > matrix.columns;
  auto x = tall ? transposed(matrix) : matrix;
  x = sum(1 / norm(x), x, 0, x);
  for (int step = 0; step < steps; ++step) {
    auto const gram = product(x, transposed(x));
    x = sum(c1, x, 1, product(sum(c3, gram, c5, product(gram, gram)), x));
  }
  return tall ? transposed(x) : x;
}

Wide normal_matrix(std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937 random{seed};
  std::normal_distribution<double> normal;
  Wide matrix{rows, columns};
  for (auto& value : matrix.values) {
    value = static_cast<double>(to_float(from_float<bf16>(static_cast<float>(normal(random)))));
  }
  return matrix;
}

std::vector<bf16> narrow(Wide const& matrix) {
  std::vector<bf16> result;
  for (auto const value : matrix.values) {
    result.push_back(from_float<bf16>(static_cast<float>(value)));
  }
  return result;
}

std::vector<bf16> orthogonal(std::vector<bf16> matrix, std::int64_t rows, std::int64_t columns,
                             optim::Muon const& rule = {}, bool skip = false) {
  auto const bytes = optim::orthogonal_workspace_bytes(rule, rows, columns);
  struct alignas(64) Block {
    std::byte bytes[64];
  };
  std::vector<Block> memory(static_cast<std::size_t>((bytes + 63) / 64));
  std::memset(memory.data(), 0xff, memory.size() * sizeof(Block));  // NaN, so that unwritten memory that is read is
                                                                    // detected
  optim::StepScalars scalars;
  scalars.skip = skip;
  optim::orthogonalise({matrix.data(), rows, columns, memory.front().bytes, &rule, &scalars});
  return matrix;
}

Wide widened(std::vector<bf16> const& matrix, std::int64_t rows, std::int64_t columns) {
  Wide result{rows, columns};
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    result.values[i] = static_cast<double>(to_float(matrix[i]));
  }
  return result;
}

std::vector<std::uint16_t> bits_of(std::vector<bf16> const& values) {
  std::vector<std::uint16_t> bits;
  for (auto const value : values) {
    bits.push_back(value.bits);
  }
  return bits;
}

constexpr optim::NewtonSchulzMethod methods[] = {optim::NewtonSchulzMethod::standard, optim::NewtonSchulzMethod::gram};
char const* method_name(optim::NewtonSchulzMethod method) {
  return method == optim::NewtonSchulzMethod::gram ? "gram" : "standard";
}

struct Shape {
  std::int64_t rows, columns;
};
constexpr Shape shapes[] = {{1, 1},   {1, 50},  {50, 1},   {7, 5},    {5, 7},
                            {32, 32}, {33, 65}, {64, 200}, {200, 64}, {100, 97}};

}  // namespace

TEST_CASE("Muon's matrices are what the iteration gives in fp64") {
  auto const method = GENERATE(from_range(std::begin(methods), std::end(methods)));
  for (auto const& [rows, columns] : shapes) {
    INFO(fmt::format("{}, {} x {}", method_name(method), rows, columns));
    auto const matrix = normal_matrix(rows, columns, 3);
    auto const expected = iterated(matrix, 5, 3.4445, -4.7750, 2.0315);
    optim::Muon const rule{.method = method};
    auto const factor = static_cast<double>(optim::adjustment(rule, rows, columns));
    auto const result = sum(1 / factor, widened(orthogonal(narrow(matrix), rows, columns), rows, columns), 0, expected);
    CHECK(norm(sum(1, result, -1, expected)) <= 0.02 * norm(expected));
    CHECK(dot(result, expected) >= (1 - 1e-3) * norm(result) * norm(expected));
  }
}

TEST_CASE("Gram matrices give the iteration's result after any number of steps") {
  for (int const steps : {1, 2, 3, 4, 5, 6, 7, 8, 12}) {
    for (auto const& [rows, columns] : {Shape{7, 5}, {33, 65}, {64, 200}}) {
      INFO(fmt::format("{} steps, {} x {}", steps, rows, columns));
      auto const matrix = normal_matrix(rows, columns, 3);
      auto const expected = iterated(matrix, steps, 3.4445, -4.7750, 2.0315);
      optim::Muon const rule{.steps = steps, .method = optim::NewtonSchulzMethod::gram};
      auto const factor = static_cast<double>(optim::adjustment(rule, rows, columns));
      auto const result = widened(orthogonal(narrow(matrix), rows, columns, rule), rows, columns);
      CHECK(norm(sum(1 / factor, result, -1, expected)) <= 0.02 * norm(expected));
    }
  }
}

TEST_CASE("Gram matrices keep small singular values, which a step multiplies by more than three") {
  constexpr std::int64_t rows = 40, columns = 160;
  auto matrix = normal_matrix(rows, columns, 13);
  for (std::int64_t i = 0; i < rows; ++i) {  // rows of very different lengths
    for (std::int64_t j = 0; j < columns; ++j) {
      matrix.at(i, j) *= std::ldexp(1.0, -static_cast<int>(i / 4));
    }
  }
  auto const expected = iterated(matrix, 5, 3.4445, -4.7750, 2.0315);
  optim::Muon const rule{.method = optim::NewtonSchulzMethod::gram};
  auto const result = widened(orthogonal(narrow(matrix), rows, columns, rule), rows, columns);
  CHECK(norm(sum(1, result, -1, expected)) <= 0.02 * norm(expected));
}

TEST_CASE("Gram matrices need fewer operations where a matrix is not square") {
  optim::Muon const standard, gram{.method = optim::NewtonSchulzMethod::gram};
  CHECK(optim::orthogonal_operations(standard, 100, 400) == 65e6);
  CHECK(optim::orthogonal_operations(gram, 400, 100) == 38e6);
  CHECK(optim::orthogonal_operations(gram, 100, 100) == optim::orthogonal_operations(standard, 100, 100));
  CHECK(optim::orthogonal_workspace_bytes(gram, 64, 64) == optim::orthogonal_workspace_bytes(standard, 64, 64));
  CHECK(optim::orthogonal_workspace_bytes(gram, 64, 200) - optim::orthogonal_workspace_bytes(standard, 64, 200) ==
        2 * 2 * 64 * 64);
}

TEST_CASE("Muon's matrices are nearly orthogonal, with the singular vectors of what they are made of") {
  auto const method = GENERATE(from_range(std::begin(methods), std::end(methods)));
  for (auto const& [rows, columns] : shapes) {
    INFO(fmt::format("{}, {} x {}", method_name(method), rows, columns));
    auto const matrix = normal_matrix(rows, columns, 5);
    auto const nearest = iterated(matrix, 60, 1.5, -0.5, 0);  // Newton and Schulz: converges to the nearest
    auto const n = static_cast<double>(std::min(rows, columns));
    REQUIRE(std::abs(dot(nearest, nearest) - n) < 1e-6 * n);
    optim::Muon const rule{.adjust_rate = optim::AdjustRate::match_rms_adamw, .method = method};
    auto const result = widened(orthogonal(narrow(matrix), rows, columns, rule), rows, columns);
    auto const size = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    CHECK(norm(result) / std::sqrt(n) == Approx(size).epsilon(0.35));
    CHECK(dot(result, nearest) >= 0.97 * norm(result) * norm(nearest));
  }
}

TEST_CASE("Muon's matrices have the same bits on every instruction set") {
  auto const method = GENERATE(from_range(std::begin(methods), std::end(methods)));
  optim::Muon const rule{.method = method};
  for (auto const& [rows, columns] : shapes) {
    INFO(fmt::format("{}, {} x {}", method_name(method), rows, columns));
    auto const matrix = narrow(normal_matrix(rows, columns, 7));
    auto const expected = bits_of(orthogonal(matrix, rows, columns, rule));
    for (auto const isa : all_isas()) {
      WithIsa const with{isa};
      INFO(name_of(isa));
      CHECK(bits_of(orthogonal(matrix, rows, columns, rule)) == expected);
    }
  }
}

TEST_CASE("a program's own products replace the library's") {
  for (auto const& [rows, columns] : shapes) {
    INFO(fmt::format("{} x {}", rows, columns));
    auto const n = std::min(rows, columns), m = std::max(rows, columns);
    int calls = 0;
    optim::Muon rule;
    rule.multiply = [&](optim::MatrixProduct const& p) {
      ++calls;
      CHECK(p.rows == n);
      CHECK(p.symmetric == (p.columns == n && (calls % 3 != 0)));
      for (std::int64_t i = 0; i < p.rows; ++i) {
        for (std::int64_t j = 0; j < p.columns; ++j) {
          float sum = 0;
          for (std::int64_t k = 0; k < p.inner; ++k) {
            auto const right = p.transposes_right ? p.right[j * p.inner + k] : p.right[k * p.columns + j];
            sum += to_float(p.left[i * p.inner + k]) * to_float(right);
          }
          p.sums[i * p.columns + j] = p.symmetric && j > i ? NAN : sum;  // not read
        }
      }
    };
    auto const matrix = narrow(normal_matrix(rows, columns, 3));
    CHECK(bits_of(orthogonal(matrix, rows, columns, rule)) == bits_of(orthogonal(matrix, rows, columns)));
    CHECK(calls == 15);
    CHECK(optim::orthogonal_workspace_bytes(rule, rows, columns) >= 4 * n * m + 4 * n * n + 4 * n * m);
  }
  optim::Muon broken;
  broken.multiply = [](optim::MatrixProduct const&) { throw std::runtime_error{"of the program"}; };
  CHECK_THROWS_WITH(orthogonal(narrow(normal_matrix(4, 4, 1)), 4, 4, broken), "of the program");
}

TEST_CASE("operands that are too small for exact products count as 0, on every instruction set") {
  auto const method = GENERATE(from_range(std::begin(methods), std::end(methods)));
  optim::Muon const rule{.method = method};
  std::vector<bf16> matrix(64 * 40);
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    matrix[i] = from_float<bf16>(std::ldexp(1.0F, -static_cast<int>(i % 120)));
  }
  auto const expected = bits_of(orthogonal(matrix, 64, 40, rule));
  for (auto const isa : all_isas()) {
    WithIsa const with{isa};
    CHECK(bits_of(orthogonal(matrix, 64, 40, rule)) == expected);
  }
}

TEST_CASE("a matrix of zeros stays one, a NaN spreads, and a skipped step changes nothing") {
  auto const method = GENERATE(from_range(std::begin(methods), std::end(methods)));
  optim::Muon const rule{.method = method};
  std::vector<bf16> const zeros(35, bf16{0});
  CHECK(bits_of(orthogonal(zeros, 7, 5, rule)) == bits_of(zeros));
  auto matrix = narrow(normal_matrix(7, 5, 9));
  CHECK(bits_of(orthogonal(matrix, 7, 5, rule, true)) == bits_of(matrix));
  matrix[3] = from_float<bf16>(NAN);
  auto const spread = orthogonal(matrix, 7, 5, rule);
  CHECK(std::ranges::all_of(spread, [](bf16 value) { return std::isnan(to_float(value)); }));
}

TEST_CASE("Muon's direction is torch's: two means of gradient and momentum") {
  constexpr std::size_t count = 1037;
  for (bool const nesterov : {false, true}) {
    for (double const beta : {0.95, 0.25}) {
      optim::Muon const rule{.momentum = beta, .nesterov = nesterov};
      optim::StepScalars scalars;
      scalars.gradient_scale = 0.5F;
      auto const gradients = normal_matrix(3, static_cast<std::int64_t>(count), 11);
      std::vector<float> momentum(count, 0.0F);
      std::vector<double> expected(count, 0.0);
      std::vector<bf16> direction(count);
      for (std::int64_t step = 0; step < 3; ++step) {
        std::vector<bf16> gradient;
        for (std::size_t i = 0; i < count; ++i) {
          gradient.push_back(from_float<bf16>(static_cast<float>(gradients.at(step, static_cast<std::int64_t>(i)))));
        }
        optim::DirectionArgs const args{gradient.data(),      Dtype::bf16, momentum.data(), direction.data(),
                                        std::ssize(gradient), &rule,       &scalars};
        scalars.skip = true;
        auto const before = momentum;
        optim::direction(args);
        REQUIRE(momentum == before);
        scalars.skip = false;
        optim::direction(args);
        for (std::size_t i = 0; i < count; ++i) {
          double const g = 0.5 * static_cast<double>(to_float(gradient[i]));
          expected[i] = beta * expected[i] + (1 - beta) * g;
          double const along = nesterov ? (1 - beta) * g + beta * expected[i] : expected[i];
          REQUIRE(static_cast<double>(momentum[i]) == Approx(expected[i]).margin(1e-6));
          REQUIRE(static_cast<double>(to_float(direction[i])) == Approx(along).epsilon(1.0 / 256).margin(1e-6));
        }
      }
    }
  }
}

}  // namespace zeroth::testing
