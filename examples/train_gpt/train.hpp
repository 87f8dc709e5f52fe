/// The training loop.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <zeroth/zeroth.hpp>

#include "batches.hpp"
#include "engine_parameters.hpp"
#include "gather.hpp"
#include "model.hpp"
#include "model_folder.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "run_record.hpp"

namespace gpt {

/// What all ranks of this process share, read-only.
struct Task {
  Options const& options;
  zeroth::Config const& config;
  Shape const& shape;
  Batches const& batches;
};

/// What rank 0 says and writes; silent on the others.
class Output {
 public:
  Output(zeroth::Job const& job, Task const& task, std::int64_t tokens_per_step) : tokens_per_step_{tokens_per_step} {
    if (job.rank() != 0) {
      return;
    }
    progress_.emplace(task.options.steps, tokens_per_step);
    if (!task.options.report.empty()) {
      report_.emplace(task.options.report);
      report_->write(run_record(task.options, task.config, task.shape, task.batches, job.world()));
    }
  }
  void step(zeroth::StepReport const& step, std::int64_t bytes) {
    if (progress_) {
      progress_->show(step, bytes);
    }
    if (report_) {
      report_->write(step_record(step, tokens_per_step_));
    }
  }
  /// The last call. Collective.
  void finish(zeroth::Job& job, RankMemory const& mine) {
    auto const all = gather(job, mine);
    if (report_) {
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        report_->write(memory_record(static_cast<int>(rank), all[rank]));
      }
      report_->publish();
    }
  }

 private:
  std::int64_t tokens_per_step_;
  std::optional<Progress> progress_;
  std::optional<OutputFile> report_;
};

/// Holds the place of a model folder on rank 0 from the start, so that one that cannot be written is found before hours
/// of training.
class SavedModel {
 public:
  SavedModel(zeroth::Job const& job, std::filesystem::path path) : path_{std::move(path)} {
    if (job.rank() == 0 && !path_.empty()) {
      folder_.emplace(path_);
    }
  }
  /// Collective. Nothing if no folder was asked for.
  template <class Engine>
  void save(Engine& engine, Shape const& shape) {
    if (path_.empty()) {
      return;
    }
    engine.save_weights(ModelFolder::weights(path_));
    if (folder_) {
      folder_->publish(shape);
    }
  }

 private:
  std::filesystem::path path_;
  std::optional<ModelFolder> folder_;
};

/// What one rank does.
template <zeroth::Element T, zeroth::GradientOf<T> G>
void train(zeroth::Job& job, Task const& task, zeroth::Precision<T, G>) {
  auto const& [options, config, shape, batches] = task;
  SavedModel initial{job, options.save_initial};
  SavedModel final{job, options.save_final};
  zeroth::Model model{options.seed};
  Gpt<float> const gpt{model, shape, options.recompute ? Recompute::on : Recompute::off};
  auto const batch_sizes = config.settings(job.world(), 1).batch;  // they do not depend on the largest unit
  Output output{job, task, batch_sizes.train * shape.context};
  zeroth::Engine<T, G> engine{job, model, config};
  if (!options.init.empty()) {
    engine.load_weights(options.init / weights_name);
  }
  initial.save(engine, shape);

  WideMemory memory{model};
  auto workspace = gpt.workspace();
  Batch batch;
  auto const show = [&](std::optional<zeroth::StepReport> const& report) {
    if (report) {
      output.step(*report, engine.peak().total());
    }
    return report && report->stop;
  };
  for (std::int64_t step = 0; step < options.steps; ++step) {
    for (auto micro : engine.micro_steps()) {
      batches.read(micro.first_sample(), engine.micro_batch(), batch);
      WideMicroStep<T, G> pass{micro, memory};
      float const loss = gpt.forward(pass, batch, workspace);
      gpt.backward(pass, batch, workspace, micro.report_loss(loss));
    }
    if (show(engine.step())) {  // Ctrl-C anywhere: all ranks end at the same step
      break;
    }
  }
  show(engine.finish());
  final.save(engine, shape);
  output.finish(job, {engine.planned(), engine.peak()});
}

}  // namespace gpt
