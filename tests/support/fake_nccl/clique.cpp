// SPDX-License-Identifier: Apache-2.0
#include "support/fake_nccl/clique.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "device/rank_fold.hpp"

namespace zeroth::testing::fake_nccl {
namespace {

/// Alignment of inputs in the bytes of ranks, enough for elements of any type.
constexpr std::size_t alignment = 16;

std::size_t input_bytes(Call const& call, int rank, int world) {
  switch (call.kind) {
    case Kind::reduce_scatter: return call.bytes() * static_cast<std::size_t>(world);
    case Kind::broadcast: return rank == call.peer ? call.bytes() : 0;
    default: return call.bytes();
  }
}

template <class T>
Bytes bytes_of_value(T const& value) {
  auto const* const begin = reinterpret_cast<std::byte const*>(&value);
  return {begin, begin + sizeof value};
}

/// A call without its addresses, which only its rank can use.
struct PackedCall {
  std::uint64_t kind, count, dtype, input_bytes;
  std::int64_t peer;
  std::uint64_t reduce;
  double factor;
  std::uint64_t unused;
};
static_assert(sizeof(PackedCall) % alignment == 0);

/// Calls, each followed by its input.
Bytes pack(Calls const& calls, int rank, int world) {
  Bytes bytes;
  for (auto const& call : calls) {
    auto const input = input_bytes(call, rank, world);
    auto const head = bytes_of_value(PackedCall{static_cast<std::uint64_t>(call.kind), call.count,
                                                static_cast<std::uint64_t>(call.dtype), input, call.peer,
                                                static_cast<std::uint64_t>(call.reduce), call.factor, 0});
    bytes.insert(bytes.end(), head.begin(), head.end());
    auto const* const begin = static_cast<std::byte const*>(call.input);
    bytes.insert(bytes.end(), begin, begin + input);
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
  }
  return bytes;
}

std::string name_of_group(std::uint64_t number, int rank) {
  return "group " + std::to_string(number) + " " + std::to_string(rank);
}
std::string name_of_split(std::uint64_t number, int rank) {
  return "split " + std::to_string(number) + " " + std::to_string(rank);
}
std::string name_of_joined(int rank) { return "joined " + std::to_string(rank); }

}  // namespace

Clique::Clique(std::string id, std::string name, int world, std::unique_ptr<Board> board)
    : id_{std::move(id)}, name_{std::move(name)}, board_{std::move(board)}, ranks_(static_cast<std::size_t>(world)) {}

Clique::Brought Clique::unpack(std::shared_ptr<Bytes const> bytes) {
  Brought brought;
  for (std::size_t at = 0; at < bytes->size();) {
    PackedCall head{};
    std::memcpy(&head, bytes->data() + at, sizeof head);
    at += sizeof head;
    brought.calls.push_back({static_cast<Kind>(head.kind), nullptr, nullptr, head.count, static_cast<Dtype>(head.dtype),
                             static_cast<int>(head.peer), static_cast<Reduce>(head.reduce), head.factor});
    brought.inputs.push_back(bytes->data() + at);
    at += (head.input_bytes + alignment - 1) / alignment * alignment;
  }
  brought.bytes = std::move(bytes);
  return brought;
}

void Clique::join(int rank) { board_->post(name_of_joined(rank), {}); }

bool Clique::complete() const {
  for (int rank = 0; rank < world(); ++rank) {
    if (board_->find(name_of_joined(rank)) == nullptr) {
      return false;
    }
  }
  return true;
}

bool Clique::have_met(std::vector<std::string> const& points) const {
  return std::all_of(points.begin(), points.end(),
                     [this](std::string const& point) { return board_->find(point) != nullptr; });
}

void Clique::in_turn(int rank, std::uint64_t turn, std::function<void()> const& work) {
  auto& mine = ranks_[static_cast<std::size_t>(rank)];
  board_->wait_until([&] { return mine.ended == turn || mine.aborted; });
  if (!mine.aborted) {
    work();
  }
  mine.ended = turn + 1;
  board_->wake();
}

/// `rank`'s part of a group that all ranks have reached. Inputs are copies, as outputs may be the same memory.
void Clique::work(int rank, std::vector<Brought> const& all, Calls const& calls) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    auto const& call = calls[i];
    auto const bytes = call.bytes();
    auto* const output = static_cast<std::byte*>(call.output);
    auto const sum = [&](std::size_t first_byte) {
      std::vector<void const*> inputs;
      std::transform(all.begin(), all.end(), std::back_inserter(inputs),
                     [&](Brought const& each) { return each.inputs[i] + first_byte; });
      void* const outputs[] = {output};
      device::rank_fold(call.reduce, outputs, 1, inputs.data(), static_cast<int>(inputs.size()), call.dtype, 0,
                        static_cast<std::int64_t>(call.count), call.factor);
    };
    switch (call.kind) {
      case Kind::all_reduce: sum(0); break;
      case Kind::reduce_scatter: sum(static_cast<std::size_t>(rank) * bytes); break;
      case Kind::reduce:
        if (rank == call.peer) {
          sum(0);
        }
        break;
      case Kind::broadcast: std::memcpy(output, all[static_cast<std::size_t>(call.peer)].inputs[i], bytes); break;
      case Kind::all_gather:
        for (std::size_t from = 0; from < all.size(); ++from) {
          std::memcpy(output + from * bytes, all[from].inputs[i], bytes);
        }
        break;
      default: break;
    }
  }
}

void Clique::wait_for_abort(int rank) {
  board_->wait_until([&] { return is_aborted(rank); });
}

void Clique::run(int rank, std::uint64_t number, Calls const& calls, bool stalls) {
  if (stalls) {
    return wait_for_abort(rank);
  }
  board_->post(name_of_group(number, rank), pack(calls, rank, world()));
  std::vector<Brought> all;
  board_->wait_until([&] {
    while (static_cast<int>(all.size()) < world()) {
      auto bytes = board_->find(name_of_group(number, static_cast<int>(all.size())));
      if (bytes == nullptr) {
        return is_aborted(rank);
      }
      all.push_back(unpack(std::move(bytes)));
    }
    return true;
  });
  if (is_aborted(rank)) {
    return;
  }
  bool const same = std::all_of(all.begin(), all.end(), [&calls](Brought const& each) {
    return std::equal(calls.begin(), calls.end(), each.calls.begin(), each.calls.end(),
                      [](Call const& a, Call const& b) { return a.matches(b); });
  });
  if (!same) {  // kernels that do not match wait for each other
    return wait_for_abort(rank);
  }
  work(rank, all, calls);
  if (number > 0) {  // all ranks are here, so they have read the posts of the previous group
    board_->remove(name_of_group(number - 1, rank));
  }
}

std::string Clique::next_message(Numbers& numbers, int from, int to) {
  std::lock_guard const lock{mutex_};
  return "message " + std::to_string(from) + " " + std::to_string(to) + " " + std::to_string(numbers[{from, to}]++);
}

/// The receiver removes the messages that it has taken, and the sender waits for that.
void Clique::exchange(int rank, Calls const& calls) {
  std::vector<std::string> sent;
  for (auto const& call : calls) {
    if (call.kind == Kind::send) {
      sent.push_back(next_message(sent_, rank, call.peer));
      board_->post(sent.back(), pack({call}, rank, world()));
    }
  }
  for (auto const& call : calls) {
    if (call.kind == Kind::receive) {
      auto const name = next_message(received_, call.peer, rank);
      std::shared_ptr<Bytes const> bytes;
      board_->wait_until([&] { return (bytes = board_->find(name)) != nullptr || is_aborted(rank); });
      if (is_aborted(rank)) {
        return;
      }
      auto const message = unpack(bytes);
      if (message.calls[0].count != call.count || message.calls[0].dtype != call.dtype) {
        return wait_for_abort(rank);
      }
      std::memcpy(call.output, message.inputs[0], call.bytes());
      board_->remove(name);
    }
  }
  board_->wait_until([&] {
    return is_aborted(rank) || std::none_of(sent.begin(), sent.end(),
                                            [this](std::string const& name) { return board_->find(name) != nullptr; });
  });
}

void Clique::abort(int rank) {
  ranks_[static_cast<std::size_t>(rank)].aborted = true;
  board_->wake();
}

void Clique::wish(int rank, std::uint64_t number, Wish const& wish) {
  board_->post(name_of_split(number, rank), bytes_of_value(wish));
}

std::vector<Clique::Wish> Clique::wishes(std::uint64_t number) const {
  std::vector<Wish> all;
  for (int rank = 0; rank < world(); ++rank) {
    auto const bytes = board_->find(name_of_split(number, rank));
    if (bytes == nullptr) {
      return {};
    }
    std::memcpy(&all.emplace_back(), bytes->data(), sizeof(Wish));
  }
  return all;
}

World& World::get() {
  static World world;
  return world;
}

std::shared_ptr<Clique> World::clique(std::string const& id, std::string const& name, int world) {
  auto& known = by_id[id];
  if (known == nullptr) {
    known = std::make_shared<Clique>(id, name, world, folder.empty() ? make_board() : make_board(folder / id));
  }
  return known;
}

ncclResult_t World::enter(char const* function) {
  ++calls[function];
  if (auto const found = refusals.find(function); found != refusals.end() && found->second.first-- == 0) {
    auto const result = found->second.second;
    refusals.erase(found);
    return result;
  }
  return ncclSuccess;
}

// ---- what tests call ------------------------------------------------------------------------------------------------

namespace {

template <class F>
auto in_world(F const& function) {
  auto& world = World::get();
  std::lock_guard const lock{world.mutex};
  return function(world);
}

}  // namespace

void reset() {
  if (auto const left = leftovers(); !left.empty()) {
    std::fprintf(stderr, "the last test still has %s\n", left.c_str());
    std::abort();
  }
  in_world([](World& world) {
    world.calls.clear();
    world.refusals.clear();
    world.by_id.clear();
    world.policies.clear();
    world.stalled_making.clear();
    world.stalled_work.clear();
    world.broken_work.clear();
    world.more_questions = 0;
    world.finalize_stalls = false;
    world.abort_stalls = false;
    world.destroy_stalls = false;
    world.windows_stall = false;
    world.gives_windows = true;
    world.version = NCCL_VERSION_CODE;
    world.was_there = false;
    world.folder.clear();
  });
}

std::string leftovers() {
  return in_world([](World& world) {
    std::string text;
    if (!world.alive.empty()) {
      text += std::to_string(world.alive.size()) + " communicators";
    }
    if (!world.windows.empty()) {
      text += (text.empty() ? "" : ", ") + std::to_string(world.windows.size()) + " windows";
    }
    return text;
  });
}

std::map<std::string, std::int64_t> calls() {
  return in_world([](World& world) { return world.calls; });
}
std::int64_t calls(std::string const& function) {
  return in_world([&](World& world) {
    auto const found = world.calls.find(function);
    return found == world.calls.end() ? std::int64_t{0} : found->second;
  });
}
std::multimap<std::string, int> policies() {
  return in_world([](World& world) { return world.policies; });
}
void refuse(std::string const& function, ncclResult_t result, int after) {
  in_world([&](World& world) { world.refusals[function] = {after, result}; });
}
void stall_making(std::string const& name) {
  in_world([&](World& world) { world.stalled_making.insert(name); });
}
void stall_work(std::string const& name, std::uint64_t after) {
  in_world([&](World& world) { world.stalled_work[name] = after; });
}
void break_work(std::string const& name, int rank, ncclResult_t result, std::uint64_t after) {
  in_world([&](World& world) { world.broken_work[name] = {rank, result, after}; });
}
void take_time(int questions) { World::get().more_questions = questions; }
void stall_finalize() {
  in_world([](World& world) { world.finalize_stalls = true; });
}
void stall_abort(bool stalls) {
  auto& world = World::get();
  world.abort_stalls = stalls;
  world.abort_stalls.notify_all();
}
void stall_destroy(bool stalls) {
  auto& world = World::get();
  world.destroy_stalls = stalls;
  world.destroy_stalls.notify_all();
}
void give_no_windows() {
  in_world([](World& world) { world.gives_windows = false; });
}
void be_there_before() { World::get().was_there = true; }
void set_version(int code) { World::get().version = code; }
void stall_windows() {
  in_world([](World& world) { world.windows_stall = true; });
}
void meet_in(std::filesystem::path const& folder) {
  in_world([&](World& world) { world.folder = folder; });
}

}  // namespace zeroth::testing::fake_nccl
