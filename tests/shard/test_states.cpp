// SPDX-License-Identifier: Apache-2.0
/// Tests parameters, gradients and decisions separately, on two ranks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/local/local.hpp"
#include "shard/gatherer.hpp"
#include "shard/gradients.hpp"
#include "shard/optimizer.hpp"
#include "shard/parameters.hpp"
#include "shard/values.hpp"
#include "support/catch.hpp"
#include "support/ids.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::testing {
namespace {

using shard::Layout;
using shard::Memory;
using shard::Placement;
using shard::Placements;

constexpr int world = 2;
constexpr std::int64_t elements = 300;
constexpr Placements all_sharded{Placement::shard, Placement::shard, Placement::shard};

/// Three units. The first and the second have one parameter each, with elements i and -i; the third has two.
Model three_units() {
  Model model;
  auto const from = [](float sign) {
    return PerElement{[sign](std::int64_t i) { return sign * static_cast<float>(i); }};
  };
  static_cast<void>(model.param(model.unit("a"), "a.w", {elements}, from(1)));
  static_cast<void>(model.param(model.unit("b"), "b.w", {elements}, from(-1)));
  auto const unit = model.unit("c");
  static_cast<void>(model.param(unit, "c.used", {elements}, Constant{1}));
  static_cast<void>(model.param(unit, "c.unused", {elements}, Constant{1}));
  return model;
}

shard::SlotCounts one_slot_each_class(Layout const& layout) {
  ById<shard::FlatId, std::int64_t> counts;
  for (auto const& flat : layout.flats()) {
    counts.push_back(flat.padded_count());
  }
  auto slots = shard::classify(counts);
  for (auto& slot_class : slots.classes) {
    slot_class.slots = 1;
  }
  return slots;
}

/// A test's changes to the request.
using Change = std::function<void(shard::PlanRequest&)>;

/// A Memory, and all objects that it needs.
struct Rank {
  Model model = three_units();
  Layout layout{model.description(), world};
  std::unique_ptr<device::Device> device = device::make_cpu_device();
  std::shared_ptr<comm::Communicator> gather, reduce;
  std::unique_ptr<device::Stream> gather_stream = device->make_stream("gather", device::Overlap::on);
  std::unique_ptr<device::Stream> reduce_stream = device->make_stream("reduce", device::Overlap::on);
  Memory memory;

  Rank(std::shared_ptr<comm::Communicator> gathers, std::shared_ptr<comm::Communicator> reductions,
       Placements const& placements, Change const& change)
      : gather{std::move(gathers)},
        reduce{std::move(reductions)},
        memory{{.device = device.get(),
                .gather_stream = gather_stream.get(),
                .reduce_stream = reduce_stream.get(),
                .gather = shard::Ranks{gather.get()},
                .reduce = shard::Ranks{reduce.get()},
                .model = &model.description(),
                .layout = &layout,
                .ties = {}},
               request(placements, change)} {}

  shard::PlanRequest request(Placements const& placements, Change const& change) const {
    shard::PlanRequest request;
    request.placements = placements;
    request.places = {world, world};
    request.parameter_slots = one_slot_each_class(layout);
    request.gradient_slots = one_slot_each_class(layout);
    request.largest_bucket_count = shard::alignment_count * 100;
    change(request);
    return request;
  }
};

/// Runs `body` on two ranks, and returns its results, which are empty if there is no problem.
std::vector<std::string> on_two_ranks(
    std::function<std::string(Rank&)> const& body, Placements const& placements = all_sharded,
    Change const& change = [](shard::PlanRequest&) {}) {
  auto gathers = comm::make_local(world);
  auto reductions = comm::make_local(world);
  std::vector<std::string> wrong(world);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < world; ++r) {
    threads.emplace_back([&, r] {
      std::shared_ptr<comm::Communicator> const gather{std::move(gathers[r])};
      std::shared_ptr<comm::Communicator> const reduce{std::move(reductions[r])};
      try {
        Rank rank{gather, reduce, placements, change};
        wrong[r] = body(rank);
      } catch (std::exception const& error) {
        wrong[r] = error.what();
        gather->abort(error.what());
        reduce->abort(error.what());
      }
    });
  }
  std::ranges::for_each(threads, [](std::thread& thread) { thread.join(); });
  return wrong;
}

std::vector<std::string> const nothing(world);

std::span<float const> floats(std::byte const* data, std::int64_t count) {
  return {reinterpret_cast<float const*>(data), static_cast<std::size_t>(count)};
}

/// Whether a unit's memory is where the plan has it: none without an offset, otherwise at the planned distance from the
/// first unit's.
std::string offset_problem(Memory const& memory, char const* what, std::byte* Memory::Addresses::*address,
                           std::int64_t shard::FlatOffsets::*offset) {
  auto const first = memory.addresses(0_flat);
  for (auto const flat : memory.plan().flats.ids()) {
    auto const at = memory.plan().flats[flat].*offset;
    auto* const data = memory.addresses(flat).*address;
    if ((data != nullptr) != (at >= 0)) {
      return fmt::format("{} of unit {} has the offset {}, and memory: {}", what, index_of(flat), at, data != nullptr);
    }
    if (data != nullptr && data - first.*address != at - memory.plan().flats[0_flat].*offset) {
      return fmt::format("{} of unit {} is {} bytes from the first one's", what, index_of(flat), data - first.*address);
    }
  }
  return {};
}

}  // namespace

TEST_CASE("memory: what a unit has is where the plan puts it, from the first byte on") {
  bool const sums = GENERATE(false, true);
  bool const poison = GENERATE(false, true);
  bool const whole = GENERATE(false, true);
  CAPTURE(sums, poison, whole);
  auto const body = [](Rank& rank) -> std::string {
    auto const& memory = rank.memory;
    using At = Memory::Addresses;
    using Plan = shard::FlatOffsets;
    for (auto const& problem : {offset_problem(memory, "parameters", &At::parameters, &Plan::parameters),
                                offset_problem(memory, "master", &At::master, &Plan::master),
                                offset_problem(memory, "gradient", &At::gradient, &Plan::gradient),
                                offset_problem(memory, "sums", &At::sums, &Plan::sums),
                                offset_problem(memory, "lent parameters", &At::lent_parameters, &Plan::lent_parameters),
                                offset_problem(memory, "lent gradient", &At::lent_gradient, &Plan::lent_gradient)}) {
      if (!problem.empty()) {
        return problem;
      }
    }
    for (auto const flat : memory.plan().flats.ids()) {
      auto const at = memory.addresses(flat);
      bool const has_all = memory.request().placements.parameters == Placement::whole;
      auto const own = memory.optimized(flat).begin;
      auto const first = has_all ? own * bytes_of(Dtype::bf16) : 0;
      if (at.updated_parameters != at.parameters + first) {
        return fmt::format("updates of unit {} write elsewhere", index_of(flat));
      }
      if (at.sums != nullptr && at.reduced != at.sums + own * bytes_of(Dtype::fp32)) {
        return fmt::format("updates of unit {} read elsewhere", index_of(flat));
      }
    }
    return {};
  };
  CHECK(on_two_ranks(body, whole ? Placements{Placement::whole, Placement::whole, Placement::shard} : all_sharded,
                     [&](shard::PlanRequest& request) {
                       request.settings.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16, Dtype::fp32};
                       request.settings.sums_micro_steps = sums;
                       request.settings.poison = poison;
                     }) == nothing);
}

TEST_CASE("parameters: gathered whole into slots, one at a time, until they are evicted") {
  auto const body = [](Rank& rank) -> std::string {
    shard::Parameters parameters{rank.memory};
    shard::Values{rank.memory}.initialise();
    if (parameters.gathered(0_flat) || !parameters.gather(0_flat, "forward") || !parameters.gathered(0_flat)) {
      return "the first unit was not gathered";
    }
    if (parameters.gather(1_flat, "forward")) {
      return "there is one slot, and two units were gathered";
    }
    parameters.evict(0_flat);
    if (parameters.gathered(0_flat) || !parameters.gather(1_flat, "forward")) {
      return "the second unit was not gathered into the first one's slot";
    }
    parameters.pin(1_flat);
    parameters.await(1_flat, "forward");
    auto const values = floats(parameters.address(1_param), elements);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != -static_cast<float>(i)) {
        return fmt::format("element {} is {}", i, values[i]);
      }
    }
    parameters.release(1_flat, "forward");
    parameters.drop_all();
    parameters.await_gathers();
    auto const bytes = 2 * rank.memory.flat(0_flat).padded_count() * bytes_of(Dtype::fp32);
    bool const counted = parameters.evictions() == 2 && parameters.slots_high_water() == 1;
    return counted && parameters.gathered_bytes().all == bytes && !parameters.gathered(1_flat) ? "" : "counted wrongly";
  };
  CHECK(on_two_ranks(body) == nothing);
}

/// Sends a copy of the ranks' elements, and gathers the whole in separate memory before it moves it to its destination.
class CopyingGatherer final : public shard::Gatherer {
 public:
  explicit CopyingGatherer(Memory& memory) : Gatherer{memory} {}

 private:
  [[nodiscard]] shard::Trip trip(shard::Route const& route, shard::Elements const& held,
                                 shard::Elements const& whole) override {
    auto const range = route.hops.front().from;
    auto const bytes = range.count() * bytes_of(held.dtype);
    sent_.resize(static_cast<std::size_t>(bytes));
    brought_.resize(static_cast<std::size_t>(world * bytes));
    memory().kernels().copy(stream(), sent_.data(), held.at(range), bytes);
    return {&route, {sent_.data(), range.begin, held.dtype}, {brought_.data(), 0, whole.dtype}};
  }
  void take_over(shard::FlatId /*flat*/, std::byte* whole) override {
    memory().kernels().copy(stream(), whole, brought_.data(), std::ssize(brought_));
  }
  [[nodiscard]] device::Stream& stream() const { return *memory().context().gather_stream; }

  std::vector<std::byte> sent_, brought_;
};

TEST_CASE("parameters: a gatherer may send something else than what ranks hold") {
  auto const body = [](Rank& rank) -> std::string {
    shard::Values{rank.memory}.initialise();
    auto const& flat = rank.memory.flat(1_flat);
    std::vector<float> expected(static_cast<std::size_t>(flat.padded_count())), whole(expected.size(), 7);
    for (std::size_t i = 0; i < elements; ++i) {
      expected[i] = -static_cast<float>(i);
    }
    CopyingGatherer copying{rank.memory};
    auto const plain = shard::make_gatherer(rank.memory);
    for (auto* const gatherer : {static_cast<shard::Gatherer*>(&copying), plain.get()}) {
      std::ranges::fill(whole, 7.0F);
      gatherer->gather(1_flat, "forward", reinterpret_cast<std::byte*>(whole.data()));
      rank.gather_stream->synchronize();
      if (whole != expected || gatherer->moved().all != flat.padded_count() * bytes_of(Dtype::fp32)) {
        return gatherer == &copying ? "by a copy other elements came" : "other elements came";
      }
    }
    return "";
  };
  CHECK(on_two_ranks(body) == nothing);
}

TEST_CASE("parameters that are whole need no gather, and are published by slices") {
  auto const body = [](Rank& rank) -> std::string {
    shard::Parameters parameters{rank.memory};
    shard::Values{rank.memory}.initialise();
    if (!parameters.gathered(0_flat)) {
      return "what is whole is not readable";
    }
    auto* const whole = reinterpret_cast<float*>(rank.memory.addresses(0_flat).parameters);
    auto const own = rank.memory.flat(0_flat).trainable.slice(rank.gather->rank());
    std::fill(whole + own.begin, whole + own.end, static_cast<float>(rank.gather->rank() + 7));
    rank.memory.compute().record(rank.memory.updated(0_flat));
    parameters.publish(std::array{0_flat});
    parameters.pin(0_flat);
    parameters.await(0_flat, "forward");
    auto const values = floats(parameters.address(0_param), elements);
    auto const cut = rank.memory.flat(0_flat).trainable.shard_count;
    for (std::int64_t i = 0; i < elements; ++i) {
      if (values[static_cast<std::size_t>(i)] != (i < cut ? 7.0F : 8.0F)) {
        return fmt::format("element {} is {}", i, values[static_cast<std::size_t>(i)]);
      }
    }
    parameters.release(0_flat, "forward");
    rank.gather_stream->synchronize();
    return "";
  };
  CHECK(on_two_ranks(body, {Placement::whole, Placement::whole, Placement::shard}) == nothing);
}

TEST_CASE("gradients: contributions add up, what had none is zero, ranks' are summed where the optimizer reads") {
  auto const body = [](Rank& rank) -> std::string {
    shard::Gradients gradients{rank.memory};
    constexpr auto flat = 2_flat;
    constexpr auto used = 2_param;  // elements of its two parameters
    if (!gradients.begin(flat)) {
      return "no slot for the first gradient";
    }
    auto const mine = static_cast<float>(rank.reduce->rank() + 1);
    for (float const expected_beta : {0.0F, 1.0F}) {
      auto const [data, beta] = gradients.contribute(UnitId{2}, used);
      if (beta != expected_beta) {
        return fmt::format("beta is {} where it should be {}", beta, expected_beta);
      }
      for (std::int64_t i = 0; i < elements; ++i) {
        auto& element = reinterpret_cast<float*>(data)[i];
        element = (beta == 0 ? 0 : element) + mine;
      }
    }
    gradients.end(flat, true);
    gradients.reduce(std::vector{flat}, true);
    rank.reduce_stream->synchronize();
    auto const& part = rank.memory.flat(flat).trainable;
    auto const own = part.slice(rank.reduce->rank());
    auto const sums = floats(rank.memory.addresses(flat).reduced, part.shard_count);
    for (auto i = own.begin; i < own.end; ++i) {
      auto const expected = i < elements ? 6.0F : 0.0F;  // 2 * (1 + 2); the unused parameter and padding have none
      if (sums[static_cast<std::size_t>(i - own.begin)] != expected) {
        return fmt::format("element {} is {}", i, sums[static_cast<std::size_t>(i - own.begin)]);
      }
    }
    if (!gradients.begin(flat) || gradients.contribute(UnitId{2}, used).beta != 0) {
      return "after a reduction contributions do not begin again";
    }
    return gradients.reduced_bytes().all == part.padded_count * bytes_of(Dtype::fp32) ? "" : "counted wrongly";
  };
  CHECK(on_two_ranks(body) == nothing);
}

TEST_CASE("gradients: two units cannot have one slot at the same time") {
  auto const body = [](Rank& rank) -> std::string {
    shard::Gradients gradients{rank.memory};
    if (!gradients.begin(0_flat) || gradients.begin(1_flat) || !gradients.begin(0_flat)) {
      return "a slot for one unit was given to two";
    }
    gradients.end(0_flat, true);
    gradients.reduce(std::vector{0_flat}, true);
    bool const free_again = gradients.begin(1_flat);
    rank.memory.compute().synchronize();
    rank.reduce_stream->synchronize();
    return free_again && gradients.slots_high_water() == 1 ? "" : "the slot did not become free";
  };
  CHECK(on_two_ranks(body) == nothing);
}

TEST_CASE("optimizer: all ranks decide the same from the sums of all") {
  auto const body = [](Rank& rank) -> std::string {
    optim::LossScaleState scale;
    scale.scale = 4;
    shard::Optimizer optimizer{rank.memory, scale};
    if (optimizer.loss_scale() != 4) {
      return "the loss scale does not begin as it is given";
    }
    auto const mine = static_cast<double>(rank.reduce->rank() + 1);
    optim::StepSums sums;
    sums.loss = 10 * mine;
    sums.weight = mine;
    sums.stop = mine == 2 ? 1 : 0;
    optimizer.decide(sums, {}, {}, 1);
    auto const& results = optimizer.results();
    if (results.totals[1].loss.value() != 30 || results.totals[1].weight.value() != 3 ||
        results.scalars[1].loss != 10 || !results.scalars[1].stop) {
      return fmt::format("summed to {} and {}, decided on a loss of {}", results.totals[1].loss.value(),
                         results.totals[1].weight.value(), results.scalars[1].loss);
    }
    auto const evaluated = optimizer.sum_evaluation(sums);
    return evaluated.loss.value() == 30 && evaluated.weight.value() == 3 ? "" : "the evaluation is summed wrongly";
  };
  CHECK(on_two_ranks(body) == nothing);
}

}  // namespace zeroth::testing
