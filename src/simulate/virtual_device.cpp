// SPDX-License-Identifier: Apache-2.0
#include "simulate/virtual_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "device/host_memory.hpp"
#include "device/page_memory.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::simulate {
namespace {

// No processor maps such addresses, so an access ends the program instead of going unnoticed.
constexpr std::uintptr_t first_virtual_address = std::uintptr_t{1} << 60U;
constexpr std::int64_t page_bytes = 4096;

constexpr double last_us = 9e15;  // that the clock's nanoseconds count: 285 years

class VirtualMemory final : public device::Memory {
 public:
  VirtualMemory(device::Ledger& ledger, device::Category category, std::int64_t bytes, std::byte* address)
      : ledger_{ledger}, category_{category} {
    data_ = address;
    bytes_ = bytes;
    ledger_.add(category_, bytes_);
  }
  ~VirtualMemory() override { ledger_.remove(category_, bytes_); }

 private:
  device::Ledger& ledger_;
  device::Category category_;
};

/// Storage outside of the device's memory, and the links to and from it. `data` is never dereferenced.
class VirtualStorage final : public device::Storage {
 public:
  VirtualStorage(double bytes_per_s, std::int64_t bytes, Links& reads, Links& writes, std::byte* data = nullptr)
      : us_per_byte_{1e6 / bytes_per_s}, bytes_{bytes}, data_{data}, reads_{reads}, writes_{writes} {}
  void read(device::Stream& stream, std::span<device::StoredPiece const> pieces) override {
    move(stream, reads_, pieces);
  }
  void write(device::Stream& stream, std::span<device::StoredPiece const> pieces) override {
    move(stream, writes_, pieces);
  }
  [[nodiscard]] std::byte* data() const noexcept override { return data_; }
  [[nodiscard]] std::int64_t bytes_taken() const override { return bytes_; }

 private:
  void move(device::Stream& stream, Links& links, std::span<device::StoredPiece const> pieces) const {
    for (auto const& piece : pieces) {
      as_virtual(stream).transfer(links, us_per_byte_ * static_cast<double>(piece.memory.size()));
    }
  }
  double us_per_byte_;
  std::int64_t bytes_;
  std::byte* data_;
  Links &reads_, &writes_;
};

VirtualEvent const& as_virtual(device::Event const& event) { return dynamic_cast<VirtualEvent const&>(event); }

}  // namespace

void VirtualEvent::synchronize() const { device_.host_us_ = std::max(device_.host_us_, at_us()); }

VirtualStream::VirtualStream(std::string name, VirtualDevice& device, std::shared_ptr<double> clock_us)
    : name_{std::move(name)}, device_{device}, clock_us_{std::move(clock_us)} {
  device_.collectives_.push_back(collectives_);
}

void VirtualStream::wait(device::Event const& event) {
  double const from = start();
  double const until = as_virtual(event).at_us();
  if (until > from) {
    (as_virtual(event).message ? device_.bubble_.messages_us : waited_us_) += until - from;
    *clock_us_ = until;
    if (device_.timeline_ != nullptr) {
      device_.timeline_->add({name_, "wait", "", from, until});
    }
  }
}

void VirtualStream::record(device::Event& event) {
  auto& marked = dynamic_cast<VirtualEvent&>(event);
  marked.message = message_;
  marked.at = message_ ? 0 : start();
}

void VirtualStream::settle() {
  if (auto const message = std::exchange(message_, nullptr)) {
    *clock_us_ = std::max(*clock_us_, message->end_us());
  }
}

void VirtualStream::synchronize() {
  settle();
  device_.host_us_ = std::max(device_.host_us_, *clock_us_);
}

void VirtualStream::begin_span(std::string_view what, std::string_view unit) {
  what_ = what;
  unit_ = unit;
  span_begin_us_ = start();
}

void VirtualStream::end_span() {
  if (device_.timeline_ != nullptr) {
    device_.timeline_->add({name_, std::string{what_}, std::string{unit_}, span_begin_us_, *clock_us_});
  }
}

double VirtualStream::start() {
  settle();
  return *clock_us_ = std::max(*clock_us_, device_.host_us_);
}

void VirtualStream::compute(double us) {
  device_.host_us_ += device_.machine_.enqueue_us;
  double const begin = start();
  bool const math = clock_us_ == device_.compute_clock_us_;
  if (math) {
    us += std::exchange(device_.owed_us_, 0);
  }
  double const end = device_.end_of_compute(begin, us);
  *clock_us_ = end;
  in_line_us_ += in_line() ? end - begin : 0;
  if (math) {
    device_.math_.add(begin, end);
  }
}

bool VirtualStream::in_line() const noexcept {
  return clock_us_ == device_.compute_clock_us_ && this != &device_.compute_;
}

void VirtualStream::communicate(double begin_us, CollectiveCost const& cost) {
  double const reached = start();
  // All later work starts after the host's current time.
  auto& links = cost.on_network ? device_.network_ : device_.links_;
  links.forget_before(device_.host_us_);
  device_.math_.forget_before(device_.host_us_);
  *clock_us_ = links.send(begin_us + cost.latency_us, cost.transfer_us);
  if (in_line()) {
    in_line_us_ += *clock_us_ - reached;
  } else if (cost.takes_compute) {
    collectives_->forget_before(*device_.compute_clock_us_);
    collectives_->add(begin_us, *clock_us_);
    device_.owed_us_ += device_.machine_.communication_share * device_.math_.within(begin_us, *clock_us_);
  }
}

void VirtualStream::communicate_later(std::function<double()> begin_us, CollectiveCost const& cost) {
  message_ = std::make_shared<VirtualMessage>([this, begin_us = std::move(begin_us), cost] {
    message_ = nullptr;  // this one: its end must be known before more is enqueued
    communicate(begin_us(), cost);
    return *clock_us_;
  });
  if (in_line()) {  // the caller waits for it
    settle();
  }
}

void VirtualStream::waited_for_stages(double us) noexcept { device_.bubble_.collectives_us += us; }

void VirtualStream::transfer(Links& links, double us) {
  double const reached = start();
  links.forget_before(device_.host_us_);
  *clock_us_ = links.send(reached, us);
  in_line_us_ += in_line() ? *clock_us_ - reached : 0;
}

void VirtualStream::work_on_host(double us) {
  device_.host_us_ += device_.machine_.enqueue_us;
  double const begin = start();
  *clock_us_ = begin + us;
  in_line_us_ += in_line() ? us : 0;
}

VirtualDevice::VirtualDevice(Machine const& machine)
    : machine_{machine}, next_address_{first_virtual_address}, kernels_{machine} {}

std::unique_ptr<device::Memory> VirtualDevice::allocate(device::Category category, std::int64_t bytes) {
  ZEROTH_EXPECTS(bytes >= 0, fmt::format("allocate({}, {}): bytes must not be negative", name_of(category), bytes));
  if (category == device::Category::scratch) {
    return std::make_unique<device::PageMemory>(ledger_, category, bytes, device::Pages::touched);
  }
  return std::make_unique<VirtualMemory>(ledger_, category, bytes, next_address(bytes));
}

std::byte* VirtualDevice::next_address(std::int64_t bytes) noexcept {
  auto const pages = static_cast<std::uintptr_t>((bytes / page_bytes + 1) * page_bytes);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): nobody follows it
  return reinterpret_cast<std::byte*>(std::exchange(next_address_, next_address_ + pages));
}

std::unique_ptr<device::Memory> VirtualDevice::allocate_host(std::int64_t bytes) {
  return std::make_unique<device::HostMemory>(bytes);
}

std::unique_ptr<device::Storage> VirtualDevice::make_storage(device::StorageOptions const& options) {
  if (machine_.disk_bytes_per_s == 0) {
    throw ConfigError{fmt::format(
        "machine \"{}\" has no disk_bytes_per_s, and the stage file keeps states on a disk; give the machine that key, "
        "or set zero_optimization.offload_optimizer.device to \"none\"",
        machine_.name)};
  }
  double const share = machine_.disk_bytes_per_s / machine_.ranks_per_node;
  return std::make_unique<VirtualStorage>(share, options.bytes, disk_, disk_);
}

std::unique_ptr<device::Storage> VirtualDevice::make_host_storage(std::int64_t bytes, std::string_view /*purpose*/,
                                                                  std::string_view /*contents*/) {
  return std::make_unique<VirtualStorage>(machine_.host_bytes_per_s, bytes, from_host_, to_host_, next_address(bytes));
}

void* VirtualDevice::unreal_address() noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): nobody follows it
  return reinterpret_cast<void*>(first_virtual_address);
}

bool VirtualDevice::is_real(void const* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) < first_virtual_address;
}

std::optional<std::size_t> VirtualDevice::first_done(std::span<device::Event const* const> events) const {
  auto const first =
      std::ranges::min_element(events, {}, [](device::Event const* event) { return as_virtual(*event).at_us(); });
  return first == events.end() ? std::nullopt : std::optional{static_cast<std::size_t>(first - events.begin())};
}

std::unique_ptr<device::Stream> VirtualDevice::make_stream(char const* name, device::Overlap overlap) {
  auto clock = overlap == device::Overlap::on ? std::make_shared<double>(0) : compute_clock_us_;
  return std::make_unique<VirtualStream>(name, *this, std::move(clock));
}

double VirtualDevice::end_of_compute(double begin_us, double us) const noexcept {
  double at = begin_us;
  for (double left = us; left > 0;) {
    double speed = 1;
    double until = std::numeric_limits<double>::infinity();
    for (auto const& of_stream : collectives_) {
      auto const state = of_stream->at(at);
      speed -= state.busy ? machine_.communication_share : 0;
      until = std::min(until, state.until_us);
    }
    if (speed > 0 && left <= speed * (until - at)) {
      return at + left / speed;
    }
    left -= speed * (until - at);  // several collectives may take more than all of the speed: the rest is made up later
    at = until;
  }
  return at;
}

Clock::time_point VirtualDevice::now() const noexcept {
  return Clock::time_point{std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, std::micro>{std::min(std::max(host_us_, *compute_clock_us_), last_us)})};
}

namespace {

class SharedDevice final : public device::Device {
 public:
  explicit SharedDevice(VirtualDevice& device) : device_{device} {}
  [[nodiscard]] std::string name() const override { return device_.name(); }
  [[nodiscard]] std::unique_ptr<device::Memory> allocate(device::Category category, std::int64_t bytes) override {
    return device_.allocate(category, bytes);
  }
  [[nodiscard]] std::unique_ptr<device::Memory> allocate_host(std::int64_t bytes) override {
    return device_.allocate_host(bytes);
  }
  [[nodiscard]] bool has_host_memory() const noexcept override { return device_.has_host_memory(); }
  [[nodiscard]] std::unique_ptr<device::Storage> make_storage(device::StorageOptions const& options) override {
    return device_.make_storage(options);
  }
  [[nodiscard]] std::unique_ptr<device::Storage> make_host_storage(std::int64_t bytes, std::string_view purpose,
                                                                   std::string_view contents) override {
    return device_.make_host_storage(bytes, purpose, contents);
  }
  [[nodiscard]] std::unique_ptr<device::Event> make_event() override { return device_.make_event(); }
  [[nodiscard]] std::optional<std::size_t> first_done(std::span<device::Event const* const> events) const override {
    return device_.first_done(events);
  }
  [[nodiscard]] std::unique_ptr<device::Stream> make_stream(char const* name, device::Overlap overlap) override {
    return device_.make_stream(name, overlap);
  }
  [[nodiscard]] device::Stream& compute() override { return device_.compute(); }
  [[nodiscard]] device::Kernels& kernels() override { return device_.kernels(); }
  [[nodiscard]] device::Ledger const& ledger() const override { return device_.ledger(); }
  void set_timeline(Timeline* timeline) noexcept override { device_.set_timeline(timeline); }
  [[nodiscard]] Clock::time_point now() const noexcept override { return device_.now(); }
  [[nodiscard]] bool holds_values() const noexcept override { return false; }

 private:
  VirtualDevice& device_;
};

}  // namespace

std::unique_ptr<device::Device> shared_device(VirtualDevice& device) { return std::make_unique<SharedDevice>(device); }

VirtualStream& as_virtual(device::Stream& stream) {
  auto* const found = dynamic_cast<VirtualStream*>(&stream);
  ZEROTH_EXPECTS(found != nullptr, "a stream of another device was given where a virtual one is needed");
  return *found;
}

}  // namespace zeroth::simulate
