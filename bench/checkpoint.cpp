// SPDX-License-Identifier: Apache-2.0
/// Compares checkpoints with the limits of disk and memory, alternately in one run: the same number of bytes and
/// threads, written and read with direct I/O, and copied. Uses train_gpt's model of 85 million parameters in fp32.
///
///   bench_checkpoint FOLDER [ROUNDS [RANKS]] [--stage N] [--other-ranks N] [--buffer BYTES] [--no-steps]
/// writes to FOLDER, which selects the disk, and prints JSON lines with the load average of the machine.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "batches.hpp"
#include "command_line.hpp"
#include "core/block_file.hpp"
#include "cpu/micro_steps.hpp"
#include "paired.hpp"
#include "resident.hpp"
#include "zeroth/checkpoint/folder.hpp"
#include "zeroth/device/cpu.hpp"
#include "zeroth/tool/core/input_file.hpp"
#include "zeroth/zeroth.hpp"

namespace {

namespace fs = std::filesystem;
using zeroth::bench::quantile;
using zeroth::bench::resident;

struct Options {
  fs::path folder;
  int rounds = 5, ranks = 4, other_ranks = 2, stage = 3;
  std::int64_t buffer_bytes = 0;
  bool with_steps = true;
};

/// Rank 0's seconds by name, a number per round. Ranks begin together, and the time ends when the last rank has
/// finished.
using Figures = std::map<std::string, std::vector<double>>;

gpt::Shape shape() {
  gpt::Shape shape;
  shape.layers = 12;
  shape.heads = 12;
  shape.channels = 768;
  shape.context = 128;
  return shape;
}

std::string stage_file(Options const& options) {
  return fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0,
    "zero_optimization": {{"stage": {}, "overlap_comm": true, "reduce_bucket_size": 2e6,
                           "stage3_prefetch_bucket_size": 8e6}},
    "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-4}}}},
    "zeroth": {{"checkpoint": {{"buffer_bytes": {}, "keep": 1}}}} }})",
                     options.stage, options.buffer_bytes);
}

/// Drops the file from the page cache, so that it is read from the disk.
void forget(fs::path const& file) {
  int const descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
}

class Rank {
 public:
  Rank(zeroth::Job& job, Options const& options, gpt::Batches const& batches, Figures& figures)
      : job_{job},
        options_{options},
        batches_{batches},
        figures_{figures},
        params_{model_, shape()},
        engine_{job, model_, zeroth::Config::from_json(stage_file(options))},
        micro_steps_{engine_, params_, {}, gpt::cpu::choose(gpt::MathLibrary::automatic, zeroth::Dtype::fp32), {}},
        shard_bytes_{zeroth::whole_blocks(
            zeroth::plan(model_, zeroth::Config::from_json(stage_file(options)), job.world()).checkpoint_bytes /
            job.world())},
        memory_{device_->allocate_host(2 * shard_bytes_)},
        raw_file_{options.folder / fmt::format("raw_{}", job.rank())} {
    for (std::int64_t i = 0; i < memory_->bytes(); i += 8) {  // not zeros, which some disks compress
      auto const value = static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15U;
      std::memcpy(memory_->data() + i, &value, sizeof value);
    }
  }

  void run() {
    train(2);
    for (int round = 0; round < options_.rounds; ++round) {
      timed("memcpy", [&] {
        std::memcpy(memory_->data() + shard_bytes_, memory_->data(), static_cast<std::size_t>(shard_bytes_));
      });
      timed("raw_write", [&] { write_raw(); });
      if (job_.rank() == 0) {
        zeroth::bench::forget_peak();
        resident_ = resident("VmRSS");
      }
      timed("save", [&] {
        std::optional<zeroth::Saving> saving;
        double const call = zeroth::bench::seconds([&] { saving = engine_.save(options_.folder / "saved"); });
        note("save_call", call);
        saving->wait();
        latest_ = saving->path();
      });
      note("memory", static_cast<double>(resident("VmHWM") - resident_) / job_.world());
      forget(raw_file_);
      timed("raw_read", [&] { read_raw(); });
      forget_latest();
      timed("restore", [&] { static_cast<void>(engine_.restore(latest_)); });
      if (options_.with_steps) {
        measure_steps();
      }
    }
    fs::remove(raw_file_);
  }
  /// Restores at another number of ranks than that of the save.
  void restore_only() {
    for (int round = 0; round < options_.rounds; ++round) {
      write_raw();
      forget(raw_file_);
      timed("raw_read_other", [&] { read_raw(); });
      latest_ = zeroth::checkpoint::find_checkpoint(options_.folder / "saved");
      forget_latest();
      timed("restore_other", [&] { static_cast<void>(engine_.restore(latest_)); });
    }
    fs::remove(raw_file_);
  }
  [[nodiscard]] std::int64_t shard_bytes() const { return shard_bytes_; }

 private:
  void meet() {
    double one = 1;
    job_.sum({&one, 1});
  }
  void note(std::string const& name, double seconds) {
    if (job_.rank() == 0) {
      figures_[name].push_back(seconds);
    }
  }
  template <class F>
  void timed(std::string const& name, F const& action) {
    meet();
    note(name, zeroth::bench::seconds([&] {
           action();
           meet();
         }));
  }

  void write_raw() {
    fs::remove(raw_file_);
    zeroth::BlockFile file{"raw file", raw_file_, shard_bytes_, zeroth::Direct::on};
    for (std::int64_t at = 0; at < shard_bytes_; at += request_bytes) {
      auto const bytes = std::min(request_bytes, shard_bytes_ - at);
      file.write(at, {memory_->data() + at, static_cast<std::size_t>(bytes)});
    }
    file.finish(shard_bytes_);
  }
  void read_raw() {
    zeroth::InputFile file{raw_file_};
    file.go_direct();
    for (std::int64_t at = 0; at < shard_bytes_; at += request_bytes) {
      auto const bytes = std::min(request_bytes, shard_bytes_ - at);
      file.read(at, {memory_->data() + at, static_cast<std::size_t>(bytes)});
    }
  }
  void forget_latest() {
    if (job_.rank() == 0) {
      for (auto const& entry : fs::directory_iterator{latest_}) {
        forget(entry.path());
      }
    }
    meet();
  }

  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      for (auto micro : engine_.micro_steps()) {
        batches_.read(micro.first_sample(), engine_.micro_batch(), batch_);
        micro_steps_.run(micro, batch_);
      }
      if (auto const report = engine_.step()) {
        save_ms_ += report->save_ms;
      }
    }
    if (auto const report = engine_.finish()) {
      save_ms_ += report->save_ms;
    }
  }
  /// Times the same number of steps without and with a concurrent save.
  void measure_steps() {
    constexpr int steps = 2;
    timed("steps", [&] { train(steps); });
    save_ms_ = 0;
    timed("steps_and_save", [&] {
      static_cast<void>(engine_.save(options_.folder / "saved"));
      train(steps);
    });
    note("waited", save_ms_ * 1e-3);
  }

  static constexpr std::int64_t request_bytes = std::int64_t{4} << 20U;

  zeroth::Job& job_;
  Options const& options_;
  gpt::Batches const& batches_;
  Figures& figures_;
  zeroth::Model model_{1};
  gpt::GptParams params_;
  zeroth::Engine<float> engine_;
  gpt::cpu::MicroSteps<float, float> micro_steps_;
  gpt::Batch batch_;
  std::int64_t shard_bytes_;
  std::unique_ptr<zeroth::device::Device> device_ = zeroth::device::make_cpu_device();
  std::unique_ptr<zeroth::device::Memory> memory_;
  fs::path raw_file_, latest_;
  double save_ms_ = 0;
  std::int64_t resident_ = 0;
};

void print(Options const& options, int ranks, char const* what, std::vector<double> const& subject,
           char const* yardstick_name, std::vector<double> const& yardstick, std::int64_t bytes) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < subject.size(); ++round) {
    ratios.push_back(subject[round] / yardstick[round]);
  }
  double load[1] = {0};
  static_cast<void>(::getloadavg(load, 1));
  nlohmann::ordered_json const line{{"benchmark", "checkpoint"},
                                    {"what", what},
                                    {"ranks", ranks},
                                    {"stage", options.stage},
                                    {"buffer_bytes", options.buffer_bytes},
                                    {"bytes", bytes},
                                    {"rounds", subject.size()},
                                    {"seconds", quantile(subject, 0.5)},
                                    {yardstick_name, quantile(yardstick, 0.5)},
                                    {"ratio", quantile(ratios, 0.5)},
                                    {"ratio_quartiles", {quantile(ratios, 0.25), quantile(ratios, 0.75)}},
                                    {"load_average", load[0]}};
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

/// The first save allocates buffers, which later ones reuse.
void print_memory(Options const& options, std::vector<double> const& bytes_per_rank) {
  nlohmann::ordered_json const line{{"benchmark", "checkpoint"},
                                    {"what", "memory that saves add, bytes of each rank"},
                                    {"ranks", options.ranks},
                                    {"first", std::llround(bytes_per_rank.front())},
                                    {"most", std::llround(*std::ranges::max_element(bytes_per_rank))},
                                    {"buffer_bytes", options.buffer_bytes}};
  fmt::print("{}\n", line.dump());
}

void measure(Options const& options, gpt::Batches const& batches) {
  Figures figures;
  std::int64_t bytes = 0;
  auto const launched = [&](int ranks, auto const& action) {
    int const status = zeroth::launch({.thread_ranks = ranks}, [&](zeroth::Job& job) {
      Rank rank{job, options, batches, figures};
      if (job.rank() == 0) {
        bytes = rank.shard_bytes() * ranks;
      }
      action(rank);
    });
    if (status != 0) {
      std::exit(status);
    }
  };
  launched(options.ranks, [](Rank& rank) { rank.run(); });
  auto& f = figures;
  print(options, options.ranks, "save", f["save"], "raw_write_seconds", f["raw_write"], bytes);
  print(options, options.ranks, "save() itself", f["save_call"], "raw_write_seconds", f["raw_write"], bytes);
  print_memory(options, f["memory"]);
  print(options, options.ranks, "restore", f["restore"], "raw_read_seconds", f["raw_read"], bytes);
  if (options.with_steps) {
    std::vector<double> lost;
    for (std::size_t round = 0; round < f["steps"].size(); ++round) {
      lost.push_back(f["steps_and_save"][round] - f["steps"][round]);
    }
    print(options, options.ranks, "steps, lost to a save", lost, "memcpy_seconds", f["memcpy"], bytes);
    print(options, options.ranks, "updates' wait for a save", f["waited"], "memcpy_seconds", f["memcpy"], bytes);
  }
  launched(options.other_ranks, [](Rank& rank) { rank.restore_only(); });
  print(options, options.other_ranks, "restore at another number of ranks", f["restore_other"], "raw_read_seconds",
        f["raw_read_other"], bytes);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Checkpoints against raw writes, reads and copies"};
  Options options;
  std::string text = ZEROTH_SOURCE_DIR "/bench/checkpoint.cpp";
  app.add_option("FOLDER", options.folder, "to write to")->required();
  app.add_option("ROUNDS", options.rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("RANKS", options.ranks, "that save")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("--other-ranks", options.other_ranks, "that restore")->capture_default_str();
  app.add_option("--stage", options.stage, "of ZeRO")->capture_default_str()->check(CLI::Range(0, 3));
  app.add_option("--buffer", options.buffer_bytes, "zeroth.checkpoint.buffer_bytes")->capture_default_str();
  app.add_option("--text", text, "to train on")->capture_default_str()->check(CLI::ExistingFile);
  app.add_flag("!--no-steps", options.with_steps, "leave out what a save costs training");
  CLI11_PARSE(app, argc, argv);
  try {
    fs::create_directories(options.folder);
    gpt::Corpus const corpus{text};
    gpt::Batches const batches{corpus, shape().context, gpt::Order::sequential, 1};
    measure(options, batches);
  } catch (std::exception const& error) {
    fmt::print(stderr, "bench_checkpoint: {}\n", error.what());
    return 1;
  }
}
