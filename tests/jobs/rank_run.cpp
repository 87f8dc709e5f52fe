// SPDX-License-Identifier: Apache-2.0
#include "jobs/rank_run.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <vector>

#include "checkpoint/saved.hpp"
#include "zeroth/tool/core/input_file.hpp"

namespace zeroth::testing::jobs {
namespace {

/// Whether resumed ranks still know of the stop: the whole job was asked, and the asking rank is among them.
bool is_still_asked_to_stop(Drawn const& drawn, Place const& place) {
  return !place.is_reference && drawn.choice.is("stop", "asked for") && drawn.world() == drawn.most_of_world() &&
         asking_rank(drawn, drawn.world() - servers_of(drawn.choice)) < drawn.world_that_goes_on();
}

/// `run`, on a job of `job`'s first ranks.
template <class Run>
void on_first(Job& job, int ranks, Record& record, Run const& run) {
  if (ranks == job.world()) {
    run(job);
    return;
  }
  bool const takes_part = job.rank() < ranks;
  auto part = job.split(takes_part ? 0 : 1, 0, "part");
  if (takes_part) {
    run(part);
  } else {
    record.leave_out();
  }
}

}  // namespace

void run_rank(Job& job, Drawn const& drawn, Place const& place, Record& record) {
  bool const stays = drawn.choice.is("goes on", "in the same engine");
  bool const goes_on_later = goes_on(drawn, place) && !stays;
  auto const ranks = place.is_reference ? drawn.world_of_reference() : drawn.world();
  on_first(job, ranks, record, [&](Job& part) {
    Segment segment{part, drawn, false, false, place, record};
    if (segment.serves()) {
      segment.serve();
      record.leave_out();
      return;
    }
    segment.steps(1, goes_on(drawn, place) ? drawn.goes_on_at : drawn.steps);
    if (goes_on(drawn, place) && stays) {
      segment.restore();
      segment.steps(drawn.saved_at + 1, drawn.steps);
    }
    goes_on_later ? segment.check_bytes() : segment.end();
  });
  if (goes_on_later) {
    auto const next = place.is_reference ? drawn.world_of_reference_that_goes_on() : drawn.world_that_goes_on();
    on_first(job, next, record, [&](Job& part) {
      Segment segment{part, drawn, true, is_still_asked_to_stop(drawn, place), place, record};
      if (segment.serves()) {
        segment.serve();
        record.leave_out();
        return;
      }
      segment.restore();
      segment.steps(drawn.saved_at + 1, drawn.steps);
      segment.end();
    });
  }
  std::array<double, 1> ended{};
  job.sum(ended);  // so that ranks that do not take part in the end find its files
}

void add_states(Drawn const& drawn, Place const& place, Record& record) {
  auto const states = [&](char const* folder, int step) {
    return states_in(place.folder / folder / fmt::format("step_{:08}", step));
  };
  for (auto const& [name, bytes] : states("end", drawn.steps)) {
    record.add_bytes("in the end state " + name, bytes);
  }
  if (goes_on(drawn, place) && states("to go on from", drawn.saved_at) != states("restored", drawn.saved_at)) {
    record.complain("the states right after the restore are not those of the checkpoint");
  }
  if (drawn.choice.is("weight file", "saved and loaded") && drawn.steps >= 2) {
    InputFile const file{place.folder / "weights.safetensors"};
    std::vector<std::byte> bytes(static_cast<std::size_t>(file.bytes()));
    file.read(0, bytes);
    record.add_bytes("weights.safetensors", bytes);
  }
}

}  // namespace zeroth::testing::jobs
