// SPDX-License-Identifier: Apache-2.0
/// The cross-entropy over a vocabulary that tensor ranks divide equals that of the whole in fp64, on any number of
/// ranks.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/job.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/parallel/tensor.hpp"

namespace zeroth::testing {
namespace {

using Catch::Matchers::Contains;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A problem of [rows, words], with the target of each row.
struct Logits {
  std::int64_t words = 0;
  std::vector<double> values;
  std::vector<std::int64_t> targets;
  [[nodiscard]] std::int64_t rows() const { return std::ssize(targets); }
  [[nodiscard]] double& at(std::int64_t row, std::int64_t word) {
    return values[static_cast<std::size_t>(row * words + word)];
  }
};

/// Converts numbers to type T.
template <class T>
Logits random_logits(std::mt19937& random, std::int64_t rows, std::int64_t words, float spread) {
  std::normal_distribution<float> normal{0, spread};
  Logits logits{words, {}, {}};
  for (std::int64_t i = 0; i < rows * words; ++i) {
    logits.values.push_back(static_cast<double>(to_float(from_float<T>(normal(random)))));
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    logits.targets.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(words)));
  }
  return logits;
}

/// The formula, in fp64.
struct Expected {
  std::vector<double> losses, slopes;
  double loss = 0;
};
Expected expected_of(Logits logits, double seed) {
  Expected expected;
  auto const rows = logits.rows();
  for (std::int64_t row = 0; row < rows; ++row) {
    double largest = -infinity, sum = 0;
    for (std::int64_t word = 0; word < logits.words; ++word) {
      largest = std::max(largest, logits.at(row, word));
    }
    for (std::int64_t word = 0; word < logits.words; ++word) {
      sum += std::exp(logits.at(row, word) - largest);
    }
    auto const target = logits.targets[static_cast<std::size_t>(row)];
    expected.losses.push_back(std::log(sum) + largest - logits.at(row, target));
    expected.loss += expected.losses.back() / static_cast<double>(rows);
    for (std::int64_t word = 0; word < logits.words; ++word) {
      auto const probability = std::exp(logits.at(row, word) - largest) / sum;
      expected.slopes.push_back((probability - (word == target ? 1 : 0)) * seed / static_cast<double>(rows));
    }
  }
  return expected;
}

/// The results of all ranks.
template <class S>
struct Found {
  std::vector<float> loss;  // of each rank
  std::vector<std::vector<float>> losses;
  std::vector<double> slopes;  // [rows, words]
  std::vector<S> padding;
};

/// Computes it on `ranks` ranks that have `cut` rows of a matrix; padding columns hold NaNs.
template <class T, class S>
Found<S> compute(Logits const& logits, int ranks, Cut const& cut, float seed) {
  auto const rows = logits.rows();
  Found<S> found;
  found.loss.resize(static_cast<std::size_t>(ranks));
  found.losses.resize(found.loss.size());
  found.slopes.assign(logits.values.size(), infinity);
  std::vector<std::vector<S>> padding(found.loss.size());
  auto const outcome = run_job(ranks, [&](Job& job) {
    TensorParallel tp{job};
    auto const rank = static_cast<std::size_t>(job.rank());
    Model model{1, {job.rank(), ranks}};
    auto const part = tp.rows(model.param(model.unit("head"), "words", {logits.words, 3}, Constant{0}, {.cut = cut}));
    auto const nan = from_float<T>(std::numeric_limits<float>::quiet_NaN());
    std::vector<T> own(static_cast<std::size_t>(rows * part.padded), nan);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < part.count; ++column) {
        own[static_cast<std::size_t>(row * part.padded + column)] = from_float<T>(
            static_cast<float>(logits.values[static_cast<std::size_t>(row * logits.words + part.first + column)]));
      }
    }
    View<T const, 2> const view{own.data(), {rows, part.padded}};
    CrossEntropyTape tape;
    found.loss[rank] = tp.cross_entropy(view, logits.targets, part, tape);
    found.losses[rank].assign(tape.losses().begin(), tape.losses().end());
    std::vector<S> apart(own.size(), from_float<S>(9));
    View<S, 2> slopes{apart.data(), {rows, part.padded}};
    if constexpr (std::same_as<T, S>) {
      slopes = {own.data(), {rows, part.padded}};  // in place
    }
    tp.cross_entropy_backward(view, tape, seed, slopes);
    for (std::int64_t row = 0; row < rows; ++row) {
      auto const* const from = slopes.data() + row * part.padded;
      for (std::int64_t column = 0; column < part.count; ++column) {
        found.slopes[static_cast<std::size_t>(row * logits.words + part.first + column)] =
            static_cast<double>(to_float(from[column]));
      }
      padding[rank].insert(padding[rank].end(), from + part.count, from + part.padded);
    }
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& of_rank : padding) {
    found.padding.insert(found.padding.end(), of_rank.begin(), of_rank.end());
  }
  return found;
}

/// Half of the last place of a number near 1.
template <class S>
constexpr double rounding = std::same_as<S, float>  ? 0x1p-24
                            : std::same_as<S, bf16> ? 0x1p-8
                                                    : 0x1p-11;

template <class T, class S>
void check(Logits const& logits, int ranks, Cut const& cut, float seed = 1) {
  INFO(fmt::format("{} to {}, {} rows, {} words, {} ranks, multiple {}", name_of(dtype_of<T>), name_of(dtype_of<S>),
                   logits.rows(), logits.words, ranks, cut.multiple));
  auto const expected = expected_of(logits, static_cast<double>(seed));
  auto const found = compute<T, S>(logits, ranks, cut, seed);
  double const near = 1e-6;
  for (std::size_t rank = 0; rank < found.loss.size(); ++rank) {
    REQUIRE(found.loss[rank] == found.loss[0]);
    REQUIRE(found.losses[rank] == found.losses[0]);
  }
  REQUIRE(std::abs(static_cast<double>(found.loss[0]) - expected.loss) <= near * (1 + expected.loss));
  for (std::size_t row = 0; row < expected.losses.size(); ++row) {
    auto const loss = expected.losses[row];
    REQUIRE(std::abs(static_cast<double>(found.losses[0][row]) - loss) <= near * (1 + loss));
  }
  auto const largest = static_cast<double>(std::abs(seed)) / static_cast<double>(logits.rows());
  for (std::size_t i = 0; i < expected.slopes.size(); ++i) {
    // fp16 has numbers below 2^-14 that are a multiple of 2^-24.
    auto const allowed = near * largest + rounding<S> * std::abs(expected.slopes[i]) + 0x1p-25;
    REQUIRE(std::abs(found.slopes[i] - expected.slopes[i]) <= allowed);
  }
  for (auto const& each : found.padding) {
    REQUIRE(to_float(each) == 0);
  }
}

}  // namespace

TEST_CASE("a cross-entropy over a vocabulary that tensor ranks divide is what fp64 has of the whole") {
  std::mt19937 random{7};
  for (int const ranks : {1, 2, 3, 4}) {
    for (std::int64_t const words : {1, 2, 15, 16, 17, 255, 256, 257, 1000}) {
      for (auto const multiple : {std::int64_t{1}, std::int64_t{24}, cut_of_vocabulary({0, ranks}).multiple}) {
        auto const rows = static_cast<std::int64_t>(1 + random() % 6);
        auto const spread = std::ldexp(1.0F, static_cast<int>(random() % 8) - 3);
        Cut const cut{.dim = 0, .sections = {}, .multiple = multiple};
        check<float, float>(random_logits<float>(random, rows, words, spread), ranks, cut, -3);
        check<float, bf16>(random_logits<float>(random, rows, words, spread), ranks, cut);
        check<bf16, bf16>(random_logits<bf16>(random, rows, words, spread), ranks, cut, 1024);
        check<fp16, fp16>(random_logits<fp16>(random, rows, words, spread), ranks, cut);
        check<bf16, float>(random_logits<bf16>(random, rows, words, spread), ranks, cut);
      }
    }
  }
}

TEST_CASE("a cross-entropy over a divided vocabulary has the same bits on every instruction set") {
  std::mt19937 random{8};
  auto const logits = random_logits<float>(random, 5, 700, 4);
  auto const cut = cut_of_vocabulary({0, 2});
  auto const best = compute<float, float>(logits, 2, cut, 1);
  for (Isa const isa : all_isas()) {
    WithIsa const with{isa};
    auto const found = compute<float, float>(logits, 2, cut, 1);
    CHECK(found.loss == best.loss);
    CHECK(found.slopes == best.slopes);
  }
}

TEST_CASE("a cross-entropy over a divided vocabulary holds at the extremes") {
  for (int const ranks : {1, 2, 3, 4}) {
    auto const cut = cut_of_vocabulary({0, ranks});
    for (double const huge : {90.0, 1e4, 3e38}) {
      for (std::int64_t const word : {0, 100, 299}) {  // on the first rank, and on others
        Logits logits{300, std::vector<double>(2 * 300, 0.5), {word, (word + 150) % 300}};
        logits.at(0, word) = logits.at(1, word) = static_cast<double>(static_cast<float>(huge));
        INFO(fmt::format("{} ranks, {} at {}", ranks, huge, word));
        auto const found = compute<float, float>(logits, ranks, cut, 1);
        CHECK(found.losses[0][0] == 0.0F);
        CHECK(static_cast<double>(found.losses[0][1]) == Approx(huge - 0.5).epsilon(1e-6));
        auto const slope = [&](std::int64_t row, std::int64_t column) {
          return found.slopes[static_cast<std::size_t>(row * 300 + column)];
        };
        CHECK(slope(0, word) == 0);
        CHECK(slope(1, word) == 0.5);
        CHECK(slope(1, logits.targets[1]) == -0.5);
      }
    }
    INFO(ranks);
    // Words that no row may choose, among them all words of a rank; and a vocabulary on a single rank.
    Logits masked{300, std::vector<double>(2 * 300, -infinity), {1, 2}};
    for (std::int64_t row = 0; row < 2; ++row) {
      masked.at(row, 1) = masked.at(row, 2) = -5;
    }
    check<float, float>(masked, ranks, cut);
    check<float, float>({4, {1, 2, 3, 4}, {2}}, ranks, cut);
    for (double const bad : {infinity, std::numeric_limits<double>::quiet_NaN()}) {
      Logits spoilt{300, std::vector<double>(2 * 300, 1), {7, 7}};
      spoilt.at(1, 290) = bad;
      auto const found = compute<float, float>(spoilt, ranks, cut, 1);
      for (std::size_t rank = 0; rank < found.losses.size(); ++rank) {
        CHECK(std::isfinite(found.losses[rank][0]));
        CHECK(std::isnan(found.losses[rank][1]));
        CHECK(std::isnan(found.loss[rank]));
      }
      CHECK(std::isnan(found.slopes[300 + 7]));
      CHECK(std::isnan(found.slopes[300 + 290]));
    }
  }
}

TEST_CASE("slopes of a cross-entropy over a divided vocabulary are finite differences of its loss") {
  std::mt19937 random{9};
  for (int const ranks : {1, 2, 3}) {
    Cut const cut{.dim = 0, .sections = {}, .multiple = 4};
    auto logits = random_logits<float>(random, 2, 10, 1);
    auto const found = compute<float, float>(logits, ranks, cut, 1);
    constexpr double step = 1.0 / 64;
    for (std::size_t i = 0; i < logits.values.size(); ++i) {
      auto const middle = logits.values[i];
      auto const loss_at = [&](double value) {
        logits.values[i] = value;
        return static_cast<double>(compute<float, float>(logits, ranks, cut, 1).loss[0]);
      };
      auto const slope = (loss_at(middle + step) - loss_at(middle - step)) / (2 * step);
      logits.values[i] = middle;
      CAPTURE(ranks, i);
      CHECK(std::abs(slope - found.slopes[i]) < 5e-5);
    }
  }
}

TEST_CASE("tensor ranks have the rows of a vocabulary once together, and say which") {
  for (int const ranks : {1, 2, 3, 5}) {
    for (std::int64_t const words : {1, 100, 128, 256, 1000}) {
      std::vector<VocabularyPart> parts(static_cast<std::size_t>(ranks));
      REQUIRE(messages_of(run_job(ranks, [&](Job& job) {
                TensorParallel const tp{job};
                Model model{1, {job.rank(), ranks}};
                auto const unit = model.unit("embedding");
                auto const param = model.param(unit, "words", {words, 8}, Constant{0},
                                               {.cut = cut_of_vocabulary(model.tensor_part())});
                auto const part = parts[static_cast<std::size_t>(job.rank())] = tp.rows(param);
                ZEROTH_EXPECTS(part.padded == param.shape()[0], "the parameter's rows");
              })) == "");
      CAPTURE(ranks, words);
      std::int64_t next = 0, padded = 0;
      for (auto const& part : parts) {
        CHECK(part.first == next);
        CHECK(part.all == words);
        CHECK(!part.has(part.first - 1));
        CHECK(part.has(part.first) == (part.count > 0));
        CHECK(!part.has(part.first + part.count));
        next += part.count;
        padded += part.padded;
      }
      CHECK(next == words);
      CHECK(padded % 128 == (ranks == 1 ? words % 128 : 0));
    }
  }
}

TEST_CASE("a vocabulary that is not divided by rows is refused, and so are targets and shapes that do not fit") {
  auto const said = [](int ranks, auto const& call) {
    return message_of(run_job(ranks, [&](Job& job) {
      TensorParallel tp{job};
      call(job, tp);
    })[static_cast<std::size_t>(ranks) - 1]);
  };
  auto const rows_with = [&](ParamOptions const& options) {
    return said(2, [&](Job& job, TensorParallel const& tp) {
      Model model{1, {job.rank(), 2}};
      static_cast<void>(tp.rows(model.param(model.unit("a"), "w", {8, 6}, Constant{0}, options)));
    });
  };
  for (auto const& options :
       {ParamOptions{}, ParamOptions{.cut = Cut{.dim = 1}}, ParamOptions{.cut = Cut{.dim = 0, .sections = {4, 4}}}}) {
    CHECK_THAT(rows_with(options), Contains("2 tensor ranks do not divide in one section: give it ParamOptions::cut = "
                                            "cut_of_vocabulary(model.tensor_part())"));
  }
  CHECK_THAT(
      said(2,
           [](Job&, TensorParallel const& tp) {
             Model model{1, {0, 2}};
             static_cast<void>(tp.rows(model.param(model.unit("a"), "w", {8, 6}, Constant{0}, {.cut = Cut{.dim = 0}})));
           }),
      Contains("rows() on tensor rank 1 of 2, of a parameter that begins with row 0"));

  std::vector<float> numbers(12, 1.0F);
  View<float const, 2> const logits{numbers.data(), {3, 4}};
  CrossEntropyTape tape;
  auto const loss = [&](std::vector<std::int64_t> const& targets, VocabularyPart const& part) {
    return said(1, [&](Job&, TensorParallel& tp) { static_cast<void>(tp.cross_entropy(logits, targets, part, tape)); });
  };
  VocabularyPart const all{0, 4, 4, 4};
  CHECK_THAT(loss({0, 1, 4}, all), Contains("cross_entropy(): the target of row 2 is 4; allowed are the words of the "
                                            "vocabulary, 0 to 3"));
  CHECK_THAT(loss({0, -1, 3}, all), Contains("the target of row 1 is -1"));
  CHECK_THAT(loss({0, 1}, all), Contains("cross_entropy() of 2 targets and logits of 3 rows"));
  CHECK_THAT(loss({0, 1, 2}, {0, 5, 5, 5}),
             Contains("cross_entropy() of logits with 4 columns, and a vocabulary of which "
                      "this rank has 5, with padding: see TensorParallel::rows()"));
  CHECK(loss({0, 1, 2}, all).empty());
  std::vector<float> slopes(12);
  CHECK_THAT(said(1,
                  [&](Job&, TensorParallel const& tp) {
                    tp.cross_entropy_backward(logits, tape, 1, View<float, 2>{slopes.data(), {4, 3}});
                  }),
             Contains("cross_entropy_backward() of logits [3, 4] to slopes [4, 3], behind a cross_entropy() of logits "
                      "[3, 4]; allowed: equal shapes"));
}

}  // namespace zeroth::testing
