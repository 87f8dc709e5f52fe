// SPDX-License-Identifier: Apache-2.0
/// Collectives of tensor ranks between layers that they divide: Megatron-LM's f and g, as four functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "zeroth/comm/collectives.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/core/view.hpp"
#include "zeroth/model/model.hpp"
#include "zeroth/parallel/cross_entropy.hpp"

namespace zeroth {

/// Options of a TensorParallel, the same on all its ranks.
struct TensorParallelOptions {
  /// Between the pairs of layers each rank has a block of the rows (Korthikanti et al. 2022); otherwise all have all.
  bool sequence = false;
  comm::CommOptions comm{};  ///< Options of its communicator.
};

// clang-format off
/// Pairs of layers that tensor ranks divide: the first matrix by columns, the second by rows (Shoeybi et al. 2019).
/// Each function works in one matrix, [all rows, columns], on every rank. Collectives: without and with `sequence`.
///
/// | function         | input, in `all`                  | output of wait()    | collective                 |
/// |------------------|----------------------------------|---------------------|----------------------------|
/// | enter()          | own rows                         | all rows            | none; all-gather           |
/// | leave()          | all rows of an addend of the sum | own rows of the sum | all-reduce; reduce-scatter |
/// | enter_backward() | all rows of an addend of the sum | own rows of the sum | all-reduce; reduce-scatter |
/// | leave_backward() | own rows                         | all rows            | none; all-gather           |
///
/// Own rows are own(all): a block of them with `sequence`, otherwise all. The backward functions are the adjoints.
/// Sums are in rank order, in fp32, and rounded once, except over NCCL.
///
///   zeroth::TensorParallel const tp{mesh.tensor(), {.sequence = true}};
///   norm(x, tp.own(all));                         // [rows, channels]
///   h = gelu(tp.enter(all).wait() * p[first]);    // first: [channels, hidden / T], second: [hidden / T, channels]
///   all = h * p[second];
///   x += tp.leave(all).wait();
///
/// Every rank calls the same functions in the same order, on the thread that made it. Work is concurrent with compute
/// until wait(). On GPUs compute is the stream of the mesh's engines, matrices are in device memory, and nothing blocks
/// the host. With one rank nothing is sent. Needs no memory but that of Collectives. Destroy it before its mesh.
// clang-format on
class ZEROTH_EXPORT TensorParallel {
 public:
  template <Element T>
  class Started;

  /// `tensor` is Mesh::tensor(). Collective, waits.
  explicit TensorParallel(Job& tensor, TensorParallelOptions const& options = {});
  TensorParallel(TensorParallel const&) = delete;
  TensorParallel& operator=(TensorParallel const&) = delete;
  ~TensorParallel();

  [[nodiscard]] int index() const noexcept { return index_; }         ///< This rank's.
  [[nodiscard]] int ranks() const noexcept { return ranks_; }         ///< Number of ranks that divide layers.
  [[nodiscard]] bool sequence() const noexcept { return sequence_; }  ///< The option; false with one rank.

  /// The rows of `all` that this rank has between pairs of layers. Throws ContractError if ranks do not divide them.
  template <Element T>
  [[nodiscard]] View<T, 2> own(View<T, 2> const& all) const {
    if (!sequence_) {
      return all;
    }
    auto const rows = rows_of_rank(all.extent(0));
    return {all.data() + index_ * rows * all.extent(1), {rows, all.extent(1)}};
  }

  /// Call before the first layer of a pair. Throws ContractError as own() does, and if an earlier function was not
  /// waited for.
  template <Element T>
  [[nodiscard]] Started<T> enter(View<T, 2> const& all) {
    return spread("enter()", all);
  }
  /// Call after the second layer. Throws as enter() does.
  template <Element T>
  [[nodiscard]] Started<T> leave(View<T, 2> const& all) {
    return sum("leave()", all);
  }
  /// Call in backward with the gradient of enter()'s output. Throws as enter() does.
  template <Element T>
  [[nodiscard]] Started<T> enter_backward(View<T, 2> const& all) {
    return sum("enter_backward()", all);
  }
  /// Call in backward with the gradient of leave()'s output. Throws as enter() does.
  template <Element T>
  [[nodiscard]] Started<T> leave_backward(View<T, 2> const& all) {
    return spread("leave_backward()", all);
  }

  /// The rows of an embedding, or of a head's matrix, that this rank has; all with one rank. The parameter must have
  /// the cut that cut_of_vocabulary() makes. Throws ContractError if it is cut in another way or not at all, or if it
  /// is of another tensor rank's model.
  template <std::size_t D>
  [[nodiscard]] VocabularyPart rows(Param<D> const& param) const {
    return rows_from(param.first_row_, param.shape_[0], param.global_shape_[0]);
  }
  /// The mean over rows of the cross-entropy of softmax(logits) and `targets`, the same on all ranks. `logits` are this
  /// rank's columns of all rows, [rows, vocabulary.padded], in host memory; padding columns are ignored. `targets` has
  /// a word of the whole vocabulary for each row, the same on all ranks. `tape` receives what backward needs. Waits for
  /// one MAX, then for one transaction of two sums, with one number per row each; with one rank for nothing. Sums are
  /// in fp32 and fp64, in the order of columns, then of ranks. A NaN or +infinity among a row's logits makes its loss
  /// NaN. Throws ContractError for shapes that do not match, for targets outside the vocabulary and on a GPU, before it
  /// waits for another rank. On a GPU, compute the same with kernels and start().
  template <Element T>
  [[nodiscard]] float cross_entropy(View<T const, 2> const& logits, std::span<std::int64_t const> targets,
                                    VocabularyPart const& vocabulary, CrossEntropyTape& tape);
  /// Computes slopes = seed * the gradient of that mean by this rank's logits, which must be unchanged; 0 in padding
  /// columns. `slopes` may share the memory of `logits` if both have one type. Does not wait. Throws ContractError if
  /// shapes are not those of `tape`.
  template <Element T, Element S>
  void cross_entropy_backward(View<T const, 2> const& logits, CrossEntropyTape const& tape, float seed,
                              View<S, 2> const& slopes) const;

  /// Starts a program's own collectives over the tensor ranks, among the functions above and in their order: see
  /// Collectives::start(). Throws ContractError as enter() does, and with one rank.
  [[nodiscard]] Collectives::Work start(std::span<comm::Collective const> collectives, char const* what);

 private:
  [[nodiscard]] VocabularyPart rows_from(std::int64_t first, std::int64_t padded, std::int64_t all) const;
  [[nodiscard]] std::int64_t rows_of_rank(std::int64_t rows) const;
  void expect_waited(char const* verb);
  [[nodiscard]] Collectives::Work start_one(comm::Collective const& collective, char const* verb);

  template <Element T>
  [[nodiscard]] Started<T> spread(char const* verb, View<T, 2> const& all) {
    expect_waited(verb);
    auto const rows = own(all);
    if (!sequence_) {
      return {*this, verb, all, std::nullopt};
    }
    return {*this, verb, all,
            start_one({comm::Operation::all_gather, rows.data(), all.data(), rows.count(), dtype_of<T>}, verb)};
  }
  template <Element T>
  [[nodiscard]] Started<T> sum(char const* verb, View<T, 2> const& all) {
    expect_waited(verb);
    auto const rows = own(all);
    if (ranks_ == 1) {
      return {*this, verb, all, std::nullopt};
    }
    auto const operation = sequence_ ? comm::Operation::reduce_scatter : comm::Operation::all_reduce;
    return {*this, verb, rows, start_one({operation, all.data(), rows.data(), rows.count(), dtype_of<T>}, verb)};
  }

  int index_, ranks_;
  bool sequence_, on_host_;
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
        work_{std::move(other.work_)} {}  ///< A moved-from object counts as waited for.
  Started& operator=(Started&&) = delete;
  ~Started() {
    if (owner_ != nullptr) {
      owner_->forgotten_ = verb_;
    }
  }
  /// Orders later work of compute after it: see Collectives::Work::wait(). Returns the rows, in the memory of the
  /// function's argument. A second call returns the same.
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
