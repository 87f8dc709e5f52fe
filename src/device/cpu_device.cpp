#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <deque>
#include <system_error>

#include "device/cpu_kernels.hpp"
#include "device/cpu_stream.hpp"
#include "device/host_memory.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

/// Pages straight from the system: zero, aligned, and given back at once.
class CpuMemory final : public Memory {
 public:
  CpuMemory(Ledger& ledger, Category category, std::int64_t bytes) : ledger_{ledger}, category_{category} {
    ZEROTH_EXPECTS(bytes >= 0, fmt::format("allocate({}, {}): bytes must not be negative", name_of(category), bytes));
    if (bytes > 0) {
      void* const pages =
          mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (pages == MAP_FAILED) {
        throw SystemError{fmt::format("mmap refused {} bytes for {}: {}", bytes, name_of(category),
                                      std::generic_category().message(errno))};
      }
      data_ = static_cast<std::byte*>(pages);
    }
    bytes_ = bytes;
    ledger_.add(category_, bytes_);
  }
  ~CpuMemory() override {
    ledger_.remove(category_, bytes_);
    if (data_ != nullptr) {
      munmap(data_, static_cast<std::size_t>(bytes_));
    }
  }

 private:
  Ledger& ledger_;
  Category category_;
};

class CpuDevice final : public Device {
 public:
  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] std::unique_ptr<Memory> allocate(Category category, std::int64_t bytes) override {
    return std::make_unique<CpuMemory>(ledger_, category, bytes);
  }
  [[nodiscard]] std::unique_ptr<Memory> allocate_host(std::int64_t bytes) override {
    return std::make_unique<HostMemory>(bytes);
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
  void set_timeline(Timeline* timeline) noexcept override { observer_.timeline = timeline; }

 private:
  Failure failure_;
  std::deque<Progress> progress_;
  Observer observer_;
  InlineStream compute_{"compute", progress_.emplace_back(failure_), observer_};
  CpuKernels kernels_;
  Ledger ledger_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace zeroth::device
