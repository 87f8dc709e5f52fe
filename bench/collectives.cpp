/// Collectives among threads against memcpy by as many threads at once: bus bandwidth as nccl-tests defines it, which
/// for both operations is what one rank receives, (ranks - 1) / ranks of the full buffer, per second. memcpy moves as
/// many bytes per thread, between two buffers of its own. Prints one JSON object per operation, size and number of
/// ranks.
///
/// bench_collectives [rounds, 15] [largest MiB, 64]
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "comm/meeting.hpp"
#include "paired.hpp"
#include "zeroth/comm/local.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth {
namespace {

enum Subject : std::size_t { all_gather, reduce_scatter, plain_memcpy, subject_count };

struct Load {
  int ranks = 0;
  std::int64_t full_bytes = 0;  ///< Of every rank's gathered, or not yet reduced, buffer.
  int rounds = 0;

  [[nodiscard]] std::int64_t block_bytes() const { return full_bytes / ranks; }
  [[nodiscard]] std::int64_t moved_bytes() const { return full_bytes - block_bytes(); }
  /// Enough at a time for the clock, few enough for paired rounds to see the same machine.
  [[nodiscard]] int repeats() const {
    return static_cast<int>(std::clamp<std::int64_t>((96 << 20) / full_bytes, 2, 200));
  }
};

/// seconds[subject][round], of one collective or copy, until the last rank has ended.
using Seconds = std::vector<std::vector<double>>;

class RankLoop {
 public:
  RankLoop(Load const& load, comm::Communicator& communicator)
      : load_{load}, communicator_{communicator}, stream_{device_->make_stream("bench", device::Overlap::on)} {
    for (auto* each : {&memory_, &spare_}) {
      *each = device_->allocate(device::Category::scratch, load.full_bytes);
      std::memset((*each)->data(), 0, static_cast<std::size_t>(load.full_bytes));
    }
  }

  void run(comm::Meeting& meeting, Seconds& seconds) {
    for (int round = -1; round < load_.rounds; ++round) {
      for (std::size_t i = 0; i < subject_count; ++i) {
        // Who comes after whom changes: each one finds the caches as the one before left them.
        auto const subject = static_cast<Subject>((i + static_cast<std::size_t>(round + 1)) % subject_count);
        meet(meeting);
        double const taken = bench::seconds([&] {
          repeat(subject);
          meet(meeting);
        });
        if (round >= 0 && communicator_.rank() == 0) {
          seconds[subject].push_back(taken / load_.repeats());
        }
      }
    }
  }

 private:
  void meet(comm::Meeting& meeting) {
    meeting.arrive(++met_);
    meeting.wait_for(met_);
  }

  void repeat(Subject subject) {
    std::byte* const full = memory_->data();
    std::byte* const mine = full + communicator_.rank() * load_.block_bytes();
    std::int64_t const count = load_.block_bytes() / 4;
    for (int i = 0; i < load_.repeats(); ++i) {
      switch (subject) {
        case all_gather: communicator_.all_gather(*stream_, {"bench", ""}, mine, full, count, Dtype::fp32); break;
        case reduce_scatter:
          communicator_.reduce_scatter(*stream_, {"bench", ""}, full, mine, count, Dtype::fp32);
          break;
        default: std::memcpy(spare_->data(), full, static_cast<std::size_t>(load_.moved_bytes()));
      }
    }
    stream_->synchronize();
  }

  Load load_;
  comm::Communicator& communicator_;
  std::unique_ptr<device::Device> device_ = device::make_cpu_device();
  std::unique_ptr<device::Memory> memory_, spare_;
  std::unique_ptr<device::Stream> stream_;
  std::uint64_t met_ = 0;
};

Seconds measure(Load const& load) {
  Seconds seconds(subject_count);
  auto const communicators = comm::make_local(load.ranks);
  comm::Meeting meeting{load.ranks};
  std::vector<std::jthread> threads;
  for (auto const& communicator : communicators) {
    threads.emplace_back([&] { RankLoop{load, *communicator}.run(meeting, seconds); });
  }
  threads.clear();  // joins
  return seconds;
}

void report(Load const& load, char const* name, std::vector<double> const& subject, std::vector<double> const& copies) {
  std::vector<double> ratios;
  std::transform(subject.begin(), subject.end(), copies.begin(), std::back_inserter(ratios),
                 [](double ours, double bound) { return bound / ours; });
  auto const rate = [&](std::vector<double> const& of) {
    return static_cast<double>(load.moved_bytes()) * 1e-9 / bench::quantile(of, 0.5);
  };
  nlohmann::ordered_json const line{
      {"benchmark", name},
      {"ranks", load.ranks},
      {"bytes", load.full_bytes},
      {"bus_gb_per_s", rate(subject)},
      {"memcpy_gb_per_s", rate(copies)},
      {"ratio_to_memcpy", bench::quantile(ratios, 0.5)},
      {"ratio_quartiles", {bench::quantile(ratios, 0.25), bench::quantile(ratios, 0.75)}}};
  std::cout << line.dump() << std::endl;
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  using namespace zeroth;
  int const rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  std::int64_t const largest_mebibytes = argc > 2 ? std::atoi(argv[2]) : 64;
  if (rounds < 1 || largest_mebibytes < 1) {
    std::cerr << "usage: " << argv[0] << " [rounds, 1 or more] [largest MiB, 1 or more]\n";
    return 1;
  }
  for (int const ranks : {2, 4}) {
    for (std::int64_t const kibibytes : {64, 256, 1024, 4096, 7168, 16384, 32768, 65536}) {
      if (kibibytes > largest_mebibytes * 1024) {
        continue;
      }
      Load const load{ranks, kibibytes << 10, rounds};
      auto const seconds = measure(load);
      report(load, "all_gather", seconds[all_gather], seconds[plain_memcpy]);
      report(load, "reduce_scatter", seconds[reduce_scatter], seconds[plain_memcpy]);
    }
  }
  return 0;
}
