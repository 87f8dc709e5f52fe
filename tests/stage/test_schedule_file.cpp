// SPDX-License-Identifier: Apache-2.0
/// Pipeline schedules from files, and the errors for invalid files.
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "stage/pipeline_check.hpp"
#include "stage/schedule_file.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
using stage::PipelineSize;

/// The result of reading a file with this text: lists, or an error.
struct Read {
  std::vector<stage::Actions> lists;
  std::string told;
};
Read read(std::string const& text, PipelineSize const& size) {
  Folder const folder;
  auto const path = folder.path() / "schedule.csv";
  std::ofstream{path} << text;
  Read result;
  result.told = thrown<ConfigError>([&] { result.lists = stage::read_schedule(path, size); });
  return result;
}

std::string letter_of(Phase phase) { return std::string{"FBIW"}.substr(static_cast<std::size_t>(phase), 1); }

/// The table in PyTorch's format: a wait is an empty cell.
std::string table_of(std::vector<stage::Actions> const& lists) {
  std::string text = "# chunk, phase, micro-step\n\n";
  for (auto const& list : lists) {
    for (auto const& action : list) {
      text += fmt::format("{}{}{}, ,", action.chunk, letter_of(action.phase), action.micro_step);
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a schedule that is written as a table is read as it was") {
  for (auto const schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward,
                              PipelineSchedule::interleaved, PipelineSchedule::zero_bubble}) {
    PipelineSize const size{3, schedule == PipelineSchedule::interleaved ? 2 : 1, 6};
    auto const lists = stage::schedule_of(schedule, size);
    auto const found = read(table_of(lists), size);
    CHECK(found.told.empty());
    CHECK(found.lists == lists);
  }
}

TEST_CASE("mistakes in a table are reported with line and cell") {
  PipelineSize const size{2, 1, 2};
  auto const told = [&](char const* text) { return read(text, size).told; };
  CHECK(told("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n").empty());
  CHECK_THAT(told("0F0,0X1\n1F0\n"),
             Contains("schedule.csv, line 1, cell 2: \"0X1\" is not an action; allowed: a chunk"));
  for (auto const* const cell : {"F0", "0F", "0F-1", "-1F0", "0F0x", "99999999999F0", "0", "0f0"}) {
    CHECK_THAT(told(fmt::format("# first\n{}\n1F0\n", cell).c_str()),
               Contains("line 2, cell 1") && Contains("is not an action"));
  }
  CHECK_THAT(told("0F0\n0F0\n"), Contains("line 2, cell 1: \"0F0\" names chunk 0 and micro-step 0, but stage 1 of 2 "
                                          "has chunks 1 alone, with 2 micro-steps each"));
  CHECK_THAT(told("0F2\n1F0\n"), Contains("line 1, cell 1: \"0F2\" names chunk 0 and micro-step 2"));
  CHECK_THAT(told("0F0\n1F0\n\n1B0\n"),
             Contains("line 4: is one line too many: there are 2 stages (zeroth.mesh.pipeline)"));
  CHECK_THAT(told("0F0\n"), Contains("has lines for 1 stages, but there are 2"));
  CHECK_THAT(thrown<ConfigError>([&] { static_cast<void>(stage::read_schedule("/nowhere/s.csv", size)); }),
             Contains("zeroth.pipeline.schedule_file: /nowhere/s.csv cannot be read: No such file"));
  CHECK_THAT(read("0F0,2F0,4F0\n1F0\n", {2, 2, 2}).told, Contains("has chunks 0, 2 and so on up to 2"));
}

}  // namespace zeroth::testing
