// SPDX-License-Identifier: Apache-2.0
#include "comm/agreement.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "comm/operations.hpp"
#include "comm/record.hpp"
#include "core/hash.hpp"

namespace zeroth::comm {
namespace {

struct OutlineHead {
  std::uint64_t sequence = 0, position = 0, count = 0;
  char purpose[sizeof(Record::purpose)] = {};
  char unit[sizeof(Record::unit)] = {};
};

struct OutlineEntry {
  std::int64_t count = 0;
  std::int32_t peer = 0;
  Operation operation{};
  Dtype dtype{};
  Reduce reduce{};
  double factor = 1;
};

std::uint64_t hash_of(Transaction const& transaction) noexcept {
  Fnv1a hash;
  hash.add(transaction.label.purpose);
  hash.add(transaction.label.unit);
  for (auto const& each : transaction.collectives) {
    hash.add(static_cast<std::uint64_t>(each.operation));
    hash.add(static_cast<std::uint64_t>(each.count));
    hash.add(static_cast<std::uint64_t>(each.dtype));
    hash.add(static_cast<std::uint64_t>(each.reduce));
    hash.add(std::bit_cast<std::uint64_t>(each.factor));
    hash.add(has_root(each.operation) ? static_cast<std::uint64_t>(each.peer) : std::uint64_t{0});
  }
  return hash.value();
}

/// Size of the description of a transaction that ranks exchange when hashes differ: its label and all of its
/// collectives of all ranks.
std::size_t outline_bytes(std::uint64_t longest_count) noexcept {
  return sizeof(OutlineHead) + longest_count * sizeof(OutlineEntry);
}

void write_outline(Transaction const& transaction, std::span<Collective const> collectives,
                   std::span<std::byte> outline) {
  OutlineHead head{transaction.sequence, transaction.position, collectives.size(), {}, {}};
  copy_name(head.purpose, transaction.label.purpose);
  copy_name(head.unit, transaction.label.unit);
  std::memcpy(outline.data(), &head, sizeof head);
  std::byte* place = outline.data() + sizeof head;
  for (auto const& each : collectives) {
    OutlineEntry const entry{each.count, each.peer, each.operation, each.dtype, each.reduce, each.factor};
    std::memcpy(place, &entry, sizeof entry);
    place += sizeof entry;
  }
}

/// The label's views point into `outline`.
Transaction read_outline(std::span<std::byte const> outline, Group const& group) {
  OutlineHead head;
  std::memcpy(&head, outline.data(), sizeof head);
  auto const* const text = reinterpret_cast<char const*>(outline.data());
  Transaction transaction;
  transaction.job_ranks = group.job_ranks;
  transaction.label = {text + offsetof(OutlineHead, purpose), text + offsetof(OutlineHead, unit)};
  transaction.sequence = head.sequence;
  transaction.position = head.position;
  std::byte const* place = outline.data() + sizeof head;
  for (std::uint64_t i = 0; i < head.count; ++i) {
    OutlineEntry entry;
    std::memcpy(&entry, place, sizeof entry);
    place += sizeof entry;
    transaction.collectives.push_back({.operation = entry.operation,
                                       .count = entry.count,
                                       .dtype = entry.dtype,
                                       .peer = entry.peer,
                                       .reduce = entry.reduce,
                                       .factor = entry.factor});
  }
  return transaction;
}

}  // namespace

std::string Agreement::compare(Group const& group, Transaction const& transaction, SplitRequest const& request,
                               Exchange const& exchange) {
  Said const mine{hash_of(transaction), transaction.collectives.size(), request};
  exchange(&mine, said_.data(), sizeof mine);
  auto const other = std::find_if(said_.begin(), said_.end(), [&first = said_[0]](Said const& each) {
    return each.hash != first.hash || each.count != first.count;
  });
  return other == said_.end()
             ? std::string{}
             : disagreement(group, transaction, static_cast<std::size_t>(other - said_.begin()), exchange);
}

std::vector<SplitRequest> Agreement::requests() const {
  std::vector<SplitRequest> requests;
  std::transform(said_.begin(), said_.end(), std::back_inserter(requests),
                 [](Said const& each) { return each.request; });
  return requests;
}

std::string Agreement::disagreement(Group const& group, Transaction const& transaction, std::size_t differing,
                                    Exchange const& exchange) const {
  auto const longest =
      std::max_element(said_.begin(), said_.end(), [](Said const& a, Said const& b) { return a.count < b.count; });
  std::size_t const bytes = outline_bytes(longest->count);
  std::vector<std::byte> outline(bytes);
  std::vector<std::byte> outlines(bytes * said_.size());
  write_outline(transaction, transaction.collectives, outline);
  exchange(outline.data(), outlines.data(), static_cast<std::int64_t>(bytes));
  auto const of = [&](std::size_t rank) { return read_outline({outlines.data() + rank * bytes, bytes}, group); };
  return comm::disagreement(group.name, group.describe_rank(0), of(0), group.describe_rank(static_cast<int>(differing)),
                            of(differing));
}

std::size_t message_outline_bytes() noexcept { return outline_bytes(1); }

void write_message_outline(Transaction const& transaction, Collective const& message, std::span<std::byte> outline) {
  write_outline(transaction, {&message, 1}, outline);
}

std::string compare_message(Group const& group, Transaction const& transaction, Collective const& mine,
                            std::span<std::byte const> theirs) {
  auto const other = read_outline(theirs, group);
  if (same_message(mine, other.collectives[0])) {
    return {};
  }
  return message_difference(
      group.name, {group.describe_rank(group.rank), transaction.sequence, transaction.label, mine, group.job_ranks},
      {group.describe_rank(mine.peer), other.sequence, other.label, other.collectives[0], group.job_ranks});
}

}  // namespace zeroth::comm
