// SPDX-License-Identifier: Apache-2.0
#include "comm/transaction.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "comm/describe.hpp"
#include "comm/operations.hpp"

namespace zeroth::comm {
namespace {

constexpr std::size_t expected_at_a_time = 16;

void reserve(Transaction& transaction, std::size_t count) {
  transaction.collectives.reserve(count);
  transaction.messages.reserve(count);
  transaction.records.reserve(count);
}

bool same_collective(Collective const& a, Collective const& b) noexcept {
  return a.operation == b.operation && a.count == b.count && a.dtype == b.dtype && a.reduce == b.reduce &&
         a.factor == b.factor && (!has_root(a.operation) || a.peer == b.peer);
}

bool same(Label const& a, Label const& b) noexcept { return a.purpose == b.purpose && a.unit == b.unit; }

}  // namespace

std::string describe(Transaction const& transaction) {
  std::size_t const count = transaction.collectives.size() + transaction.messages.size();
  if (count == 0) {
    return fmt::format("an empty transaction ({})",
                       purpose_and_unit(transaction.label.purpose, transaction.label.unit));
  }
  auto const& first = transaction.collectives.empty() ? transaction.messages.front() : transaction.collectives.front();
  return describe(transaction.label, first, transaction.job_ranks) +
         (count == 1 ? "" : fmt::format(" and {} more", count - 1));
}

bool same(Transaction const& a, Transaction const& b) noexcept {
  return a.position == b.position && same(a.label, b.label) &&
         std::equal(a.collectives.begin(), a.collectives.end(), b.collectives.begin(), b.collectives.end(),
                    same_collective);
}

std::string difference(std::string const& who_a, Transaction const& a, std::string const& who_b, Transaction const& b) {
  auto const differs = std::mismatch(a.collectives.begin(), a.collectives.end(), b.collectives.begin(),
                                     b.collectives.end(), same_collective);
  auto const index = same(a.label, b.label) ? static_cast<std::size_t>(differs.first - a.collectives.begin()) : 0;
  auto const side = [index](std::string const& who, Transaction const& transaction) {
    std::size_t const count = transaction.collectives.size();
    return fmt::format("{} in its transaction {} does {}{}", who, transaction.sequence,
                       index < count
                           ? describe(transaction.label, transaction.collectives[index], transaction.job_ranks)
                           : "nothing more",
                       count > 1 ? fmt::format(" as collective {} of {}", index + 1, count) : "");
  };
  return fmt::format("{}, but {}", side(who_a, a), side(who_b, b));
}

std::string disagreement(std::string const& communicator, std::string const& who_a, Transaction const& a,
                         std::string const& who_b, Transaction const& b) {
  return fmt::format(
      "the ranks of communicator '{}' do different things: {}. All ranks must submit the same transactions in the same "
      "order",
      communicator, difference(who_a, a, who_b, b));
}

std::vector<int> awaited_ranks(Transaction const& transaction, bool messages_alone, int rank,
                               std::vector<int> const& job_ranks) {
  std::vector<int> awaited;
  for (int each = 0; each < static_cast<int>(job_ranks.size()); ++each) {
    bool const needed = !messages_alone || std::any_of(transaction.messages.begin(), transaction.messages.end(),
                                                       [each](auto const& message) { return message.peer == each; });
    if (each != rank && needed) {
      awaited.push_back(job_ranks[static_cast<std::size_t>(each)]);
    }
  }
  return awaited;
}

bool same_message(Collective const& a, Collective const& b) noexcept {
  return a.count == b.count && a.dtype == b.dtype;
}

std::string message_difference(std::string const& communicator, MessageSide const& a, MessageSide const& b) {
  auto const& sender = a.message.operation == Operation::send ? a : b;
  auto const& receiver = &sender == &a ? b : a;
  return fmt::format(
      "a message differs on communicator '{}': {} in its transaction {} does {}, but {} in its transaction {} does {}",
      communicator, sender.who, sender.sequence, describe(sender.label, sender.message, sender.job_ranks), receiver.who,
      receiver.sequence, describe(receiver.label, receiver.message, receiver.job_ranks));
}

TransactionPool::TransactionPool(std::span<int const> job_ranks) : job_ranks_{job_ranks} {
  for (std::size_t i = 0; i < expected_at_a_time; ++i) {
    add_one();
  }
}

void TransactionPool::add_one() {
  reserve(all_.emplace_back(), longest_);
  free_.reserve(all_.size());  // so that recycling never allocates
  free_.push_back(&all_.back());
}

Transaction& TransactionPool::take(Label const& label, std::span<Collective const> collectives,
                                   std::chrono::milliseconds timeout) {
  std::scoped_lock const lock{mutex_};
  if (collectives.size() > longest_) {
    longest_ = collectives.size();
    std::for_each(free_.begin(), free_.end(), [this](Transaction* each) { reserve(*each, longest_); });
  }
  if (free_.empty()) {
    add_one();
  }
  Transaction& transaction = *free_.back();
  reserve(transaction, longest_);
  free_.pop_back();
  transaction.label = label;
  transaction.job_ranks = job_ranks_;
  transaction.stream = nullptr;
  transaction.collectives.clear();
  transaction.messages.clear();
  transaction.records.clear();
  for (auto const& each : collectives) {
    (is_message(each.operation) ? transaction.messages : transaction.collectives).push_back(each);
  }
  position_ += transaction.is_of_all() ? 1U : 0U;
  transaction.position = position_;
  transaction.timeout = timeout;
  return transaction;
}

void TransactionPool::recycle(Transaction& transaction) noexcept {
  std::scoped_lock const lock{mutex_};
  free_.push_back(&transaction);
}

}  // namespace zeroth::comm
