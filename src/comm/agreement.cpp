#include "comm/agreement.hpp"

#include <cstring>
#include <type_traits>

#include "comm/operations.hpp"
#include "comm/record.hpp"
#include "core/fnv.hpp"

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
};

}  // namespace

TransactionDigest digest_of(Transaction const& transaction) noexcept {
  Fnv1a hash;
  hash.add(transaction.label.purpose);
  hash.add(transaction.label.unit);
  for (auto const& each : transaction.group) {
    hash.add(static_cast<std::uint64_t>(each.operation));
    hash.add(static_cast<std::uint64_t>(each.count));
    hash.add(static_cast<std::uint64_t>(each.dtype));
    hash.add(has_root(each.operation) ? static_cast<std::uint64_t>(each.peer) : std::uint64_t{0});
  }
  return {hash.value(), transaction.group.size()};
}

std::size_t outline_bytes(std::uint64_t longest_count) noexcept {
  return sizeof(OutlineHead) + longest_count * sizeof(OutlineEntry);
}

void write_outline(Transaction const& transaction, std::span<std::byte> outline) {
  OutlineHead head{transaction.sequence, transaction.position, transaction.group.size(), {}, {}};
  copy_name(head.purpose, transaction.label.purpose);
  copy_name(head.unit, transaction.label.unit);
  std::memcpy(outline.data(), &head, sizeof head);
  std::byte* place = outline.data() + sizeof head;
  for (auto const& each : transaction.group) {
    OutlineEntry const entry{each.count, each.peer, each.operation, each.dtype};
    std::memcpy(place, &entry, sizeof entry);
    place += sizeof entry;
  }
}

Transaction read_outline(std::span<std::byte const> outline) {
  OutlineHead head;
  std::memcpy(&head, outline.data(), sizeof head);
  auto const* const text = reinterpret_cast<char const*>(outline.data());
  Transaction transaction;
  transaction.label = {text + offsetof(OutlineHead, purpose), text + offsetof(OutlineHead, unit)};
  transaction.sequence = head.sequence;
  transaction.position = head.position;
  std::byte const* place = outline.data() + sizeof head;
  for (std::uint64_t i = 0; i < head.count; ++i) {
    OutlineEntry entry;
    std::memcpy(&entry, place, sizeof entry);
    place += sizeof entry;
    transaction.group.push_back({entry.operation, nullptr, nullptr, entry.count, entry.dtype, entry.peer});
  }
  return transaction;
}

}  // namespace zeroth::comm
