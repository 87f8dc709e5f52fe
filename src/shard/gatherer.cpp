// SPDX-License-Identifier: Apache-2.0
#include "shard/gatherer.hpp"

#include <array>

namespace zeroth::shard {
namespace {

class PlainGatherer final : public Gatherer {
 public:
  explicit PlainGatherer(Memory& memory) : Gatherer{memory} {}

 private:
  [[nodiscard]] Trip trip(Route const& route, Elements const& held, Elements const& whole) override {
    return {&route, held, whole};
  }
  void take_over(FlatId /*flat*/, std::byte* /*whole*/) override {}
};

}  // namespace

Gatherer::Gatherer(Memory& memory) : memory_{&memory}, carrier_{memory} { trips_.reserve(2); }

/// Offloaded parameters first move to their place in the whole.
void Gatherer::gather(FlatId flat, std::string_view purpose, std::byte* whole) {
  auto const& unit = memory_->flat(flat);
  auto const& routes = memory_->routes(flat);
  auto const dtype = memory_->precision(flat).compute;
  auto& stream = memory_->stream(routes.gather.lane);
  auto* const frozen = whole + unit.trainable.padded_count * bytes_of(dtype);
  struct PartOnRoute {
    Route const* route;
    Elements whole;
    Codec codec;
    [[nodiscard]] Range held() const noexcept { return route->hops.front().from; }
  };
  auto const codec = gather_codec_of(unit, memory_->request().settings);
  std::array const parts{PartOnRoute{&routes.gather, {whole, 0, dtype}, codec},
                         PartOnRoute{&routes.gather_frozen, {frozen, 0, dtype}, Codec::none}};
  memory_->home_of_parameters(flat).bring(flat, stream, parts[0].whole.at(parts[0].held()),
                                          parts[1].whole.at(parts[1].held()));
  auto* data = memory_->addresses(flat).parameters;
  trips_.clear();
  for (auto const& part : parts) {
    if (auto const held = part.held(); held.count() > 0) {
      trips_.push_back(trip(*part.route, data == nullptr ? part.whole : Elements{data, held.begin, dtype}, part.whole));
      trips_.back().codec = part.codec;
      data += data == nullptr ? 0 : held.count() * bytes_of(dtype);
    }
  }
  device::SpanScope const span{stream, "gather", unit.name};
  carrier_.run({"gather", purpose}, flat, trips_);
  take_over(flat, whole);
}

std::unique_ptr<Gatherer> make_gatherer(Memory& memory) { return std::make_unique<PlainGatherer>(memory); }

}  // namespace zeroth::shard
