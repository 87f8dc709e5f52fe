// SPDX-License-Identifier: Apache-2.0
#include "engine/start.hpp"

#include <fmt/format.h>

#include <array>
#include <random>
#include <span>
#include <utility>

#include "comm/launch/job_state.hpp"
#include "core/hash.hpp"
#include "core/host_name.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

/// A hash that ranks with the same lists agree on.
std::uint64_t hash_of(std::vector<stage::Actions> const& lists) {
  Fnv1a hash;
  for (auto const& list : lists) {
    for (auto const& action : list) {
      for (auto const part : {static_cast<int>(action.phase), action.chunk, action.micro_step}) {
        hash.add(static_cast<std::uint64_t>(part));
      }
    }
  }
  return hash.value();
}

/// Checks that the first numbers of every rank agree. `all` has `of_each` numbers per rank; `said` names the first
/// ones.
void expect_same_numbers(std::span<std::uint64_t const> all, std::size_t of_each, std::span<char const* const> said,
                         Exchange const& ranks) {
  for (std::size_t place = 0; place < all.size(); ++place) {
    if (auto const field = place % of_each; field < said.size() && all[place] != all[field]) {
      throw PeerError{fmt::format("ranks {} and {} built an engine from different {}: all ranks must give the same",
                                  ranks.job_rank(0), ranks.job_rank(place / of_each), said[field])};
    }
  }
}

constexpr char const* different_models = "models (units, parameters, shapes, options, initial values or seed)";

std::uint64_t random_id() {
  std::random_device random;
  return (std::uint64_t{random()} << 32U) | random();
}

}  // namespace

Start::Start(Runtime const& runtime, ShardedModel const& sharded, Config const& config)
    : runtime_{runtime},
      sharded_{sharded},
      stage_file_{config.to_json()},
      takes_of_host_{runtime.device->holds_values() && (runtime.device->has_host_memory() ||
                                                        sharded.blueprint.request.offload.tier == shard::Tier::host)} {}

void Start::agree() {
  auto const exchange = runtime_.exchange();
  auto const& settings = sharded_.settings();
  auto const& request = sharded_.blueprint.request;
  auto const unusable = takes_of_host_ ? make_folders(settings) : std::string{};
  auto const left =
      takes_of_host_ ? measure_capacity(settings.offload.folder, settings.offload.parameter_folder) : Capacity{};
  std::array const mine{model::fingerprint(*sharded_.model),
                        Fnv1a{}.characters(stage_file_).value(),
                        random_id(),
                        Fnv1a{}.characters(host_name()).value(),
                        left.memory_of_machine,
                        left.memory_of_process,
                        left.disk,
                        left.parameters_disk,
                        left.one_disk ? std::uint64_t{1} : std::uint64_t{0},
                        unusable.empty() ? std::uint64_t{0} : std::uint64_t{1}};
  constexpr std::array said{different_models, "stage files"};
  auto const all = gather(std::span<std::uint64_t const>{mine}, "start", exchange);
  expect_same_numbers(all, mine.size(), said, exchange);
  for (std::size_t place = 0; place * mine.size() < all.size(); ++place) {
    if (all[(place + 1) * mine.size() - 1] != 0) {  // machines may differ in this
      throw ConfigError{unusable.empty() ? fmt::format("rank {} cannot create a file in the folder of nvme_path",
                                                       exchange.job_rank(place))
                                         : unusable};
    }
  }
  run_id_ = all[said.size()];
  std::vector<std::uint64_t> machines(static_cast<std::size_t>(exchange.world()));
  capacities_.resize(machines.size());
  auto const needs = needs_of(shard::plan_memory(sharded_.blueprint.layout, request), settings);
  for (std::size_t place = 0; place < machines.size(); ++place) {
    auto const rank = static_cast<std::size_t>(request.places.rank_at(static_cast<int>(place)));
    auto const* const said_by = &all[place * mine.size()];
    constexpr std::size_t machine = 3;
    machines[rank] = said_by[machine];
    capacities_[rank] = {said_by[machine],
                         {said_by[machine + 1], said_by[machine + 2], said_by[machine + 3], said_by[machine + 4],
                          said_by[machine + 5] != 0},
                         needs};
  }
  warning_ = crossing_warning(settings, machines);
}

void Start::agree_over_mesh(std::vector<stage::Actions> const& lists, Model const& whole) {
  auto const line = runtime_.line();
  std::array const mine{model::fingerprint(whole.description()), Fnv1a{}.characters(stage_file_).value(),
                        hash_of(lists), run_id_};
  constexpr std::array said{different_models, "stage files", "schedules (zeroth.pipeline.schedule_file)"};
  auto const all = gather(std::span<std::uint64_t const>{mine}, "start", line);
  run_id_ = all[said.size()];
  expect_same_numbers(all, mine.size(), said, line);
  std::vector<std::uint64_t> numbers;
  for (auto& rank : capacities_) {
    rank.needs.memory += static_cast<std::uint64_t>(sharded_.blueprint.pipeline.messages.bytes());
    auto const of_rank = rank.numbers();
    numbers.insert(numbers.end(), of_rank.begin(), of_rank.end());
  }
  auto const of_all = gather(std::span<std::uint64_t const>{numbers}, "start", line);
  auto const data = capacities_.size();
  auto const parts = static_cast<std::size_t>(runtime_.part.of);
  capacities_.resize(of_all.size() / RankCapacity::count);
  for (std::size_t at = 0; at < capacities_.size(); ++at) {  // tensor ranks are neighbours in the job
    auto const [in_line, place] = std::pair{at / data, at % data};
    capacities_[(in_line / parts * data + place) * parts + in_line % parts] =
        RankCapacity::of(std::span{of_all}.subspan(at * RankCapacity::count).first<RankCapacity::count>());
  }
}

void Start::agree_with_servers() {
  auto const all_ranks = runtime_.with_servers();
  std::array const mine{model::fingerprint(*sharded_.model), Fnv1a{}.characters(stage_file_).value(), run_id_};
  constexpr std::array said{different_models, "stage files"};
  auto const all = gather(std::span<std::uint64_t const>{mine}, "start", all_ranks);
  run_id_ = all[said.size()];
  expect_same_numbers(all, mine.size(), said, all_ranks);
  auto const own = capacities_[static_cast<std::size_t>(runtime_.exchange().rank())].numbers();
  auto const of_all = gather(std::span<std::uint64_t const>{own}, "start", all_ranks);
  capacities_.clear();
  for (std::size_t at = 0; at < of_all.size(); at += RankCapacity::count) {
    capacities_.push_back(RankCapacity::of(std::span{of_all}.subspan(at).first<RankCapacity::count>()));
  }
}

void Start::expect_room() const {
  if (!takes_of_host_) {
    return;
  }
  auto const plan = shard::plan_memory(sharded_.blueprint.layout, sharded_.blueprint.request);
  auto const transport = runtime_.job->communicator->transport();
  bool const in_one_process = comm::traits_of(transport).ranks == comm::RankKind::threads;
  if (auto const short_of = shortage(plan, sharded_.settings(), capacities_, in_one_process); !short_of.empty()) {
    throw ConfigError{short_of};
  }
}

}  // namespace zeroth::engine
