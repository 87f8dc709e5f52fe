// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/activation_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/block_file.hpp"
#include "device/kernels.hpp"
#include "device/stuck_memory.hpp"
#include "engine/call_guard.hpp"
#include "engine/engine_state.hpp"
#include "stage/policy.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth {
namespace {

constexpr std::size_t nothing = static_cast<std::size_t>(-1);

std::int64_t largest_input(detail::EngineState const& engine) {
  std::int64_t most = 0;
  for (auto const& unit : engine.sharded.model->units) {
    most = std::max(most, unit.input_per_sample);
  }
  auto const& settings = engine.settings();
  return most * settings.batch.micro * bytes_of(settings.precision.compute);
}

/// The options with the size of an input. Throws.
ActivationStoreOptions checked(detail::EngineState const& engine, ActivationStoreOptions options) {
  auto const& asked = engine.settings().activations;
  bool const on_gpu = engine.runtime.kind() != DeviceKind::cpu;
  auto const needed = on_gpu ? ActivationOffload::cpu : ActivationOffload::nvme;
  if (asked.offload != needed) {
    throw ConfigError{
        fmt::format(R"(ActivationStore: zeroth.activation_checkpointing.offload is "{}"; on {} a store needs "{}")",
                    name_of(asked.offload), on_gpu ? "GPUs" : "CPUs", name_of(needed))};
  }
  ZEROTH_EXPECTS(options.slots >= 1, fmt::format("ActivationStore: slots is {}; allowed: 1 or more", options.slots));
  ZEROTH_EXPECTS(options.input_bytes >= 0,
                 fmt::format("ActivationStore: input_bytes is {}; allowed: 0 or more", options.input_bytes));
  auto const largest = largest_input(engine);
  options.input_bytes = options.input_bytes > 0 ? options.input_bytes : largest;
  ZEROTH_EXPECTS(
      options.input_bytes > 0,
      "ActivationStore: input_bytes is 0, and no unit of the model has UnitOptions::input_per_sample; set one "
      "of them");
  ZEROTH_EXPECTS(options.bytes >= options.input_bytes,
                 fmt::format("ActivationStore: bytes is {}, less than the input of one unit, {}", options.bytes,
                             options.input_bytes));
  return options;
}

/// The unit's name, for messages.
std::string_view name_of_unit(detail::EngineState const& engine, std::optional<Unit> of_program) {
  if (!of_program) {
    return "?";
  }
  auto const& model = *engine.sharded.model;
  auto const unit = engine.runtime.share.local(*of_program, "ActivationStore::put()");
  ZEROTH_EXPECTS(unit.model() == model.id && unit.index() < model.units.size(),
                 "ActivationStore::put(): the unit belongs to another model");
  return model.units[unit.id()].name;
}

std::unique_ptr<device::Storage> make_storage(detail::EngineState& engine, std::int64_t bytes) {
  auto const& settings = engine.settings();
  if (engine.runtime.kind() != DeviceKind::cpu) {
    return engine.runtime.device->make_host_storage(bytes, "inputs of units", "activations");
  }
  auto options = stage::storage_in(settings.activations.nvme_path, settings);
  options.bytes = bytes;
  options.check = [all = engine.runtime.communicators->gather().all()] {
    if (auto const failure = all->failure()) {
      throw PeerError{*failure};
    }
  };
  options.contents = "activations";
  return engine.runtime.device->make_storage(options);
}

}  // namespace

struct ActivationStore::State {
  /// A buffer. Its memory is reused once its last write and read are over.
  struct Slot {
    std::byte* memory = nullptr;
    std::size_t place = nothing;  ///< Place of the input in the buffer, while it is in the store.
    bool fetched = false;         ///< Fetched for a later take().
    std::int64_t used_at = 0;
    std::unique_ptr<device::Event> filled, written, read;
  };
  /// The place of an input in the file.
  struct Place {
    std::int64_t bytes = 0;
    std::string_view unit;
    std::size_t slot = nothing;
  };

  State(detail::EngineState& of, ActivationStoreOptions const& asked)
      : engine{&of},
        options{checked(of, asked)},
        slot_bytes{whole_blocks(options.input_bytes)},
        device{of.runtime.device.get()},
        storage{make_storage(of, options.bytes / options.input_bytes * slot_bytes)},
        memory{device->allocate_for_program(options.slots * slot_bytes)},
        computed{device->make_event()},
        waits{device->make_stream("compute", device::Overlap::off)},
        writes{device->make_stream("put", device::Overlap::on)},
        reads{device->make_stream("fetch", device::Overlap::on)},
        places(static_cast<std::size_t>(options.bytes / options.input_bytes)) {
    for (int i = 0; i < options.slots; ++i) {
      slots.push_back({.memory = memory->data() + i * slot_bytes,
                       .filled = device->make_event(),
                       .written = device->make_event(),
                       .read = device->make_event()});
    }
    for (auto i = places.size(); i-- > 0;) {
      free.push_back(i);
    }
    engine->session.activation_waits.push_back(waits.get());
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    std::erase(engine->session.activation_waits, waits.get());
    engine->session.ended_activation_ms += waits->waited_ms();
    reads.reset();
    writes.reset();
    if (storage->stuck()) {
      device::keep_for_ever(std::move(memory));
    }
  }

  /// The slot that was not used for longest, of those that are not waited for.
  [[nodiscard]] Slot& free_slot(char const* call) {
    Slot* oldest = nullptr;
    for (auto& slot : slots) {
      if (!slot.fetched && (oldest == nullptr || slot.used_at < oldest->used_at)) {
        oldest = &slot;
      }
    }
    ZEROTH_EXPECTS(oldest != nullptr,
                   fmt::format("{}: each of the {} slots has an input that was fetched and not taken; "
                               "take one before, or make a store with more slots",
                               call, slots.size()));
    if (oldest->place != nothing) {
      places[oldest->place].slot = nothing;
    }
    oldest->used_at = ++uses;
    return *oldest;
  }
  void give(Slot& slot, std::size_t place) noexcept {
    slot.place = place;
    places[place].slot = static_cast<std::size_t>(&slot - slots.data());
  }
  [[nodiscard]] device::Stored stored(std::size_t place) const noexcept {
    return {static_cast<std::int64_t>(place) * slot_bytes, "the input", places[place].unit};
  }
  [[nodiscard]] std::span<std::byte> blocks(Slot const& slot, std::size_t place) const noexcept {
    return {slot.memory, static_cast<std::size_t>(whole_blocks(places[place].bytes))};
  }

  detail::EngineState* engine;
  ActivationStoreOptions options;
  std::int64_t slot_bytes;
  device::Device* device;
  std::unique_ptr<device::Storage> storage;
  std::unique_ptr<device::Memory> memory;
  std::unique_ptr<device::Event> computed;  ///< A point of the compute stream.
  std::unique_ptr<device::Stream> waits;    ///< The compute stream; its waits for activations are counted separately.
  std::unique_ptr<device::Stream> writes, reads;
  std::vector<Place> places;
  std::vector<Slot> slots;
  std::vector<std::size_t> free;  ///< Free places. Its capacity suffices for all places.
  std::int64_t uses = 0, written_bytes = 0, read_bytes = 0;
};

ActivationStore::Kept::Kept(Kept&& other) noexcept
    : store_{std::exchange(other.store_, nullptr)}, place_{other.place_} {}

ActivationStore::Kept& ActivationStore::Kept::operator=(Kept&& other) noexcept {
  std::swap(store_, other.store_);
  std::swap(place_, other.place_);
  if (this != &other) {
    Kept const dropped{std::move(other)};
  }
  return *this;
}

ActivationStore::Kept::~Kept() {
  if (store_ != nullptr) {
    store_->drop(place_);
  }
}

void ActivationStore::Kept::fetch() {
  ZEROTH_EXPECTS(store_ != nullptr, "ActivationStore::Kept::fetch(): it holds nothing");
  store_->fetch(place_);
}

void ActivationStore::Kept::take(void* address) {
  ZEROTH_EXPECTS(store_ != nullptr, "ActivationStore::Kept::take(): it holds nothing");
  store_->take(place_, address);
  Kept const dropped{std::move(*this)};
}

ActivationStore::ActivationStore(AnyEngine& engine, ActivationStoreOptions const& options) {
  auto& state = *engine.state_;
  engine::CallGuard const call_guard{state.session.thread_check, "ActivationStore"};
  state_ = std::make_unique<State>(state, options);
}
ActivationStore::~ActivationStore() = default;

ActivationStore::Kept ActivationStore::put(void const* address, std::int64_t bytes, std::optional<Unit> unit) {
  auto& s = *state_;
  engine::CallGuard const call_guard{s.engine->session.thread_check, "ActivationStore::put()"};
  ZEROTH_EXPECTS(bytes > 0 && bytes <= s.options.input_bytes,
                 fmt::format("ActivationStore::put(): bytes is {}; allowed: 1 to {}", bytes, s.options.input_bytes));
  ZEROTH_EXPECTS(!s.free.empty(),
                 fmt::format("ActivationStore::put(): the store is full: it has room for {} inputs", s.places.size()));
  auto const name = name_of_unit(*s.engine, unit);
  auto& slot = s.free_slot("ActivationStore::put()");
  return s.engine->or_end([&] {
    auto const place = s.free.back();
    s.places[place] = {bytes, name, nothing};
    s.waits->wait(*slot.written);
    s.waits->wait(*slot.read);
    auto& compute = s.device->compute();
    s.device->kernels().copy(compute, slot.memory, address, bytes);
    compute.record(*slot.filled);
    s.writes->wait(*slot.filled);
    auto const blocks = s.blocks(slot, place);
    {
      device::SpanScope const span{*s.writes, "write", s.places[place].unit};
      s.storage->write(*s.writes, s.stored(place), blocks);
    }
    s.writes->record(*slot.written);
    s.written_bytes += std::ssize(blocks);
    s.give(slot, place);
    s.free.pop_back();
    Kept kept;
    kept.store_ = this;
    kept.place_ = place;
    return kept;
  });
}

void ActivationStore::fetch(std::size_t place) {
  auto& s = *state_;
  engine::CallGuard const call_guard{s.engine->session.thread_check, "ActivationStore::Kept::fetch()"};
  if (auto const held = s.places[place].slot; held != nothing) {
    s.slots[held].fetched = true;
    return;
  }
  auto& slot = s.free_slot("ActivationStore::Kept::fetch()");
  s.engine->or_end([&] {
    // The data to read was written before the compute stream, or a fetch, reused its old slot. This slot is free once
    // its last write is done and the compute stream has reached this point.
    s.device->compute().record(*s.computed);
    s.reads->wait(*s.computed);
    s.reads->wait(*slot.written);
    auto const blocks = s.blocks(slot, place);
    {
      device::SpanScope const span{*s.reads, "read", s.places[place].unit};
      s.storage->read(*s.reads, s.stored(place), blocks);
    }
    s.reads->record(*slot.read);
    s.read_bytes += std::ssize(blocks);
    s.give(slot, place);
    slot.fetched = true;
  });
}

void ActivationStore::take(std::size_t place, void* address) {
  fetch(place);
  auto& s = *state_;
  engine::CallGuard const call_guard{s.engine->session.thread_check, "ActivationStore::Kept::take()"};
  s.engine->or_end([&] {
    auto const& slot = s.slots[s.places[place].slot];
    s.waits->wait(*slot.read);
    s.device->kernels().copy(s.device->compute(), address, slot.memory, s.places[place].bytes);
  });
}

void ActivationStore::drop(std::size_t place) noexcept {
  auto& s = *state_;
  if (auto const held = std::exchange(s.places[place].slot, nothing); held != nothing) {
    s.slots[held].place = nothing;
    s.slots[held].fetched = false;
  }
  s.free.push_back(place);  // never more than there was memory for
}

int ActivationStore::slots() const noexcept { return state_->options.slots; }
std::int64_t ActivationStore::room() const noexcept { return std::ssize(state_->places); }
std::int64_t ActivationStore::memory_bytes() const noexcept { return state_->memory->bytes(); }
std::int64_t ActivationStore::stored_bytes() const noexcept { return room() * state_->slot_bytes; }
std::int64_t ActivationStore::bytes_taken() const { return state_->storage->bytes_taken(); }
std::int64_t ActivationStore::written_bytes() const noexcept { return state_->written_bytes; }
std::int64_t ActivationStore::read_bytes() const noexcept { return state_->read_bytes; }
double ActivationStore::waited_ms() const { return state_->waits->waited_ms(); }

}  // namespace zeroth
