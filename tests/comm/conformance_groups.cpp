// SPDX-License-Identifier: Apache-2.0
/// Operations without a collective: groups that only their ranks make, barriers that name missing ranks, and the
/// key-value store.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "comm/conformance_parts.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm::conformance {
namespace {

using std::chrono::milliseconds;

Label const label{"test", "groups"};
constexpr milliseconds soon{200}, long_enough{60'000};

/// The text of the exception that `call` throws; empty if it throws none of that kind.
template <class Kind, class Call>
std::string thrown_by(Call const& call) {
  try {
    static_cast<void>(call());
  } catch (Kind const& error) {
    return error.what();
  }
  return {};
}

std::string expect_words(std::string const& text, std::string const& words) {
  return text.find(words) != std::string::npos ? "" : fmt::format("'{}' does not say '{}'", text, words);
}

/// The sum of `value` over a group.
std::int64_t sum_over(Rank& rank, Communicator& group, std::int64_t value) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const data = rank.buffer(std::vector<std::int64_t>{value});
  group.all_reduce(*stream, label, data.data(), data.data(), 1, Dtype::int64);
  stream->synchronize();
  return data.read()[0];
}

// ---- groups ---------------------------------------------------------------------------------------------------------

/// The ranks of `world` with this remainder by 2, the highest first.
std::vector<int> every_second(int world, int remainder) {
  std::vector<int> ranks;
  for (int rank = world - 1; rank >= 0; --rank) {
    if (rank % 2 == remainder) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

/// Even and odd ranks make their groups at the same time, twice, and use both.
std::string check_disjoint_groups(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank();
  auto const ranks = every_second(communicator.world(), me % 2);
  for (int time = 0; time < 2; ++time) {
    auto const group = communicator.create_group(ranks, me % 2 == 0 ? "even" : "odd");
    std::int64_t expected = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      expected += 100 * ranks[i];
      if (group->job_rank(static_cast<int>(i)) != communicator.job_rank(ranks[i])) {
        return fmt::format("rank {} of the group is rank {}", i, group->job_rank(static_cast<int>(i)));
      }
    }
    if (group->world() != static_cast<int>(ranks.size()) || ranks[static_cast<std::size_t>(group->rank())] != me) {
      return fmt::format("rank {} of {} in the group of {}", group->rank(), group->world(), ranks.size());
    }
    if (auto const sum = sum_over(rank, *group, 100 * me); sum != expected) {
      return fmt::format("the sum over the group is {}, not {}", sum, expected);
    }
  }
  return {};
}

/// A group of a group, and one of a single rank, while the others do something else.
std::string check_groups_of_few(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), last = communicator.world() - 1;
  if (me == 0) {
    auto const alone = communicator.create_group(std::vector{0}, "alone");
    if (sum_over(rank, *alone, 7) != 7) {
      return "a group of one rank is wrong";
    }
  }
  if (last == 0 || (me != 0 && me != last)) {
    return {};
  }
  auto const ends = communicator.create_group(std::vector{last, 0}, "ends");
  auto const turned = ends->create_group(std::vector{1, 0}, "turned");
  bool const good = turned->rank() == (me == 0 ? 0 : 1) && turned->job_rank(0) == communicator.job_rank(0) &&
                    sum_over(rank, *turned, me + 1) == last + 2;
  return good ? "" : "a group of a group is wrong";
}

std::string check_refused_groups(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  auto const refused = [&](std::vector<int> const& ranks, std::string const& name, std::string const& words) {
    return expect_words(thrown_by<ContractError>([&] { return communicator.create_group(ranks, name); }), words);
  };
  auto const on = fmt::format("create_group 'x' on communicator '{}': ", communicator.name());
  std::string problem =
      refused({me, world}, "x", fmt::format("{}ranks [1] is {}; allowed are 0 to {}", on, world, world - 1));
  problem = first_of(problem, refused({me, me}, "x", fmt::format("{}ranks has {} twice", on, me)));
  problem =
      first_of(problem, refused({}, "x", fmt::format("rank {} is not in []; only the ranks of the list call it", me)));
  if (world > 1) {
    int const other = me == 0 ? 1 : 0;
    problem = first_of(problem, refused({other}, "x", fmt::format("rank {} is not in [{}]", me, other)));
  }
  return first_of(problem, refused({me}, "a name of many letters", "has 22 characters; allowed are 1 to 15"));
}

/// Rank 0 waits for the last one, which comes too late. Both learn it, and the job continues.
std::string check_missing_members(Rank& rank) {
  Part part{rank.communicator, 0, rank.communicator.rank(), "impatient"};
  auto& communicator = part.communicator();
  int const me = communicator.rank(), last = communicator.world() - 1;
  if (last == 0) {
    return {};
  }
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::string problem;
  auto const create = [&] { return communicator.create_group(std::vector{0, last}, "late"); };
  communicator.set_options({.timeout = soon});
  auto const text = me == 0 ? thrown_by<PeerError>(create) : std::string{};
  communicator.set_options({});
  if (me == 0) {
    problem =
        expect_words(text, fmt::format("create_group 'late' of ranks [0, {}] of communicator 'impatient': rank {} "
                                       "did not call it with this list and name within 200 ms",
                                       last, communicator.job_rank(last)));
  }
  communicator.barrier(*stream, label);
  if (me == last) {
    problem =
        expect_words(thrown_by<PeerError>(create),
                     fmt::format("rank {} called it after the other ranks had timed out", communicator.job_rank(last)));
  }
  communicator.barrier(*stream, label);
  if (me == 0 || me == last) {
    problem = first_of(problem, sum_over(rank, *create(), 1) == 2 ? "" : "the group that was made later is wrong");
  }
  return problem;
}

// ---- barriers -------------------------------------------------------------------------------------------------------

/// The last rank misses a barrier, and comes to it after the others have been told.
std::string check_monitored_barrier(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), last = communicator.world() - 1;
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const is = [](std::vector<int> const& missing, std::vector<int> const& expected, char const* when) {
    return missing == expected ? std::string{} : fmt::format("{}: {} ranks are missing", when, missing.size());
  };
  auto problem = is(communicator.monitored_barrier(long_enough), {}, "all have come");
  if (me != last) {  // others may be late as well, on a busy machine
    auto const missing = communicator.monitored_barrier(soon);
    bool const good = std::ranges::find(missing, last) != missing.end() &&
                      std::ranges::find(missing, me) == missing.end() && std::ranges::is_sorted(missing);
    problem = first_of(problem, good ? "" : "the last one has not come, and is not named");
  }
  communicator.barrier(*stream, label);
  if (me == last) {
    problem = first_of(problem, is(communicator.monitored_barrier(long_enough), {}, "the last one comes"));
  }
  return first_of(problem, is(communicator.monitored_barrier(long_enough), {}, "all have come again"));
}

// ---- the store ------------------------------------------------------------------------------------------------------

/// A prefix of keys that no other case and no other run of this one has used.
std::string fresh_prefix(Rank& rank) {
  auto store = rank.communicator.key_value_store();
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  if (rank.communicator.rank() == 0) {
    store.add("runs", 1);
  }
  rank.communicator.barrier(*stream, label);
  auto prefix = fmt::format("run {} ", store.add("runs", 0));
  rank.communicator.barrier(*stream, label);
  return prefix;
}

std::string check_store(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const all_come = [&] { communicator.barrier(*stream, label); };
  auto store = communicator.key_value_store();
  auto const prefix = fresh_prefix(rank);
  std::string const bytes("any\0bytes\xff", 10), large(4000, 'x');
  std::string problem;
  auto const expect = [&](bool holds, std::string const& what) {
    problem = first_of(problem, holds ? "" : what + " is wrong");
  };
  // Every rank waits for the next one's value, most before it is set.
  auto const key_of = [&](int of) { return fmt::format("{}value {}", prefix, of % world); };
  store.set(key_of(me), fmt::format("{}{}", bytes, me));
  expect(store.get(key_of(me + 1), long_enough) == fmt::format("{}{}", bytes, (me + 1) % world), "get");
  std::vector<std::string> keys;
  for (int each = 0; each < world; ++each) {
    keys.push_back(key_of(each));
  }
  store.wait(keys, long_enough);
  all_come();
  store.set(key_of(me), large);
  expect(store.get(key_of(me), milliseconds{0}) == large, "a replaced value");
  expect(store.check(key_of(me)) && !store.check(prefix + "nothing"), "check");

  auto const count = prefix + "count";
  store.add(count, me + 1);
  all_come();
  expect(store.add(count, 0) == world * (world + 1) / 2, "add");
  all_come();
  expect(store.get(count, milliseconds{0}) == fmt::format("{}", world * (world + 1) / 2), "a sum as text");

  // One rank wins, and all learn which.
  auto const winner = store.compare_set(prefix + "winner", "", fmt::format("{}", me));
  expect(winner == store.get(prefix + "winner", milliseconds{0}), "compare_set");
  expect(store.compare_set(prefix + "winner", "nobody", "me") == winner, "a compare_set that sets nothing");
  all_come();
  expect(store.remove(key_of(me)) && !store.remove(key_of(me)) && !store.check(key_of(me)), "remove");
  return problem;
}

std::string check_refusals_of_the_store(Rank& rank) {
  auto store = rank.communicator.key_value_store();
  auto const prefix = fresh_prefix(rank);
  auto const key = prefix + "nobody sets this";
  std::string problem = expect_words(thrown_by<PeerError>([&] { return store.get(key, milliseconds{20}); }),
                                     fmt::format("KeyValueStore::get: no rank set the key '{}' within 20 ms", key));
  problem = first_of(problem, expect_words(thrown_by<PeerError>([&] {
                                             store.wait(std::vector{key, key + " too"}, milliseconds{20});
                                             return 0;
                                           }),
                                           fmt::format("no rank set the keys '{}', '{} too' within 20 ms", key, key)));
  auto const refused = [&](auto const& call, std::string const& words) {
    problem = first_of(problem, expect_words(thrown_by<ContractError>(call), words));
  };
  refused([&] { return store.check(""); }, "a key of 0 bytes; allowed are 1 to 200");
  refused([&] { return store.check(std::string(201, 'k')); }, "a key of 201 bytes; allowed are 1 to 200");
  refused(
      [&] {
        store.set("key", std::string(4001, 'v'));
        return 0;
      },
      "the value for 'key' has 4001 bytes; allowed are up to 4000");
  auto const word = fmt::format("{}word {}", prefix, rank.communicator.rank());
  store.set(word, "three");
  refused([&] { return store.add(word, 1); }, "whose value 'three' is not an integer");
  store.remove(word);
  return problem;
}

}  // namespace

std::vector<Case> group_cases() {
  return {{"groups without a rank in common are made at the same time", check_disjoint_groups},
          {"groups are made of few ranks, and of groups", check_groups_of_few},
          {"wrong lists of ranks are refused", check_refused_groups},
          {"a group whose ranks do not all come names them, and the job continues", check_missing_members},
          {"a monitored barrier names who is missing", check_monitored_barrier},
          {"the store has what any rank sets", check_store},
          {"the store refuses what it must, and names keys", check_refusals_of_the_store}};
}

}  // namespace zeroth::comm::conformance
