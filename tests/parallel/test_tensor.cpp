// SPDX-License-Identifier: Apache-2.0
/// TensorParallel: each function of backward is the adjoint of one of forward, in whole numbers.
#include "zeroth/parallel/tensor.hpp"

#include <array>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::int64_t rows = 12;
constexpr std::int64_t columns = 5;

/// Small whole numbers, so that no sum is rounded in any dtype.
template <class T>
std::vector<T> whole_numbers(unsigned seed) {
  std::mt19937 random{seed};
  std::vector<T> values;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    values.push_back(from_float<T>(static_cast<float>(random() % 7) - 3));
  }
  return values;
}

template <class T>
View<T, 2> matrix(std::vector<T>& values) {
  return {values.data(), {rows, columns}};
}

template <class T>
double product(View<T, 2> const& a, View<T, 2> const& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    sum += static_cast<double>(to_float(a.data()[i])) * static_cast<double>(to_float(b.data()[i]));
  }
  return sum;
}

/// Sums over ranks of the inner products of a function and of its adjoint. Rows that all ranks have count once.
struct Products {
  double forward = 0, backward = 0;
};

/// <enter x, y> and <x, enter_backward y>. The argument of enter() has own rows, and its result all rows of each rank.
template <class T>
Products enter_products(TensorParallel& tp) {
  auto const rank = static_cast<unsigned>(tp.index());
  auto x = whole_numbers<T>(tp.sequence() ? rank : 0);
  auto const start = x;
  auto y = whole_numbers<T>(100 + rank);
  auto const start_of_y = y;
  auto entered = tp.enter(matrix(x));
  auto const all = entered.wait();
  Products result;
  auto y_before = start_of_y;
  result.forward = product(all, matrix(y_before));
  auto back = tp.enter_backward(matrix(y));
  auto x_before = start;
  bool const counts = tp.sequence() || rank == 0;
  auto const own = back.wait();
  result.backward = counts ? product(tp.own(matrix(x_before)), own) : 0;
  return result;
}

/// <leave y, z> and <y, leave_backward z>.
template <class T>
Products leave_products(TensorParallel& tp) {
  auto const rank = static_cast<unsigned>(tp.index());
  auto y = whole_numbers<T>(200 + rank);
  auto y_before = y;
  auto z = whole_numbers<T>(tp.sequence() ? 300 + rank : 300);
  auto z_before = z;
  auto left = tp.leave(matrix(y));
  auto const own = left.wait();
  bool const counts = tp.sequence() || rank == 0;
  Products result;
  result.forward = counts ? product(own, tp.own(matrix(z_before))) : 0;
  auto back = tp.leave_backward(matrix(z));
  result.backward = product(matrix(y_before), back.wait());
  return result;
}

template <class T>
void check_adjoints() {
  for (int const ranks : {1, 2, 3, 4}) {
    for (bool const sequence : {false, true}) {
      std::vector<Products> enter(static_cast<std::size_t>(ranks)), leave(static_cast<std::size_t>(ranks));
      auto const outcome = run_job(ranks, [&](Job& job) {
        TensorParallel tp{job, {.sequence = sequence}};
        enter[static_cast<std::size_t>(tp.index())] = enter_products<T>(tp);
        leave[static_cast<std::size_t>(tp.index())] = leave_products<T>(tp);
      });
      REQUIRE(messages_of(outcome) == "");
      CAPTURE(ranks, sequence, name_of(dtype_of<T>));
      for (auto const& products : {enter, leave}) {
        Products sum;
        for (auto const& each : products) {
          sum.forward += each.forward;
          sum.backward += each.backward;
        }
        CHECK(sum.forward == sum.backward);
        CHECK(sum.forward != 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("a verb of backward is the adjoint of the one forward, in whole numbers") {
  check_adjoints<float>();
  check_adjoints<bf16>();
  check_adjoints<fp16>();
}

TEST_CASE("what is left is the sum of all ranks' parts, and what is entered is all ranks' rows") {
  constexpr int ranks = 3;
  for (bool const sequence : {false, true}) {
    std::vector<std::vector<float>> entered(ranks), left(ranks);
    std::vector<std::int64_t> own_rows(ranks);
    auto const outcome = run_job(ranks, [&](Job& job) {
      TensorParallel tp{job, {.sequence = sequence}};
      auto const rank = static_cast<std::size_t>(tp.index());
      auto x = whole_numbers<float>(7);
      auto const all = matrix(x);
      auto const own = tp.own(all);
      own_rows[rank] = own.extent(0);
      for (float* other = all.data(); other != all.data() + all.count(); ++other) {  // rows that enter() must bring
        *other = other >= own.data() && other < own.data() + own.count() ? *other : -99;
      }
      auto const result = tp.enter(all).wait();
      entered[rank].assign(result.data(), result.data() + result.count());
      auto y = whole_numbers<float>(100 + static_cast<unsigned>(rank));
      auto const sum = tp.leave(matrix(y)).wait();
      left[rank].assign(sum.data(), sum.data() + sum.count());
    });
    REQUIRE(messages_of(outcome) == "");
    std::vector<float> sum(static_cast<std::size_t>(rows * columns), 0);
    for (unsigned rank = 0; rank < ranks; ++rank) {
      auto const part = whole_numbers<float>(100 + rank);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += part[i];
      }
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      CHECK(own_rows[rank] == (sequence ? rows / ranks : rows));
      CHECK(entered[rank] == whole_numbers<float>(7));
      auto const size = sequence ? sum.size() / ranks : sum.size();
      auto const begin = sum.begin() + static_cast<std::ptrdiff_t>(sequence ? rank * size : 0);
      CHECK(left[rank] == std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(size)));
    }
  }
}

TEST_CASE("work goes on between the start of a verb and its wait, and one rank has nothing to wait for") {
  auto const outcome = run_job(1, [](Job& job) {
    TensorParallel tp{job, {.sequence = true}};
    auto x = whole_numbers<float>(1);
    auto const before = x;
    ZEROTH_EXPECTS(!tp.sequence() && tp.ranks() == 1 && tp.own(matrix(x)).extent(0) == rows, "one rank has all rows");
    for (auto const verb : {&TensorParallel::enter<float>, &TensorParallel::leave<float>,
                            &TensorParallel::enter_backward<float>, &TensorParallel::leave_backward<float>}) {
      auto started = (tp.*verb)(matrix(x));
      ZEROTH_EXPECTS(started.wait().data() == x.data() && started.wait().count() == rows * columns, "in place");
    }
    ZEROTH_EXPECTS(x == before, "nothing changes");
  });
  CHECK(messages_of(outcome) == "");
}

TEST_CASE("a program's own collectives run among the verbs, and are refused where no other rank is") {
  auto const outcome = run_job(2, [](Job& job) {
    TensorParallel tp{job};
    float value = static_cast<float>(job.rank() + 1);
    std::array const maximum{comm::Collective{.operation = comm::Operation::all_reduce,
                                              .input = &value,
                                              .output = &value,
                                              .count = 1,
                                              .dtype = Dtype::fp32,
                                              .reduce = Reduce::maximum}};
    tp.start(maximum, "maximum").wait();
    if (value != 2) {
      throw std::runtime_error{"not the maximum"};
    }
    std::vector<float> rows_of_rank(static_cast<std::size_t>(rows * columns));
    { auto const forgotten = tp.leave(matrix(rows_of_rank)); }
    static_cast<void>(tp.start(maximum, "maximum"));
  });
  CHECK_THAT(messages_of(outcome), Contains("maximum after leave(), which ended without wait()"));
  auto const alone = run_job(1, [](Job& job) {
    TensorParallel tp{job};
    comm::Collective const barrier{};
    static_cast<void>(tp.start({&barrier, 1}, "a barrier"));
  });
  CHECK_THAT(messages_of(alone), Contains("start() of \"a barrier\" with one tensor rank: there is no other rank"));
}

TEST_CASE("verbs that are forgotten, or in another order, or of rows that cannot be divided are refused") {
  auto const forgotten = run_job(1, [](Job& job) {
    TensorParallel tp{job};
    auto x = whole_numbers<float>(1);
    { auto const started = tp.leave(matrix(x)); }
    static_cast<void>(tp.enter(matrix(x)));
  });
  CHECK_THAT(message_of(forgotten[0]), Contains("enter() after leave(), which ended without wait()"));

  auto const odd = run_job(5, [](Job& job) {
    TensorParallel const tp{job, {.sequence = true}};
    auto x = whole_numbers<float>(1);
    static_cast<void>(tp.own(matrix(x)));
  });
  CHECK_THAT(message_of(odd[4]),
             Contains("sequence parallelism over 12 rows: 5 tensor ranks do not divide them; nearest: 10 or 15"));

  auto const crossed = run_job(2, [](Job& job) {
    TensorParallel tp{job};
    auto x = whole_numbers<float>(1);
    static_cast<void>(job.rank() == 0 ? tp.leave(matrix(x)).wait() : tp.enter_backward(matrix(x)).wait());
  });
  for (auto const& error : crossed) {
    CHECK_THAT(message_of(error), Contains("leave()") && Contains("enter_backward()"));
  }
}

}  // namespace zeroth::testing
