// SPDX-License-Identifier: Apache-2.0
/// Compares collectives with memcpy by the same number of ranks. Reports bus bandwidth as nccl-tests defines it: for
/// both operations it is what one rank receives, (ranks - 1) / ranks of the full buffer, per second. memcpy moves as
/// many bytes per rank, between two buffers of its own. Prints one JSON object per operation, size and number of ranks.
///
/// bench_collectives [ROUNDS [largest MIB, 64]]                 2 ranks as threads, then 4
/// mpirun -n RANKS bench_collectives [ROUNDS [MIB]]             ranks as processes, over MPI
/// zeroth run --transport tcp --ranks RANKS -- bench_collectives [ROUNDS [MIB]]    the same, over tcp
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "command_line.hpp"
#include "paired.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth {
namespace {

enum Subject : std::size_t { all_gather, reduce_scatter, plain_memcpy, subject_count };

struct Load {
  int ranks = 0;
  std::int64_t full_bytes = 0;  ///< Size of every rank's full buffer: gathered, or to be reduced.
  int rounds = 0;

  [[nodiscard]] std::int64_t block_bytes() const { return full_bytes / ranks; }
  [[nodiscard]] std::int64_t moved_bytes() const { return full_bytes - block_bytes(); }
  /// Enough repeats for the clock, few enough for paired rounds to see the same machine state.
  [[nodiscard]] int repeats() const {
    return static_cast<int>(std::clamp<std::int64_t>((96 << 20) / full_bytes, 2, 200));
  }
};

/// seconds[subject][round] of one collective or copy, until the last rank has finished.
using Seconds = std::vector<std::vector<double>>;

class RankLoop {
 public:
  RankLoop(Load const& load, Job& job)
      : load_{load},
        communicator_{job.communicator()},
        device_{job.make_device()},
        memory_{device_->allocate(device::Category::scratch, load.full_bytes)},
        spare_{device_->allocate(device::Category::scratch, load.full_bytes)},
        staging_{device_->allocate(device::Category::scratch,
                                   comm::staging_bytes(communicator_.transport(), load.ranks, Dtype::fp32,
                                                       load.full_bytes / bytes_of(Dtype::fp32)))},
        stream_{device_->make_stream("bench", device::Overlap::on)},
        known_{communicator_.register_memory(*memory_)} {
    for (auto* each : {&memory_, &spare_}) {
      std::memset((*each)->data(), 0, static_cast<std::size_t>(load.full_bytes));
    }
    communicator_.set_staging({staging_->data(), static_cast<std::size_t>(staging_->bytes())});
  }
  RankLoop(RankLoop const&) = delete;
  RankLoop& operator=(RankLoop const&) = delete;
  ~RankLoop() { communicator_.set_staging({}); }

  [[nodiscard]] Seconds run() {
    Seconds seconds(subject_count);
    for (int round = -1; round < load_.rounds; ++round) {
      for (std::size_t i = 0; i < subject_count; ++i) {
        // The order alternates, because each subject finds the caches as the previous one left them.
        auto const subject = static_cast<Subject>((i + static_cast<std::size_t>(round + 1)) % subject_count);
        communicator_.barrier(*stream_, {"bench", ""});
        double const taken = bench::seconds([&] {
          repeat(subject);
          communicator_.barrier(*stream_, {"bench", ""});
        });
        if (round >= 0) {
          seconds[subject].push_back(taken / load_.repeats());
        }
      }
    }
    return seconds;
  }

 private:
  void repeat(Subject subject) {
    std::byte* const full = memory_->data();
    std::byte* const mine = full + communicator_.rank() * load_.block_bytes();
    std::int64_t const count = load_.block_bytes() / bytes_of(Dtype::fp32);
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
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Memory> memory_, spare_, staging_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<comm::Registration> known_;
};

void report(Load const& load, comm::Transport transport, char const* name, std::vector<double> const& subject,
            std::vector<double> const& copies) {
  std::vector<double> ratios;
  std::transform(subject.begin(), subject.end(), copies.begin(), std::back_inserter(ratios),
                 [](double ours, double bound) { return bound / ours; });
  auto const rate = [&](std::vector<double> const& of) {
    return static_cast<double>(load.moved_bytes()) * 1e-9 / bench::quantile(of, 0.5);
  };
  nlohmann::ordered_json const line{
      {"benchmark", name},
      {"transport", comm::name_of(transport)},
      {"ranks", load.ranks},
      {"bytes", load.full_bytes},
      {"bus_gb_per_s", rate(subject)},
      {"memcpy_gb_per_s", rate(copies)},
      {"ratio_to_memcpy", bench::quantile(ratios, 0.5)},
      {"ratio_quartiles", {bench::quantile(ratios, 0.25), bench::quantile(ratios, 0.75)}}};
  std::cout << line.dump() << std::endl;
}

/// Measures all sizes; rank 0 prints.
void run_rank(Job& job, int rounds, std::int64_t largest_bytes, std::atomic<comm::Transport>& transport) {
  auto& communicator = job.communicator();
  transport = communicator.transport();
  for (std::int64_t const kibibytes : {64, 256, 1024, 4096, 7168, 16384, 32768, 65536}) {
    // Blocks are whole elements at any number of ranks.
    auto const unit = std::int64_t{4} * job.world();
    Load const load{job.world(), (kibibytes << 10) / unit * unit, rounds};
    if (load.full_bytes > largest_bytes) {
      continue;
    }
    auto const seconds = RankLoop{load, job}.run();
    if (job.rank() == 0) {
      report(load, transport, "all_gather", seconds[all_gather], seconds[plain_memcpy]);
      report(load, transport, "reduce_scatter", seconds[reduce_scatter], seconds[plain_memcpy]);
    }
  }
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  using namespace zeroth;
  CLI::App app{"Collectives against memcpy by as many ranks at once"};
  int rounds = 15;
  std::int64_t largest_mebibytes = 64;
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("MIB", largest_mebibytes, "of the largest buffer")->capture_default_str()->check(zeroth::bench::count);
  CLI11_PARSE(app, argc, argv);
  std::atomic transport{comm::Transport::local};
  for (int const ranks : {2, 4}) {
    int const status =
        launch({.thread_ranks = ranks}, [&](Job& job) { run_rank(job, rounds, largest_mebibytes << 20U, transport); });
    if (status != 0 || transport != comm::Transport::local) {  // a launcher has set the number of ranks
      return status;
    }
  }
  return 0;
}
