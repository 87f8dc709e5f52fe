// SPDX-License-Identifier: Apache-2.0
/// A device without memory: its streams only add up what their work would take.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulate/busy_times.hpp"
#include "simulate/collective_cost.hpp"
#include "simulate/virtual_kernels.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/device/timeline.hpp"
#include "zeroth/simulate/machine.hpp"

namespace zeroth::simulate {

class VirtualDevice;

/// A message that has not met its other end. Its end is computed on request.
class VirtualMessage {
 public:
  explicit VirtualMessage(std::function<double()> end_us) : end_us_{std::move(end_us)} {}
  /// Waits on the host until the other end has arrived.
  [[nodiscard]] double end_us() {
    if (!known_us_) {
      known_us_ = end_us_();
    }
    return *known_us_;
  }

 private:
  std::function<double()> end_us_;
  std::optional<double> known_us_;
};

/// A point of time on a stream. It is known when it is recorded, or once the end of the message before it is known.
class VirtualEvent final : public device::Event {
 public:
  explicit VirtualEvent(VirtualDevice& device) noexcept : device_{device} {}
  [[nodiscard]] bool done() const override { return true; }
  void synchronize() const override;  ///< Advances the host's clock to the event.
  [[nodiscard]] double at_us() const { return message ? message->end_us() : at; }
  double at = 0;
  std::shared_ptr<VirtualMessage> message;  ///< Null if the time is known.

 private:
  VirtualDevice& device_;
};

/// A stream with a clock. Streams that share a clock run one after another; those without overlap share that of
/// compute.
class VirtualStream final : public device::Stream {
 public:
  VirtualStream(std::string name, VirtualDevice& device, std::shared_ptr<double> clock_us);
  void wait(device::Event const& event) override;
  void record(device::Event& event) override;
  void synchronize() override;
  [[nodiscard]] double waited_ms() const override { return waited_us_ * 1e-3; }
  [[nodiscard]] double host_ms() const override { return in_line_us_ * 1e-3; }
  void begin_span(std::string_view what, std::string_view unit) override;
  void end_span() override;

  /// The earliest time at which work that the host enqueues now can start.
  [[nodiscard]] double start();
  /// Whether it takes turns with the caller's math.
  [[nodiscard]] bool in_line() const noexcept;
  /// Enqueues math or a kernel. Concurrent collectives slow it down.
  void compute(double us);
  /// Enqueues a collective for which all ranks are ready at `begin_us`, which is not before start(). It sends after
  /// everything that this rank enqueued earlier, and slows down concurrent math.
  void communicate(double begin_us, CollectiveCost const& cost);
  /// Enqueues a message. `begin_us` waits for its other end and returns when both ends are ready. The host continues
  /// meanwhile, unless the stream takes turns with its math.
  void communicate_later(std::function<double()> begin_us, CollectiveCost const& cost);
  /// Notes that the last work began `us` later, because it waited for other stages of a pipeline.
  void waited_for_stages(double us) noexcept;
  /// Enqueues a transfer that occupies `links` for `us`.
  void transfer(Links& links, double us);
  /// Enqueues work of a separate host thread.
  void work_on_host(double us);

 private:
  std::string name_;
  VirtualDevice& device_;
  std::shared_ptr<double> clock_us_;
  std::shared_ptr<BusyTimes> collectives_ = std::make_shared<BusyTimes>();
  /// Waits until the end of the last message is known.
  void settle();

  std::shared_ptr<VirtualMessage> message_;  // the last message, if nothing was enqueued after it
  double waited_us_ = 0, in_line_us_ = 0;
  std::string_view what_, unit_;
  double span_begin_us_ = 0;
};

class VirtualDevice final : public device::Device {
 public:
  explicit VirtualDevice(Machine const& machine);
  [[nodiscard]] std::string name() const override { return "virtual"; }
  /// Returns addresses that cannot be accessed. Only scratch is real, because it has a step's few numbers; its
  /// untouched pages take no memory.
  [[nodiscard]] std::unique_ptr<device::Memory> allocate(device::Category category, std::int64_t bytes) override;
  [[nodiscard]] std::unique_ptr<device::Memory> allocate_host(std::int64_t bytes) override;  ///< Real.
  [[nodiscard]] static bool is_real(void const* address) noexcept;
  /// A stand-in address for data that a program outside the engine moves.
  [[nodiscard]] static void* unreal_address() noexcept;
  [[nodiscard]] bool has_host_memory() const noexcept override { return machine_.host_bytes_per_s == 0; }
  /// Storage that only takes time, at the rank's share of its node's disks. Throws ConfigError if there are no disks.
  [[nodiscard]] std::unique_ptr<device::Storage> make_storage(device::StorageOptions const& options) override;
  /// The same at the rate of the rank's link to the host.
  [[nodiscard]] std::unique_ptr<device::Storage> make_host_storage(std::int64_t bytes, std::string_view purpose,
                                                                   std::string_view contents) override;
  [[nodiscard]] std::unique_ptr<device::Event> make_event() override { return std::make_unique<VirtualEvent>(*this); }
  [[nodiscard]] std::optional<std::size_t> first_done(std::span<device::Event const* const> events) const override;
  [[nodiscard]] std::unique_ptr<device::Stream> make_stream(char const* name, device::Overlap overlap) override;
  [[nodiscard]] VirtualStream& compute() override { return compute_; }
  [[nodiscard]] device::Kernels& kernels() override { return kernels_; }
  [[nodiscard]] device::Ledger const& ledger() const override { return ledger_; }
  void set_timeline(Timeline* timeline) noexcept override { timeline_ = timeline; }
  [[nodiscard]] Clock::time_point now() const noexcept override;
  [[nodiscard]] bool holds_values() const noexcept override { return false; }
  /// Total time that compute has waited for messages of other pipeline stages, and collectives for their ranks.
  struct Bubble {
    double messages_us = 0, collectives_us = 0;
  };
  [[nodiscard]] Bubble const& bubble() const noexcept { return bubble_; }

 private:
  friend class VirtualStream;
  friend class VirtualEvent;

  /// The address of `bytes` bytes that are never accessed.
  [[nodiscard]] std::byte* next_address(std::int64_t bytes) noexcept;
  /// The end of `us` of compute that begins at `begin_us`, at the speed that running collectives leave.
  [[nodiscard]] double end_of_compute(double begin_us, double us) const noexcept;

  Machine const& machine_;
  device::Ledger ledger_;
  Timeline* timeline_ = nullptr;
  double host_us_ = 0;
  Links links_, network_;  // within a node, and between nodes
  Links disk_, from_host_, to_host_;
  BusyTimes math_;
  std::vector<std::shared_ptr<BusyTimes>> collectives_;  ///< By stream.
  Bubble bubble_;
  double owed_us_ = 0;  ///< Time that collectives took from math enqueued before them.
  std::uintptr_t next_address_;
  std::shared_ptr<double> compute_clock_us_ = std::make_shared<double>(0);
  VirtualStream compute_{"compute", *this, compute_clock_us_};
  VirtualKernels kernels_;
};

/// A device for code of the same rank that needs its own device: its streams use the same clocks.
[[nodiscard]] std::unique_ptr<device::Device> shared_device(VirtualDevice& device);

/// The virtual stream behind `stream`.
[[nodiscard]] VirtualStream& as_virtual(device::Stream& stream);

}  // namespace zeroth::simulate
