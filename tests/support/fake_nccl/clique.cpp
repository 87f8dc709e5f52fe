#include "support/fake_nccl/clique.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "zeroth/device/rank_sum.hpp"

namespace zeroth::testing::fake_nccl {
namespace {

using Bytes = std::vector<std::byte>;

Bytes copy_of(void const* data, std::size_t bytes) {
  auto const* const begin = static_cast<std::byte const*>(data);
  return bytes == 0 ? Bytes{} : Bytes{begin, begin + bytes};
}

std::size_t input_bytes(Call const& call, int rank, int world) {
  switch (call.kind) {
    case Kind::reduce_scatter: return call.bytes() * static_cast<std::size_t>(world);
    case Kind::broadcast: return rank == call.peer ? call.bytes() : 0;
    default: return call.bytes();
  }
}

}  // namespace

void Clique::join() {
  std::lock_guard const lock{mutex_};
  ++joined_;
}

bool Clique::complete() const {
  std::lock_guard const lock{mutex_};
  return joined_ == world();
}

void Clique::in_turn(int rank, std::uint64_t turn, std::function<void()> const& work) {
  auto const mine = static_cast<std::size_t>(rank);
  {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return ended_[mine] == turn || aborted_[mine]; });
  }
  work();
  std::lock_guard const lock{mutex_};
  ended_[mine] = turn + 1;
  changed_.notify_all();
}

/// All inputs are read before any output is written: they may be the same memory.
void Clique::work(Meeting const& meeting) {
  auto const& first = meeting.calls.at(0);
  for (std::size_t i = 0; i < first.size(); ++i) {
    auto const& like = first[i];
    std::vector<Bytes> inputs;
    for (auto const& [rank, calls] : meeting.calls) {
      inputs.push_back(copy_of(calls[i].input, input_bytes(calls[i], rank, world())));
    }
    Bytes sum;
    if (like.kind == Kind::all_reduce || like.kind == Kind::reduce || like.kind == Kind::reduce_scatter) {
      sum.resize(inputs.front().size());
      std::vector<void const*> addresses;
      std::transform(inputs.begin(), inputs.end(), std::back_inserter(addresses),
                     [](Bytes const& input) { return input.data(); });
      void* const output = sum.data();
      device::rank_sum(&output, 1, addresses.data(), world(), like.dtype, 0,
                       static_cast<std::int64_t>(sum.size()) / bytes_of(like.dtype));
    }
    for (auto const& [rank, calls] : meeting.calls) {
      auto* const output = static_cast<std::byte*>(calls[i].output);
      auto const bytes = like.bytes();
      switch (like.kind) {
        case Kind::all_reduce: std::memcpy(output, sum.data(), bytes); break;
        case Kind::reduce_scatter:
          std::memcpy(output, sum.data() + static_cast<std::size_t>(rank) * bytes, bytes);
          break;
        case Kind::reduce:
          if (rank == like.peer) {
            std::memcpy(output, sum.data(), bytes);
          }
          break;
        case Kind::broadcast: std::memcpy(output, inputs[static_cast<std::size_t>(like.peer)].data(), bytes); break;
        case Kind::all_gather:
          for (std::size_t from = 0; from < inputs.size(); ++from) {
            std::memcpy(output + from * bytes, inputs[from].data(), bytes);
          }
          break;
        default: break;
      }
    }
  }
}

void Clique::run(int rank, std::uint64_t number, Calls const& calls, bool stalls) {
  std::unique_lock lock{mutex_};
  auto const is_aborted = [&] { return aborted_[static_cast<std::size_t>(rank)]; };
  if (stalls) {
    return changed_.wait(lock, is_aborted);
  }
  auto& meeting = meetings_[number];
  meeting.calls[rank] = calls;
  if (static_cast<int>(meeting.calls.size()) == world()) {
    auto const& first = meeting.calls.begin()->second;
    bool const same = std::all_of(meeting.calls.begin(), meeting.calls.end(), [&first](auto const& each) {
      return std::equal(first.begin(), first.end(), each.second.begin(), each.second.end(),
                        [](Call const& a, Call const& b) { return a.matches(b); });
    });
    if (same) {  // otherwise the kernels wait for each other, as they do
      work(meeting);
      meeting.done = true;
      changed_.notify_all();
    }
  }
  changed_.wait(lock, [&] { return meeting.done || is_aborted(); });
  if (meeting.done && ++meeting.gone == world()) {
    meetings_.erase(number);
  }
}

void Clique::exchange(int rank, Calls const& calls) {
  std::unique_lock lock{mutex_};
  auto const is_aborted = [&] { return aborted_[static_cast<std::size_t>(rank)]; };
  std::vector<std::shared_ptr<bool>> sent;
  for (auto const& call : calls) {
    if (call.kind == Kind::send) {
      sent.push_back(messages_[{rank, call.peer}].emplace_back(Message{.call = call}).taken);
    }
  }
  changed_.notify_all();
  for (auto const& call : calls) {
    if (call.kind == Kind::receive) {
      auto& queue = messages_[{call.peer, rank}];
      changed_.wait(lock, [&] { return !queue.empty() || is_aborted(); });
      if (is_aborted()) {
        return;
      }
      auto const message = queue.front();
      if (message.call.count != call.count || message.call.dtype != call.dtype) {
        return changed_.wait(lock, is_aborted);
      }
      if (call.bytes() > 0) {
        std::memcpy(call.output, message.call.input, call.bytes());
      }
      *message.taken = true;
      queue.pop_front();
      changed_.notify_all();
    }
  }
  changed_.wait(lock, [&] {
    return is_aborted() || std::all_of(sent.begin(), sent.end(), [](auto const& taken) { return *taken; });
  });
}

void Clique::abort(int rank) {
  std::lock_guard const lock{mutex_};
  aborted_[static_cast<std::size_t>(rank)] = true;
  changed_.notify_all();
}

World& World::get() {
  static World world;
  return world;
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
    world.finalize_stalls = false;
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
void stall_finalize() {
  in_world([](World& world) { world.finalize_stalls = true; });
}

}  // namespace zeroth::testing::fake_nccl
