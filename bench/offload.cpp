// SPDX-License-Identifier: Apache-2.0
/// Compares states or parameters on a disk with all of them in memory, alternately in one run. Measures steps of stage
/// 3 with one and with four micro-steps, the memory of ranks, and the storage alone against plain direct reads and
/// writes by as many threads. Uses train_gpt's model of 85 million parameters in fp32.
///
///   bench_offload FOLDER [ROUNDS [RANKS]] [--what states|parameters|both] [--tile ELEMENTS] [--stage N]
/// keeps its files, which have no names, on FOLDER's disk, and prints JSON lines, each with the load average.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "batches.hpp"
#include "command_line.hpp"
#include "core/block_file.hpp"
#include "cpu/micro_steps.hpp"
#include "paired.hpp"
#include "zeroth/device/cpu.hpp"
#include "zeroth/zeroth.hpp"

namespace {

namespace fs = std::filesystem;
using zeroth::bench::quantile;

struct Options {
  fs::path folder;
  int rounds = 5, ranks = 4, stage = 3;
  std::int64_t tile = std::int64_t{1} << 20U;
  std::string what = "states";
  [[nodiscard]] bool moves(char const* part) const { return what == part || what == "both"; }
};

/// Numbers by name, one per round.
using Figures = std::map<std::string, std::vector<double>>;

gpt::Shape shape() {
  gpt::Shape shape;
  shape.layers = 12;
  shape.heads = 12;
  shape.channels = 768;
  shape.context = 128;
  return shape;
}

zeroth::Config config(Options const& options, int accumulation, bool on_disk) {
  auto const folder = options.folder.string();
  std::string offload;
  if (on_disk && options.moves("states")) {
    offload = fmt::format(R"("offload_optimizer": {{"device": "nvme", "nvme_path": "{}"}}, "sub_group_size": {},)",
                          folder, options.tile);
  }
  if (on_disk && options.moves("parameters")) {
    offload +=
        fmt::format(R"("offload_param": {{"device": "nvme", "nvme_path": "{}", "max_in_cpu": 0, "buffer_size": {}}},)",
                    folder, options.tile);
  }
  return zeroth::Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": {}, "gradient_clipping": 1.0,
           "zero_optimization": {{ {} "stage": {}, "overlap_comm": true, "reduce_bucket_size": 2e6,
                                   "stage3_prefetch_bucket_size": 0}},
           "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-4}}}} }})",
      accumulation, offload, options.stage));
}

void print(nlohmann::ordered_json line) {
  double load[1] = {0};
  static_cast<void>(::getloadavg(load, 1));
  line["load_average"] = load[0];
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

/// An engine and the layers over it.
struct Trainer {
  Trainer(zeroth::Job& job, zeroth::Config const& given)
      : params{model, shape()},
        engine{job, model, given},
        micro_steps{engine, params, {}, gpt::cpu::choose(gpt::MathLibrary::automatic, zeroth::Dtype::fp32), {}} {}
  zeroth::Model model{1};
  gpt::GptParams params;
  zeroth::Engine<float> engine;
  gpt::cpu::MicroSteps<float, float> micro_steps;
};

class Pair {
 public:
  Pair(zeroth::Job& job, Options const& options, gpt::Batches const& batches, int accumulation, Figures& figures)
      : job_{job},
        options_{options},
        batches_{batches},
        figures_{figures},
        memory_{job, config(options, accumulation, false)},
        disk_{job, config(options, accumulation, true)} {}

  void run() {
    for (int round = -1; round < options_.rounds; ++round) {
      bool const disk_first = round % 2 == 0;
      double const first = step(disk_first ? disk_ : memory_, disk_first && round >= 0);
      double const second = step(disk_first ? memory_ : disk_, !disk_first && round >= 0);
      if (round >= 0 && job_.rank() == 0) {
        figures_["disk"].push_back(disk_first ? first : second);
        figures_["memory"].push_back(disk_first ? second : first);
      }
    }
    if (job_.rank() == 0) {
      figures_["held_in_memory"] = {static_cast<double>(memory_.engine.peak().total())};
      figures_["held_with_disk"] = {static_cast<double>(disk_.engine.peak().total())};
      figures_["on_disk"] = {static_cast<double>(disk_.engine.bytes_on_disk())};
    }
  }

 private:
  /// Seconds of two steps, over all ranks.
  double step(Trainer& trainer, bool noted) {
    double one = 1;
    job_.sum({&one, 1});
    return zeroth::bench::seconds([&] {
      constexpr int steps = 2;  // the first step finds prefetched data
      for (int i = 0; i < steps; ++i) {
        for (auto micro : trainer.engine.micro_steps()) {
          batches_.read(micro.first_sample(), trainer.engine.micro_batch(), batch_);
          trainer.micro_steps.run(micro, batch_);
        }
        auto const report = trainer.engine.step();
        if (noted && report && job_.rank() == 0) {
          figures_["exposed_io_ms"].push_back(report->exposed_io_ms);
        }
      }
      trainer.engine.finish();
      job_.sum({&one, 1});
    });
  }

  zeroth::Job& job_;
  Options const& options_;
  gpt::Batches const& batches_;
  Figures& figures_;
  gpt::Batch batch_;
  Trainer memory_, disk_;
};

nlohmann::ordered_json quartiles(std::vector<double> const& subject, std::vector<double> const& yardstick) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < subject.size(); ++round) {
    ratios.push_back(subject[round] / yardstick[round]);
  }
  return {{"ratio", quantile(ratios, 0.5)}, {"ratio_quartiles", {quantile(ratios, 0.25), quantile(ratios, 0.75)}}};
}

void measure_steps(Options const& options, gpt::Batches const& batches, int accumulation) {
  Figures figures;
  int const status = zeroth::launch({.thread_ranks = options.ranks}, [&](zeroth::Job& job) {
    Pair{job, options, batches, accumulation, figures}.run();
  });
  if (status != 0) {
    std::exit(status);
  }
  auto& f = figures;
  nlohmann::ordered_json line{{"benchmark", "offload"},
                              {"what", "two steps, with a disk over all in memory"},
                              {"on_disk", options.what},
                              {"ranks", options.ranks},
                              {"stage", options.stage},
                              {"micro_steps", accumulation},
                              {"tile", options.tile},
                              {"rounds", options.rounds},
                              {"seconds", quantile(f["disk"], 0.5)},
                              {"memory_seconds", quantile(f["memory"], 0.5)},
                              {"exposed_io_ms", f["exposed_io_ms"].empty() ? 0 : quantile(f["exposed_io_ms"], 0.5)}};
  line.update(quartiles(f["disk"], f["memory"]));
  print(line);
  if (accumulation == 1) {
    print({{"benchmark", "offload"},
           {"what", "bytes held by a rank, with a disk over all in memory"},
           {"on_disk", options.what},
           {"held", f["held_with_disk"].front()},
           {"held_in_memory", f["held_in_memory"].front()},
           {"bytes_on_disk", f["on_disk"].front()},
           {"ratio", f["held_with_disk"].front() / f["held_in_memory"].front()}});
  }
}

/// Compares tiles of 16 MiB, read and written by one stream each, with the same bytes moved by as many threads without
/// the storage.
void measure_storage(Options const& options) {
  constexpr std::int64_t bytes = std::int64_t{256} << 20U;
  constexpr std::int64_t tile = std::int64_t{16} << 20U;
  constexpr int requests = 8;
  auto const device = zeroth::device::make_cpu_device();
  auto const storage = device->make_storage({.folder = options.folder, .bytes = bytes, .requests = requests});
  auto const stream = device->make_stream("read", zeroth::device::Overlap::on);
  auto const memory = device->allocate_host(bytes);
  std::span const all{memory->data(), static_cast<std::size_t>(bytes)};
  zeroth::BlockFile raw{"a raw file", zeroth::BlockFile::Unnamed{options.folder}, bytes, zeroth::Direct::on};
  for (bool const writes : {true, false}) {
    auto const by_storage = [&] {
      for (std::int64_t at = 0; at < bytes; at += tile) {
        auto const part = all.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(tile));
        zeroth::device::Stored const place{at, "bytes", "none"};
        writes ? storage->write(*stream, place, part) : storage->read(*stream, place, part);
      }
      stream->synchronize();
    };
    auto const by_threads = [&] {
      std::vector<std::thread> threads;
      for (int thread = 0; thread < requests; ++thread) {
        threads.emplace_back([&, thread] {
          constexpr std::int64_t piece = std::int64_t{1} << 20U;
          for (std::int64_t at = thread * piece; at < bytes; at += requests * piece) {
            auto const part = all.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(piece));
            writes ? raw.write(at, part) : raw.read(at, part);
          }
        });
      }
      std::ranges::for_each(threads, [](std::thread& thread) { thread.join(); });
    };
    auto const paired = zeroth::bench::compare(options.rounds, by_storage, by_threads);
    print({{"benchmark", "offload"},
           {"what",
            writes ? "storage alone, writes, of plain direct ones" : "storage alone, reads, of plain direct ones"},
           {"bytes", bytes},
           {"seconds", paired.subject_seconds},
           {"raw_seconds", paired.yardstick_seconds},
           {"ratio", paired.ratio},
           {"ratio_quartiles", {paired.ratio_low, paired.ratio_high}}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"States or parameters on a disk against all in memory"};
  Options options;
  std::string text = ZEROTH_SOURCE_DIR "/bench/offload.cpp";
  app.add_option("FOLDER", options.folder, "on the disk that is meant")->required();
  app.add_option("ROUNDS", options.rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("RANKS", options.ranks, "that train")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("--what", options.what, "is on the disk")
      ->capture_default_str()
      ->check(CLI::IsMember({"states", "parameters", "both"}));
  app.add_option("--tile", options.tile, "sub_group_size, and buffer_size of parameters")->capture_default_str();
  app.add_option("--stage", options.stage, "of ZeRO")->capture_default_str()->check(CLI::Range(0, 3));
  app.add_option("--text", text, "to train on")->capture_default_str()->check(CLI::ExistingFile);
  CLI11_PARSE(app, argc, argv);
  try {
    fs::create_directories(options.folder);
    gpt::Corpus const corpus{text};
    gpt::Batches const batches{corpus, shape().context, gpt::Order::sequential, 1};
    measure_storage(options);
    measure_steps(options, batches, 1);
    measure_steps(options, batches, 4);
  } catch (std::exception const& error) {
    fmt::print(stderr, "bench_offload: {}\n", error.what());
    return 1;
  }
}
