// SPDX-License-Identifier: Apache-2.0
/// What tensor ranks tell each other between layers that they divide: Megatron-LM's f and g, as four verbs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "zeroth/comm/collectives.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/core/view.hpp"

namespace zeroth {

/// Of a TensorParallel. The same on all its ranks.
struct TensorParallelOptions {
  /// Between the pairs of layers each rank has a block of the rows (Korthikanti et al. 2022). Otherwise all have all
  /// rows, and compute the same.
  bool sequence = false;
  comm::CommOptions comm{};  ///< Of its communicator.
};

/// Pairs of layers that tensor ranks divide: the first matrix by columns, the second by rows (Shoeybi et al. 2019). All
/// verbs work on one matrix, [all rows, columns], on every rank:
///
/// | verb             | before, in `all`               | after, in what wait() gives     | with T ranks, and `sequence`
/// |
/// |------------------|--------------------------------|---------------------------------|------------------------------|
/// | enter()          | own rows                       | all rows                        | nothing; all-gather | |
/// leave()          | all rows of a part of the sum  | own rows of the sum             | all-reduce; reduce-scatter   |
/// | enter_backward() | all rows of a part of the sum  | own rows of the sum             | all-reduce; reduce-scatter |
/// | leave_backward() | own rows                       | all rows                        | nothing; all-gather |
///
/// "Own rows" are own(all): a block of them with `sequence`, and without it all. The backward verbs are adjoints of the
/// others. Sums are in rank order, in fp32, rounded once, but over NCCL.
///
///   zeroth::TensorParallel const tp{mesh.tensor(), {.sequence = true}};
///   norm(x, tp.own(all));                         // [rows, channels]
///   h = gelu(tp.enter(all).wait() * p[first]);    // first: [channels, hidden / T], second: [hidden / T, channels]
///   all = h * p[second];
///   x += tp.leave(all).wait();
///
/// Every rank runs the same verbs in the same order. What is started runs beside compute until wait(). With one rank
/// every verb is free. Memory: none but that of Collectives. Threads: the one that made it. Ends before its job.
class ZEROTH_EXPORT TensorParallel {
 public:
  template <Element T>
  class Started;

  /// `tensor` is Mesh::tensor(). Collective, waits.
  explicit TensorParallel(Job& tensor, TensorParallelOptions const& options = {});
  TensorParallel(TensorParallel const&) = delete;
  TensorParallel& operator=(TensorParallel const&) = delete;
  ~TensorParallel();

  [[nodiscard]] int index() const noexcept { return index_; }         ///< Of this rank.
  [[nodiscard]] int ranks() const noexcept { return ranks_; }         ///< That divide layers.
  [[nodiscard]] bool sequence() const noexcept { return sequence_; }  ///< As it was given; false with one rank.

  /// The rows of `all` that this rank has between pairs of layers. Throws ContractError where ranks do not divide them.
  template <Element T>
  [[nodiscard]] View<T, 2> own(View<T, 2> const& all) const {
    if (!sequence_) {
      return all;
    }
    auto const rows = rows_of_rank(all.extent(0));
    return {all.data() + index_ * rows * all.extent(1), {rows, all.extent(1)}};
  }

  /// Before the first layer of a pair. Throws ContractError as own() does, and where what was started before was not
  /// waited for.
  template <Element T>
  [[nodiscard]] Started<T> enter(View<T, 2> const& all) {
    return spread("enter()", all);
  }
  /// Behind the second one. Throws as enter() does.
  template <Element T>
  [[nodiscard]] Started<T> leave(View<T, 2> const& all) {
    return sum("leave()", all);
  }
  /// In backward, with the slopes by what enter() gave. Throws as it does.
  template <Element T>
  [[nodiscard]] Started<T> enter_backward(View<T, 2> const& all) {
    return sum("enter_backward()", all);
  }
  /// In backward, with the slopes by what leave() gave. Throws as it does.
  template <Element T>
  [[nodiscard]] Started<T> leave_backward(View<T, 2> const& all) {
    return spread("leave_backward()", all);
  }

 private:
  [[nodiscard]] std::int64_t rows_of_rank(std::int64_t rows) const;
  void expect_waited(char const* verb);
  [[nodiscard]] Collectives::Work start(comm::Collective const& collective, char const* verb);

  template <Element T>
  [[nodiscard]] Started<T> spread(char const* verb, View<T, 2> const& all) {
    expect_waited(verb);
    auto const rows = own(all);
    if (!sequence_) {
      return {*this, verb, all, std::nullopt};
    }
    return {*this, verb, all,
            start({comm::Operation::all_gather, rows.data(), all.data(), rows.count(), dtype_of<T>}, verb)};
  }
  template <Element T>
  [[nodiscard]] Started<T> sum(char const* verb, View<T, 2> const& all) {
    expect_waited(verb);
    auto const rows = own(all);
    if (ranks_ == 1) {
      return {*this, verb, all, std::nullopt};
    }
    auto const operation = sequence_ ? comm::Operation::reduce_scatter : comm::Operation::all_reduce;
    return {*this, verb, rows, start({operation, all.data(), rows.data(), rows.count(), dtype_of<T>}, verb)};
  }

  int index_, ranks_;
  bool sequence_;
  std::optional<Collectives> collectives_;  // none with one rank
  char const* forgotten_ = nullptr;         // a verb that ended without wait()
};

/// A verb that was started. Ends before its TensorParallel, after wait(): without it the next verb throws
/// ContractError.
template <Element T>
class [[nodiscard]] TensorParallel::Started {
 public:
  Started(Started&& other) noexcept
      : owner_{std::exchange(other.owner_, nullptr)},
        verb_{other.verb_},
        result_{other.result_},
        work_{std::move(other.work_)} {}  ///< What was moved from is as if waited for.
  Started& operator=(Started&&) = delete;
  ~Started() {
    if (owner_ != nullptr) {
      owner_->forgotten_ = verb_;
    }
  }
  /// What compute does from here on comes after it: see Collectives::Work::wait(). Gives the rows, in the memory of
  /// the matrix that the verb was given. Again: the same.
  View<T, 2> wait() {
    if (owner_ != nullptr) {
      owner_ = nullptr;
      if (work_) {
        work_->wait();
      }
    }
    return result_;
  }

 private:
  friend class TensorParallel;
  Started(TensorParallel& owner, char const* verb, View<T, 2> const& result, std::optional<Collectives::Work>&& work)
      : owner_{&owner}, verb_{verb}, result_{result}, work_{std::move(work)} {}
  TensorParallel* owner_;  // null once waited for
  char const* verb_;
  View<T, 2> result_;
  std::optional<Collectives::Work> work_;
};

}  // namespace zeroth
