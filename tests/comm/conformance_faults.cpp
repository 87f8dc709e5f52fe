// SPDX-License-Identifier: Apache-2.0
/// Ranks that are lost, late or in another collective: every rank of the job ends soon, with the reason.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "comm/conformance_parts.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::comm::conformance {
namespace {

std::string expect(std::string const& text, std::vector<std::string> const& words) {
  for (auto const& word : words) {
    if (text.find(word) == std::string::npos) {
      return fmt::format("'{}' is not in: {}", word, text.empty() ? "nothing, for nothing was thrown" : text);
    }
  }
  return {};
}

std::string last_rank(Rank const& rank) { return fmt::format("rank {}", rank.communicator.world() - 1); }
/// The description of the last rank, which waits in a receive of communicator "elsewhere".
std::string last_rank_elsewhere(Rank const& rank) {
  return last_rank(rank) +
         (rank.records_starts ? ", which started receive (elsewhere, 12 fp32)" : ", which last started ");
}
bool is_last(Rank const& rank) { return rank.communicator.rank() == rank.communicator.world() - 1; }

/// Checks that everything tried after the job's end fails for the same reason.
std::string check_ended(Rank& rank, std::vector<std::string> const& words) {
  auto const device = device::make_cpu_device();  // the rank's own failed with its stream
  auto const stream = device->make_stream("after", device::Overlap::on);
  float data = 1;
  rank.communicator.all_reduce(*stream, {"after", "the end"}, &data, &data, 1, Dtype::fp32);
  auto const later = error_of(*stream);
  std::string split = "nothing was thrown";
  try {
    auto const part = rank.communicator.split(0, 0, "after");
  } catch (PeerError const& error) {
    split = error.what();
  }
  return first_of(expect(later, words), expect(split, words));
}

/// One rank aborts, from another thread, while the others wait in a collective; two of its streams wait as well.
std::string check_abort(Rank& rank) {
  Part part{rank.communicator, 0, rank.communicator.rank(), "other"};
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const data = rank.buffer(std::vector<float>(100));
  if (is_last(rank)) {
    std::thread{[&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{200});  // the others have their part, and wait in it
      rank.communicator.abort("the disk is full");
      rank.communicator.abort("a second reason");
    }}.join();
    return check_ended(rank, {"the disk is full"});
  }
  part.communicator().all_reduce(*stream, {"backward", "block 7"}, data.data(), data.data(), 100, Dtype::fp32);
  auto const thrown = error_of(*stream);
  return first_of(expect(thrown, {fmt::format("[rank {}", this_rank().rank), "the disk is full", "all_reduce",
                                  "backward", "block 7", "other"}),
                  check_ended(rank, {"the disk is full"}));
}

/// One rank does not come, because it waits elsewhere. The others, which arrive one after another, report which rank
/// they waited for, and what that rank waits in.
std::string check_timeout(Rank& rank) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  Part elsewhere{rank.communicator, 0, rank.communicator.rank(), "elsewhere"};
  auto const data = rank.buffer(std::vector<float>(12));
  rank.communicator.all_reduce(*stream, {"step", ""}, data.data(), data.data(), 12, Dtype::fp32);
  stream->synchronize();
  if (is_last(rank)) {  // keeps its long timeout
    Collective const receive{Operation::receive, nullptr, data.data(), 12, Dtype::fp32, 0};
    elsewhere.communicator().submit(*stream, {"elsewhere", ""}, {&receive, 1});
    auto const thrown = error_of(*stream);
    return first_of(expect(thrown, {"waited", "missing", "block 7"}), check_ended(rank, {"waited"}));
  }
  std::this_thread::sleep_for(rank.communicator.rank() * std::chrono::milliseconds{50});
  rank.communicator.set_options({std::chrono::milliseconds{1000}, true});
  rank.communicator.all_reduce(*stream, {"backward", "block 7"}, data.data(), data.data(), 12, Dtype::fp32);
  auto const thrown = error_of(*stream);  // a rank that is slower is missing as well
  return expect(thrown, {"waited", "all_reduce (backward of unit 'block 7', 12 fp32)", "transaction 2",
                         "missing: ", last_rank_elsewhere(rank)});
}

/// Like check_timeout(), while another transaction has waited longer for its turn than the first one for the rank.
std::string check_timeout_in_turn(Rank& rank) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const slow = rank.device.make_stream("slow", device::Overlap::on);
  Part elsewhere{rank.communicator, 0, rank.communicator.rank(), "elsewhere"};
  auto const data = rank.buffer(std::vector<float>(12)), more = rank.buffer(std::vector<float>(12));
  rank.communicator.barrier(*stream, {"begin", ""});
  if (is_last(rank)) {
    Collective const receive{Operation::receive, nullptr, data.data(), 12, Dtype::fp32, 0};
    elsewhere.communicator().submit(*stream, {"elsewhere", ""}, {&receive, 1});
    return expect(error_of(*stream), {"waited", "missing"});
  }
  rank.communicator.set_options({std::chrono::milliseconds{1500}, true});  // mpi's status query takes up to 1 s
  rank.post(*slow, [] { std::this_thread::sleep_for(std::chrono::milliseconds{300}); });
  rank.communicator.all_reduce(*slow, {"backward", "block 7"}, data.data(), data.data(), 12, Dtype::fp32);
  rank.communicator.all_reduce(*stream, {"backward", "block 6"}, more.data(), more.data(), 12, Dtype::fp32);
  std::vector<std::string> const words{"waited", "block 7", "missing: ", last_rank_elsewhere(rank)};
  auto const in_turn = error_of(*stream);
  return first_of(expect(in_turn, words), expect(error_of(*slow), words));
}

struct Mismatch {
  char const* name;
  Label common_label, odd_label;
  std::vector<Collective> common, odd;
  std::vector<std::string> words;  ///< Every rank's error contains them.
};

constexpr std::size_t most_elements = 4096;  // in input and in output

std::vector<Mismatch> mismatches(void const* in, void* out) {
  Collective const gather{Operation::all_gather, in, out, 10, Dtype::fp32, 0};
  Collective const sum{Operation::all_reduce, in, out, 10, Dtype::fp32, 0};
  Collective const longer{Operation::all_gather, in, out, 11, Dtype::fp32, 0};
  Collective const other_type{Operation::all_gather, in, out, 10, Dtype::int32, 0};
  Label const forward{"forward", "block 3"};
  Label const backward{"backward", "block 4"};
  auto const roots = [&](char const* name, Operation operation) {
    auto const to = [&](int root) { return std::vector{Collective{operation, in, out, 10, Dtype::fp32, root}}; };
    return Mismatch{name, forward, forward, to(0), to(1), {"root 0", "root 1"}};
  };
  return {
      {"ranks that issue different operations are told so",
       forward,
       backward,
       {gather},
       {sum},
       {"all_gather (forward of unit 'block 3', 10 fp32)", "all_reduce (backward of unit 'block 4', 10 fp32)"}},
      {"ranks that issue different counts are told so", forward, forward, {gather}, {longer}, {"10 fp32", "11 fp32"}},
      {"ranks that issue different dtypes are told so",
       forward,
       forward,
       {gather},
       {other_type},
       {"10 fp32", "10 int32"}},
      {"ranks that issue different units are told so",
       forward,
       {"forward", "block 4"},
       {gather},
       {gather},
       {"block 3", "block 4"}},
      roots("ranks that broadcast from different roots are told so", Operation::broadcast),
      roots("ranks that reduce to different roots are told so", Operation::reduce),
      roots("ranks that gather to different roots are told so", Operation::gather),
      roots("ranks that scatter from different roots are told so", Operation::scatter),
      {"ranks that issue different lists are told so",
       forward,
       forward,
       {sum, gather},
       {sum, gather, sum},
       {"nothing more", "as collective 3 of 3"}},
  };
}

/// The last rank submits another collective, in its second transaction.
std::string check_mismatch(Rank& rank, std::size_t number) {
  auto const in = rank.buffer(std::vector<float>(most_elements)), out = rank.buffer(std::vector<float>(most_elements));
  auto const mismatch = mismatches(in.data(), out.data())[number];
  rank.communicator.set_options({std::chrono::minutes{2}, true});
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  rank.communicator.submit(*stream, {"forward", "block 1"}, {});
  bool const odd = is_last(rank);
  rank.communicator.submit(*stream, odd ? mismatch.odd_label : mismatch.common_label,
                           odd ? mismatch.odd : mismatch.common);
  auto words = mismatch.words;
  words.insert(words.end(), {"rank 0", last_rank(rank), "transaction 2"});
  auto const thrown = error_of(*stream);
  return first_of(expect(thrown, words), check_ended(rank, words));
}

/// Sender and receiver disagree, in a communicator that reverses the ranks: messages name the ranks of the job.
std::string check_message_mismatch(Rank& rank) {
  auto const part = rank.communicator.split(0, -rank.communicator.rank(), "backwards");
  part->set_options({std::chrono::minutes{2}, true});
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const data = rank.buffer(std::vector<float>(20));
  Collective const send{Operation::send, data.data(), nullptr, 10, Dtype::fp32, 1};
  Collective const receive{Operation::receive, nullptr, data.data(), 20, Dtype::fp32, 0};
  Collective const sum{Operation::all_reduce, data.data(), data.data(), 1, Dtype::fp32, 0};
  int const me = part->rank();
  part->submit(*stream, {"forward", "stage 2"}, {me == 0 ? &send : me == 1 ? &receive : &sum, 1});
  return expect(error_of(*stream), {"send", fmt::format("10 fp32, to rank {}", part->job_rank(1)), "receive",
                                    fmt::format("20 fp32, from rank {}", part->job_rank(0)), "stage 2"});
}

}  // namespace

std::vector<Case> fault_cases() {
  std::vector<Case> cases{{"an abort ends every wait", check_abort},
                          {"a rank that does not come is named", check_timeout},
                          {"a rank that does not come is named to those in a queue", check_timeout_in_turn},
                          {"messages that differ are told so", check_message_mismatch}};
  auto const all = mismatches(nullptr, nullptr);
  for (std::size_t number = 0; number < all.size(); ++number) {
    cases.push_back({all[number].name, [number](Rank& rank) { return check_mismatch(rank, number); }});
  }
  return cases;
}

}  // namespace zeroth::comm::conformance
