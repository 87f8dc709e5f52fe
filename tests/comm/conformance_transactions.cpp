// SPDX-License-Identifier: Apache-2.0
/// Lists of collectives, streams and events, several communicators.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "comm/conformance_parts.hpp"
#include "comm/trial.hpp"
#include "device/kernels.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm::conformance {
namespace {

Label const label{"test", "transactions"};

/// Draws the same program on all ranks.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_{seed} {}
  int roll(int sides) { return static_cast<int>(scramble(state_++) % static_cast<std::uint64_t>(sides)); }
  Probe probe(int world) {
    auto const operation = static_cast<Operation>(roll(static_cast<int>(Operation::send)));
    bool const in_place = roll(2) == 0 && operation != Operation::all_to_all;
    return {operation, all_dtypes[static_cast<std::size_t>(roll(7))], roll(roll(8) == 0 ? 3000 : 70),
            in_place ? Place::in_place : Place::out_of_place, roll(world)};
  }

 private:
  std::uint64_t state_;
};

/// A transaction of several trials.
class Bundle {
 public:
  Bundle(Rank& rank, Dice& dice, int most, Communicator const& communicator) {
    for (int i = dice.roll(most + 1); i > 0; --i) {
      trials_.emplace_back(*rank.memory, dice.probe(communicator.world()), communicator.rank(), communicator.world());
      list_.push_back(trials_.back().collective());
    }
  }
  [[nodiscard]] std::vector<Collective> const& list() const noexcept { return list_; }
  [[nodiscard]] std::string problem() const {
    std::string found;
    for (auto const& trial : trials_) {
      found = first_of(found, trial.problem());
    }
    return found;
  }

 private:
  std::deque<Trial> trials_;
  std::vector<Collective> list_;
};

std::string problem_in(std::deque<Bundle> const& bundles) {
  std::string found;
  for (auto const& bundle : bundles) {
    found = first_of(found, bundle.problem());
  }
  return found;
}

/// Longer and shorter lists, also empty ones, enqueued without waiting in between.
std::string check_lists(Rank& rank) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  Dice dice{1};
  std::deque<Bundle> bundles;
  for (int i = 0; i < 60; ++i) {
    auto const& bundle = bundles.emplace_back(rank, dice, 12, rank.communicator);
    rank.communicator.submit(*stream, label, bundle.list());
  }
  stream->synchronize();
  return problem_in(bundles);
}

/// Work that runs inline with the caller: on the compute stream, and on a stream without overlap.
std::string check_in_line(Rank& rank) {
  auto const stream = rank.device.make_stream("test", device::Overlap::off);
  Dice dice{2};
  std::deque<Bundle> bundles;
  for (int i = 0; i < 20; ++i) {
    auto const& bundle = bundles.emplace_back(rank, dice, 3, rank.communicator);
    rank.communicator.submit(i % 2 == 0 ? *stream : rank.device.compute(), label, bundle.list());
  }
  stream->synchronize();
  rank.device.compute().synchronize();
  return problem_in(bundles);
}

/// Two communicators on two streams, which even and odd ranks enqueue in opposite order: neither waits for the other.
std::string check_opposite_order(Rank& rank) {
  Part first{rank.communicator, 0, rank.communicator.rank(), "first"};
  Part second{rank.communicator, 0, rank.communicator.rank(), "second"};
  auto const stream_of_first = rank.device.make_stream("first", device::Overlap::on);
  auto const stream_of_second = rank.device.make_stream("second", device::Overlap::on);
  Dice dice{3};
  std::deque<Bundle> bundles;
  for (int round = 0; round < 40; ++round) {
    auto const& one = bundles.emplace_back(rank, dice, 3, first.communicator());
    auto const& other = bundles.emplace_back(rank, dice, 3, second.communicator());
    bool const is_even = rank.communicator.rank() % 2 == 0;
    for (bool const turn : {is_even, !is_even}) {
      turn ? first.communicator().submit(*stream_of_first, label, one.list())
           : second.communicator().submit(*stream_of_second, label, other.list());
    }
  }
  stream_of_first->synchronize();
  stream_of_second->synchronize();
  return problem_in(bundles);
}

/// Transactions of one communicator run in the order of their submission, even if the order of their streams differs.
std::string check_two_streams(Rank& rank) {
  auto const slow = rank.device.make_stream("slow", device::Overlap::on);
  auto const fast = rank.device.make_stream("fast", device::Overlap::on);
  Dice dice{4};
  std::deque<Bundle> bundles;
  for (int i = 0; i < 30; ++i) {
    if (i % 10 == 0) {
      rank.post(*slow, [] { std::this_thread::sleep_for(std::chrono::milliseconds{3}); });
    }
    auto const& bundle = bundles.emplace_back(rank, dice, 3, rank.communicator);
    rank.communicator.submit(i % 2 == 0 ? *slow : *fast, label, bundle.list());
  }
  slow->synchronize();
  fast->synchronize();
  return problem_in(bundles);
}

/// A slow producer, a gather that waits for its event, and a consumer that waits for the gather's event, each on a
/// separate stream. One rank is later than the others.
std::string check_events(Rank& rank) {
  constexpr std::int64_t count = 100;
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  auto const producer = rank.device.make_stream("producer", device::Overlap::on);
  auto const gather = rank.device.make_stream("gather", device::Overlap::on);
  auto const produced = rank.device.make_event();
  auto const gathered = rank.device.make_event();
  auto const data = rank.buffer(std::vector<std::int32_t>(static_cast<std::size_t>(world * count)));
  auto* const mine = data.data() + me * count;
  std::string problem;
  for (int round = 1; round <= 5; ++round) {
    auto const fresh = rank.buffer(std::vector<std::int32_t>(count, me * 100 + round));
    bool const late = me == round % world;
    rank.post(*producer, [=] { std::this_thread::sleep_for(std::chrono::milliseconds{late ? 15 : 1}); });
    rank.device.kernels().copy(*producer, mine, fresh.data(), count * bytes_of(Dtype::int32));
    producer->record(*produced);
    gather->wait(*produced);
    communicator.all_gather(*gather, label, mine, data.data(), count, Dtype::int32);
    gather->record(*gathered);
    rank.device.compute().wait(*gathered);
    rank.device.compute().synchronize();
    auto const values = data.read();
    for (std::int64_t i = 0; i < world * count; ++i) {
      auto const expected = static_cast<std::int32_t>(i / count * 100 + round);
      if (auto const got = values[static_cast<std::size_t>(i)]; got != expected) {
        problem = first_of(problem, fmt::format("round {}: element {} is {} instead of {}", round, i, got, expected));
      }
    }
  }
  gather->synchronize();
  return problem;
}

/// No rank leaves before the last one has arrived. All processes of a machine share one clock.
std::string check_barrier(Rank& rank) {
  auto& communicator = rank.communicator;
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::string problem;
  for (int late = 0; late < communicator.world(); ++late) {
    if (late == communicator.rank()) {
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    auto const nanoseconds = [] {
      return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds{1};
    };
    std::int64_t const came = nanoseconds();
    communicator.barrier(*stream, label);
    std::int64_t const went = nanoseconds();
    auto const mine = rank.buffer<std::int64_t>({came});
    auto const all = rank.buffer(std::vector<std::int64_t>(static_cast<std::size_t>(communicator.world())));
    communicator.all_gather(*stream, label, mine.data(), all.data(), 1, Dtype::int64);
    stream->synchronize();
    for (auto const each : all.read()) {
      problem = first_of(problem, each <= went ? "" : "a rank passed a barrier before another one came to it");
    }
  }
  return problem;
}

/// Whether everything recorded on communicator 'recorded' has ended. On GPUs that shows a moment after the end.
bool all_finished(FlightRecorder const& recorder) {
  auto const records = recorder.snapshot();
  return std::none_of(records.begin(), records.end(), [](Record const& record) {
    return std::string_view{record.communicator} == "recorded" && record.finished_ns == 0;
  });
}

/// Every collective leaves one record, with its times.
std::string check_records(Rank& rank) {
  Part part{rank.communicator, 0, rank.communicator.rank(), "recorded"};
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  Dice dice{5};
  std::deque<Bundle> bundles;
  std::vector<std::uint64_t> expected;  // sequence number of each record
  for (std::uint64_t sequence = 1; sequence <= 20; ++sequence) {
    auto const& bundle = bundles.emplace_back(rank, dice, 4, part.communicator());
    part.communicator().submit(*stream, {"recording", "a unit"}, bundle.list());
    expected.insert(expected.end(), bundle.list().size(), sequence);
  }
  stream->synchronize();
  for (int asked = 0; asked < 10'000 && !all_finished(part.communicator().recorder()); ++asked) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  std::vector<std::uint64_t> found;
  for (auto const& record : part.communicator().recorder().snapshot()) {
    if (std::string_view{record.communicator} != "recorded" || std::string_view{record.purpose} != "recording") {
      continue;
    }
    found.push_back(record.sequence);
    if (record.enqueued_ns <= 0 || record.started_ns < record.enqueued_ns || record.finished_ns < record.started_ns ||
        std::string_view{record.unit} != "a unit") {
      return fmt::format("the record of a {} in transaction {} has times {}, {}, {}", record.what, record.sequence,
                         record.enqueued_ns, record.started_ns, record.finished_ns);
    }
  }
  return found == expected ? "" : fmt::format("{} records of {} collectives", found.size(), expected.size());
}

/// The root of an operation without one is not a difference between ranks.
std::string check_peers(Rank& rank) {
  int const me = rank.communicator.rank(), world = rank.communicator.world();
  Part part{rank.communicator, 0, me, "peers"};
  part.communicator().set_options({std::chrono::minutes{2}, true});
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::deque<Trial> trials;
  std::vector<Collective> list;
  for (auto const operation :
       {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter, Operation::all_to_all}) {
    Probe const probe{operation, Dtype::fp32, 17, Place::out_of_place, me};
    list.push_back(trials.emplace_back(*rank.memory, probe, me, world).collective());
  }
  part.communicator().submit(*stream, label, list);
  stream->synchronize();
  std::string found;
  for (auto const& trial : trials) {
    found = first_of(found, trial.problem());
  }
  return found;
}

/// Options may change between transactions.
std::string check_options(Rank& rank) {
  Part part{rank.communicator, 0, rank.communicator.rank(), "options"};
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  Dice dice{6};
  std::deque<Bundle> bundles;
  for (bool const check : {true, false, true}) {
    part.communicator().set_options({std::chrono::minutes{10}, check});
    for (int i = 0; i < 10; ++i) {
      auto const& bundle = bundles.emplace_back(rank, dice, 4, part.communicator());
      part.communicator().submit(*stream, label, bundle.list());
    }
  }
  stream->synchronize();
  return problem_in(bundles);
}

}  // namespace

std::vector<Case> transaction_cases() {
  return {{"several collectives in one transaction", check_lists},
          {"transactions in line with the caller", check_in_line},
          {"two communicators in opposite order", check_opposite_order, true},
          {"one communicator on two streams", check_two_streams},
          {"transactions wait for events and are waited for", check_events},
          {"barrier", check_barrier},
          {"records of what was done", check_records},
          {"peers of operations that have none are not compared", check_peers},
          {"options change between transactions", check_options}};
}

}  // namespace zeroth::comm::conformance
