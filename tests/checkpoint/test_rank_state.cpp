// SPDX-License-Identifier: Apache-2.0
/// State that each rank saves for itself: bytes of any size, read again by programs of any number of ranks.
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "pipeline_runs.hpp"
#include "runs.hpp"
#include "saved.hpp"
#include "small_run.hpp"
#include "support/folder.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
using checkpoint::read_rank_state;
namespace fs = std::filesystem;

std::vector<std::byte> bytes_of_rank(int rank, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(rank));
  }
  return bytes;
}

/// Saves with three ranks, of which the first has no bytes, the second one, and the third more than three MiB.
constexpr std::size_t sizes[] = {0, 1, (3U << 20U) + 5};

fs::path save_of_three(fs::path const& folder, int stage, bool with_rank_states = true) {
  fs::path saved;
  run_small(3, small_config(stage), [&](auto& engine, auto& small, auto&) {
    auto const rank = engine.place();
    all_micro_steps(engine, small);
    engine.step();
    auto const own = bytes_of_rank(rank, sizes[static_cast<std::size_t>(rank)]);
    SaveOptions options;
    if (with_rank_states) {
      options.rank_state = own;
    }
    auto saving = engine.save(folder, options);
    saving.wait();
    if (rank == 0) {
      saved = saving.path();
    }
  });
  return saved;
}

}  // namespace

TEST_CASE("any number of ranks reads what each rank has saved of its own") {
  for (int stage = 0; stage <= 3; ++stage) {
    Folder const folder;
    auto const path = save_of_three(folder / "with", stage);
    for (int rank = 0; rank < 3; ++rank) {
      INFO("stage " << stage << ", rank " << rank);
      CHECK(read_rank_state(path, {.data = rank}) == bytes_of_rank(rank, sizes[rank]));
      CHECK(checkpoint::Reader{path}.damage(rank, true).empty());
    }
    CHECK(states_in(path) == states_in(save_of_three(folder / "without", stage, false)));
    auto const errors = run_small(2, small_config(stage), [&](auto& engine, auto&, auto& notes) {
      auto const restored = engine.restore(path);
      auto const& ranks = restored.ranks;
      if (ranks.data != 3 || ranks.tensor != 1 || ranks.stages != 1 ||
          read_rank_state(restored.path, {.data = 2}).size() != sizes[2]) {
        notes.push_back(fmt::format("{} x {} x {} ranks", ranks.data, ranks.tensor, ranks.stages));
      }
    });
    CHECK(errors == std::vector<std::vector<std::string>>(2));
  }
}

TEST_CASE("rank states of groups are those of their places") {
  Folder const folder;
  auto const config = small_config(3, {.zero = R"(, "mics_shard_size": 2)"});
  auto const bytes_of = [](int rank) { return bytes_of_rank(rank, 100 + static_cast<std::size_t>(rank)); };
  auto const errors = run_small(6, config, [&](auto& engine, auto&, auto&) {
    auto const own = bytes_of(engine.place());
    engine.save(folder.path(), {.rank_state = own}).wait();
  });
  CHECK(errors == std::vector<std::vector<std::string>>(6));
  for (int place = 0; place < 6; ++place) {
    INFO("place " << place);
    CHECK(read_rank_state(folder / "step_00000000", {.data = place}) == bytes_of(place));
  }
}

TEST_CASE("rank states of a mesh are those of its places") {
  Folder const folder;
  auto const text = [](Mesh::Place const& at) { return fmt::format("stage {}, data rank {}", at.stage, at.data); };
  Shape const shape{.stages = 2, .data = 2, .zero = 1};
  auto const outcome = run_job(4, [&](Job& job) {
    auto const config = config_of(all_types[0], shape);
    Mesh mesh{job, config};
    Chain const chain{{}};
    Engine<float> engine{mesh, chain.model, config};
    auto const own = text(mesh.place());
    engine.save(folder.path(), {.rank_state = std::as_bytes(std::span{own})}).wait();
  });
  REQUIRE(messages_of(outcome) == "");
  for (int stage = 0; stage < 2; ++stage) {
    for (int data = 0; data < 2; ++data) {
      auto const bytes = read_rank_state(folder / "step_00000000", {.data = data, .stage = stage});
      CHECK(std::string{reinterpret_cast<char const*>(bytes.data()), bytes.size()} ==
            text({.stage = stage, .data = data, .tensor = 0}));
    }
  }
  CHECK_THAT(
      thrown<ContractError>([&] { return read_rank_state(folder / "step_00000000", {.data = 2}); }),
      Contains("data is 2; allowed: 0 to 1, as it was saved by 2 data-parallel ranks, 1 tensor-parallel ranks and "
               "2 stages"));
}

TEST_CASE("a checkpoint without rank states, with a damaged one and with a wrong size of one is refused") {
  Folder const folder;
  auto const without = save_of_three(folder / "without", 1, false);
  CHECK_THAT(thrown<ContractError>([&] { return read_rank_state(without); }),
             Contains("it was saved without SaveOptions::rank_state"));
  auto const path = save_of_three(folder / "with", 1);
  auto const place = path / "place_00002.safetensors";
  auto const states = checkpoint::read_record(path).contents.state_bytes(2);
  {
    std::fstream file{place, std::ios::in | std::ios::out | std::ios::binary};
    std::uint64_t header_bytes = 0;
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
    file.seekp(static_cast<std::streamoff>(8 + header_bytes) + states + (2 << 20U));
    file.put('x').put('y').put('z');
  }
  CHECK_THAT(
      thrown<DamagedError>([&] { return read_rank_state(path, {.data = 2}); }),
      Contains("place_00002.safetensors: is damaged between bytes") && Contains("hash mismatch: rank_state, bytes ["));
  CHECK(read_rank_state(path, {.data = 1}) == bytes_of_rank(1, 1));
  fs::resize_file(place, fs::file_size(place) - 1);
  CHECK_THAT(thrown<DamagedError>([&] { return read_rank_state(path, {.data = 2}); }),
             Contains("but this checkpoint needs"));
}

TEST_CASE("ranks of which only some save a state of their own are told") {
  Folder const folder;
  auto const outcome = run_job(2, [&](Job& job) {
    SmallModel const small;
    SmallEngine engine{job, small.model, small_config(1)};
    SaveOptions options;
    if (job.rank() == 1) {
      options.rank_state.emplace();
    }
    engine.save(folder.path(), options);
    for (int step = 0; step < 3; ++step) {
      all_micro_steps(engine, small);
      engine.step();
    }
  });
  CHECK_THAT(messages_of(outcome), Contains("save() with a rank_state into a folder"));
}

}  // namespace zeroth::testing
