/// The training loop.
#pragma once
#include <cstdint>
#include <optional>
#include <zeroth/zeroth.hpp>

#include "batches.hpp"
#include "engine_parameters.hpp"
#include "model.hpp"
#include "options.hpp"
#include "output.hpp"
#include "run_record.hpp"
#include "saved_model.hpp"
#include "trace.hpp"

namespace gpt {

/// What all ranks of this process share, read-only.
struct Task {
  Options const& options;
  zeroth::Config const& config;
  Shape const& shape;
  Batches const& batches;
};

/// What one rank does.
template <zeroth::Element T, zeroth::GradientOf<T> G>
void train(zeroth::Job& job, Task const& task, zeroth::Precision<T, G>) {
  auto const& [options, config, shape, batches] = task;
  SavedModel initial_model{job, options.save_initial};
  SavedModel final_model{job, options.save_final};
  zeroth::Model model{options.seed};
  Gpt<float> const gpt{model, shape, options.recompute ? Recompute::on : Recompute::off};
  auto const batch_sizes = config.settings(job.world(), 1).batch;  // they do not depend on the largest unit
  Output output{job, options, batch_sizes.train * shape.context,
                run_record(options, config, shape, batches, job.world())};
  Trace trace{job, options};
  zeroth::Engine<T, G> engine{job, model, config};
  if (!options.init.empty()) {
    engine.load_weights(options.init / weights_name);
  }
  initial_model.save(engine, shape);

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
    trace.before(engine, step);
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
  trace.finish(job);
  final_model.save(engine, shape);
  output.finish(job, {engine.planned(), engine.peak()});
}

}  // namespace gpt
