// SPDX-License-Identifier: Apache-2.0
/// Send and receive.
#include <fmt/format.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "comm/conformance_parts.hpp"
#include "comm/elements.hpp"
#include "device/kernels.hpp"

namespace zeroth::comm::conformance {
namespace {

Label const label{"test", "messages"};
constexpr std::int64_t count = 1021;

using Data = std::vector<std::int64_t>;

/// The content of message `number` from rank `from` to rank `to`.
Data message(int from, int to, int number = 0) {
  Data data(count);
  for (std::int64_t i = 0; i < count; ++i) {
    data[static_cast<std::size_t>(i)] =
        static_cast<std::int64_t>(pattern(Dtype::int64, (from * 32 + to) * 8 + number, i));
  }
  return data;
}

using Sent = Buffer<std::int64_t>;

Collective send(Sent const& data, int to) {
  return {Operation::send, data.data(), nullptr, data.count(), Dtype::int64, to};
}
Collective receive(Sent const& data, int from) {
  return {Operation::receive, nullptr, data.data(), data.count(), Dtype::int64, from};
}

std::string compare(char const* what, Sent const& got, Data const& expected) {
  return got.read() == expected ? "" : fmt::format("{}: another message than was sent arrived", what);
}

/// Every rank sends to the next one and receives from the previous one; in a world of one, to itself.
std::string check_ring(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  int const next = (me + 1) % world, before = (me + world - 1) % world;
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const out = rank.buffer(message(me, next)), in = rank.buffer(Data(count));
  Collective const both[] = {send(out, next), receive(in, before)};
  communicator.submit(*stream, label, both);
  stream->synchronize();
  return compare("ring", in, message(before, me));
}

/// Data is sent when the sender's stream reaches the message, not when it is submitted.
std::string check_late(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  int const next = (me + 1) % world, before = (me + world - 1) % world;
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const late = rank.buffer(message(me, next)), out = rank.buffer(Data(count)), in = rank.buffer(Data(count));
  rank.post(*stream, [me] { std::this_thread::sleep_for(std::chrono::milliseconds{me == 0 ? 15 : 1}); });
  rank.device.kernels().copy(*stream, out.data(), late.data(), count * bytes_of(Dtype::int64));
  Collective const both[] = {send(out, next), receive(in, before)};
  communicator.submit(*stream, label, both);
  stream->synchronize();
  return compare("late", in, message(before, me));
}

/// All pairs of ranks, including each with itself, exchange several messages, with receives before sends. They progress
/// together, and those of two ranks arrive in order.
std::string check_all_pairs(Rank& rank) {
  constexpr int numbers = 3;
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::vector<Sent> out, in;
  std::vector<Collective> list;
  for (int i = 0; i < world * numbers; ++i) {
    in.push_back(rank.buffer(Data(count)));
    list.push_back(receive(in.back(), i / numbers));
    out.push_back(rank.buffer(message(me, i / numbers, i % numbers)));
  }
  for (int i = 0; i < world * numbers; ++i) {
    list.push_back(send(out[static_cast<std::size_t>(i)], i / numbers));
  }
  communicator.submit(*stream, label, list);
  stream->synchronize();
  std::string problem;
  for (int i = 0; i < world * numbers; ++i) {
    problem =
        first_of(problem, compare("all pairs", in[static_cast<std::size_t>(i)], message(i / numbers, me, i % numbers)));
  }
  return problem;
}

/// Two ranks exchange messages in several transactions without the others. The next collective of the others is the
/// pair's next one, too.
std::string check_pair(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), last = communicator.world() - 1;
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::vector<Sent> in, out;
  for (int number = 0; number < 4; ++number) {
    in.push_back(rank.buffer(Data(count)));
    out.push_back(rank.buffer(message(0, last, number)));
  }
  for (std::size_t number = 0; number < 4 && last > 0; ++number) {
    Collective const one = me == 0 ? send(out[number], last) : receive(in[number], 0);
    if (me == 0 || me == last) {
      communicator.submit(*stream, label, {&one, 1});
    }
  }
  auto const ones = rank.buffer<std::int64_t>({1});
  communicator.all_reduce(*stream, label, ones.data(), ones.data(), 1, Dtype::int64);
  stream->synchronize();
  auto const sum = ones.read()[0];
  std::string problem = sum == last + 1 ? "" : fmt::format("the sum of ones is {}", sum);
  for (std::size_t number = 0; number < 4 && me == last && last > 0; ++number) {
    problem = first_of(problem, compare("pair", in[number], message(0, last, static_cast<int>(number))));
  }
  return problem;
}

/// Messages and collectives of all ranks in one transaction.
std::string check_mixed(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  int const next = (me + 1) % world, before = (me + world - 1) % world;
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::string problem;
  for (int round = 0; round < 5; ++round) {
    Data ascending(count);
    std::iota(ascending.begin(), ascending.end(), me);
    auto const out = rank.buffer(message(me, next, round)), in = rank.buffer(Data(count));
    auto const sum = rank.buffer(ascending);
    Collective const list[] = {
        receive(in, before), {Operation::all_reduce, sum.data(), sum.data(), count, Dtype::int64, 0}, send(out, next)};
    communicator.submit(*stream, label, list);
    stream->synchronize();
    Data expected(count);
    for (std::int64_t i = 0; i < count; ++i) {
      expected[static_cast<std::size_t>(i)] = world * i + world * (world - 1) / 2;
    }
    problem = first_of(problem, compare("mixed", in, message(before, me, round)));
    problem = first_of(problem, sum.read() == expected ? "" : "a sum beside messages is wrong");
  }
  return problem;
}

std::string check_empty_message(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const nothing = rank.buffer(Data{});
  Collective const both[] = {send(nothing, (me + 1) % world), receive(nothing, (me + world - 1) % world)};
  communicator.submit(*stream, label, both);
  stream->synchronize();
  return {};
}

}  // namespace

std::vector<Case> message_cases() {
  return {{"send and receive in a ring", check_ring},
          {"send and receive of what its stream writes late", check_late},
          {"send and receive among all pairs, several each", check_all_pairs},
          {"send and receive between two ranks alone", check_pair},
          {"send and receive beside a collective", check_mixed},
          {"send and receive of nothing", check_empty_message}};
}

}  // namespace zeroth::comm::conformance
