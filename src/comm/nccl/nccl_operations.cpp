// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_operations.hpp"

#include <algorithm>
#include <cstddef>

#include "comm/operations.hpp"

namespace zeroth::comm {
namespace {

bool is_built(Operation operation) noexcept {
  return operation == Operation::gather || operation == Operation::scatter || operation == Operation::all_to_all;
}

bool has_work(Collective const& collective) noexcept {
  return collective.count > 0 || collective.operation == Operation::barrier;
}

/// The calls of one group. After an error no more are made.
class CallGroup {
 public:
  explicit CallGroup(NcclIssue const& at) : at_{at} {}

  void add_native(Collective const& each) {
    auto const count = nccl_count(each.count, each.dtype);
    auto const type = nccl_type(each.dtype);
    auto const by = make_operator(each);
    switch (each.operation) {
      case Operation::all_reduce:
        note(nccl().all_reduce(each.input, each.output, count, type, by, at_.communicator, at_.stream));
        break;
      case Operation::all_gather:
        note(nccl().all_gather(each.input, each.output, count, type, at_.communicator, at_.stream));
        break;
      case Operation::reduce_scatter:
        note(nccl().reduce_scatter(each.input, each.output, count, type, by, at_.communicator, at_.stream));
        break;
      case Operation::broadcast:
        note(nccl().broadcast(each.peer == at_.rank ? each.input : each.output, each.output, count, type, each.peer,
                              at_.communicator, at_.stream));
        break;
      case Operation::reduce:
        note(nccl().reduce(each.input, each.output, count, type, by, each.peer, at_.communicator, at_.stream));
        break;
      case Operation::barrier:
        note(
            nccl().all_reduce(at_.barrier_word, at_.barrier_word, 1, ncclInt32, ncclSum, at_.communicator, at_.stream));
        break;
      default: break;
    }
    if (is_premul_sum(each)) {  // the calls above have read it
      note(nccl().destroy_operator(by, at_.communicator));
    }
  }

  /// Every block that moves is a message. One that stays in place is not.
  void add_built(Collective const& each) {
    for (int other = 0; other < at_.world; ++other) {
      bool const to_root = each.operation == Operation::gather;
      bool const all = each.operation == Operation::all_to_all;
      bool const is_root = each.peer == at_.rank;
      bool const sends = all || (to_root ? other == each.peer : is_root);
      bool const receives = all || (to_root ? is_root : other == each.peer);
      auto const* const from = block(each.input, each, to_root ? 0 : other);
      auto* const to = const_cast<std::byte*>(block(each.output, each, to_root || all ? other : 0));
      if (other == at_.rank && from == to) {
        continue;
      }
      if (sends) {
        send(from, each, other);
      }
      if (receives) {
        receive(to, each, other);
      }
    }
  }

  void add_message(Collective const& each) {
    if (each.operation == Operation::send) {
      send(each.input, each, each.peer);
    } else {
      receive(each.output, each, each.peer);
    }
  }

  [[nodiscard]] ncclResult_t result() const noexcept { return result_; }

 private:
  [[nodiscard]] static bool is_premul_sum(Collective const& each) noexcept {
    return is_reduction(each.operation) && each.reduce == Reduce::premul_sum;
  }
  [[nodiscard]] ncclRedOp_t make_operator(Collective const& each) noexcept {
    auto result = nccl_operator(each.reduce);
    if (is_premul_sum(each)) {
      auto scalar = nccl_scalar(each.factor, each.dtype);
      note(nccl().make_premul_sum(&result, scalar.data(), nccl_type(each.dtype), ncclScalarHostImmediate,
                                  at_.communicator));
    }
    return result;
  }
  void note(ncclResult_t result) noexcept {
    if (!is_error(result_)) {
      result_ = result;
    }
  }
  static std::byte const* block(void const* data, Collective const& each, int index) noexcept {
    auto const bytes = static_cast<std::size_t>(each.count * bytes_of(each.dtype));
    return data == nullptr ? nullptr : static_cast<std::byte const*>(data) + static_cast<std::size_t>(index) * bytes;
  }
  void send(void const* from, Collective const& each, int to) {
    note(
        nccl().send(from, nccl_count(each.count, each.dtype), nccl_type(each.dtype), to, at_.communicator, at_.stream));
  }
  void receive(void* to, Collective const& each, int from) {
    note(nccl().receive(to, nccl_count(each.count, each.dtype), nccl_type(each.dtype), from, at_.communicator,
                        at_.stream));
  }

  NcclIssue const& at_;
  ncclResult_t result_ = ncclSuccess;
};

template <class F>
void for_each_in(Transaction const& transaction, NcclPart part, F const& function) {
  auto const& list = part == NcclPart::messages ? transaction.messages : transaction.collectives;
  for (auto const& each : list) {
    if (has_work(each) && (part == NcclPart::messages || is_built(each.operation) == (part == NcclPart::built))) {
      function(each);
    }
  }
}

}  // namespace

bool has_part(Transaction const& transaction, NcclPart part) noexcept {
  bool found = false;
  for_each_in(transaction, part, [&found](Collective const&) { found = true; });
  return found;
}

ncclResult_t issue_part(NcclIssue const& at, Transaction const& transaction, NcclPart part) {
  if (auto const started = nccl().group_start(); started != ncclSuccess) {
    return started;
  }
  CallGroup group{at};
  for_each_in(transaction, part, [&](Collective const& each) {
    switch (part) {
      case NcclPart::native: group.add_native(each); break;
      case NcclPart::built: group.add_built(each); break;
      case NcclPart::messages: group.add_message(each); break;
    }
  });
  auto const ended = nccl().group_end();
  return is_error(group.result()) ? group.result() : ended;
}

}  // namespace zeroth::comm
