// SPDX-License-Identifier: Apache-2.0
#include <deque>

#include "device/cpu_kernels.hpp"
#include "device/cpu_stream.hpp"
#include "device/file_storage.hpp"
#include "device/host_memory.hpp"
#include "device/page_memory.hpp"

namespace zeroth::device {
namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(CpuBuffers buffers) : pages_{buffers == CpuBuffers::registrable ? Pages::shared : Pages::all} {}

  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] std::unique_ptr<Memory> allocate(Category category, std::int64_t bytes) override {
    return std::make_unique<PageMemory>(ledger_, category, bytes, pages_);
  }
  [[nodiscard]] bool has_host_memory() const noexcept override { return true; }
  [[nodiscard]] std::unique_ptr<Memory> allocate_host(std::int64_t bytes) override {
    return std::make_unique<HostMemory>(bytes);
  }
  [[nodiscard]] std::unique_ptr<Storage> make_storage(StorageOptions const& options) override {
    return std::make_unique<FileStorage>(options);
  }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }
  [[nodiscard]] std::unique_ptr<Stream> make_stream(char const* name, Overlap overlap) override {
    auto& progress = progress_.emplace_back(failure_);
    if (overlap == Overlap::off) {
      return std::make_unique<InlineStream>(name, progress, observer_);
    }
    return std::make_unique<WorkerStream>(name, progress, observer_);
  }
  [[nodiscard]] Stream& compute() override { return compute_; }
  [[nodiscard]] Kernels& kernels() override { return kernels_; }
  [[nodiscard]] Ledger const& ledger() const override { return ledger_; }
  void set_timeline(Timeline* timeline) noexcept override {
    observer_.set(timeline == nullptr ? nullptr : timeline->log());
  }

 private:
  Pages pages_;
  Failure failure_;
  std::deque<Progress> progress_;
  Observer observer_;
  InlineStream compute_{"compute", progress_.emplace_back(failure_), observer_};
  CpuKernels kernels_;
  Ledger ledger_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(CpuBuffers buffers) { return std::make_unique<CpuDevice>(buffers); }

}  // namespace zeroth::device
