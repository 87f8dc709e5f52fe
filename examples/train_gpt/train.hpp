// SPDX-License-Identifier: Apache-2.0
/// The training loop, the same on every device.
#pragma once
#include <cstdint>
#include <optional>
#include <zeroth/zeroth.hpp>

#include "checkpoints.hpp"
#include "output.hpp"
#include "run_record.hpp"
#include "saved_model.hpp"
#include "trace.hpp"
#include "train_on.hpp"
#include "units.hpp"

namespace gpt {

/// What one rank does. `Where::MicroSteps<T, G>` computes.
template <class Where, zeroth::Element T, zeroth::GradientOf<T> G>
RunEnd train(zeroth::Job& job, Task const& task, zeroth::Precision<T, G>) {
  auto const& [options, config, shape, batches] = task;
  SavedModel initial_model{job, options.save_initial};
  SavedModel final_model{job, options.save_final};
  zeroth::Model model{options.seed};
  GptParams const params{model, shape};
  auto const settings = config.settings(job.world(), 1);  // of which nothing here depends on the largest unit
  auto const& batch_sizes = settings.batch;
  auto const math = Where::choose(job, options.math, zeroth::dtype_of<T>);
  auto const facts = run_record(options, config, shape, batches, math, job.world());
  Output output{job, options, batch_sizes.train * shape.context};
  Trace trace{job, options};
  Checkpoints checkpoints{job, options, batches.order(), facts};
  zeroth::Engine<T, G> engine{job, model, config};
  auto const restored = checkpoints.resume(engine);
  if (!restored) {
    if (!options.init.empty()) {
      engine.load_weights(options.init / weights_name);
    }
    initial_model.save(engine, shape, settings.saved_weights);
  }
  output.begin(facts, restored);

  typename Where::template MicroSteps<T, G> micro_steps{engine, params, options, math, batch_sizes.accumulation};
  output.products(math, micro_steps.products(options.show_products));
  Batch batch;
  auto const show = [&](std::optional<zeroth::StepReport> const& report) {
    if (report) {
      output.step(*report, engine.peak().total());
    }
    return report && report->stop;
  };
  auto const first = restored ? restored->step : 0;
  auto step = first;
  for (bool stop = false; step < options.steps && !stop;) {
    trace.before(engine, step - first, options.steps - first);
    for (auto micro : engine.micro_steps()) {
      batches.read(micro.first_sample(), engine.micro_batch(), batch);
      micro_steps.run(micro, batch);
    }
    stop = show(engine.step());  // Ctrl-C anywhere: all ranks end at the same step
    checkpoints.after_step(engine, ++step);
  }
  checkpoints.finish(engine, step);
  show(engine.finish());
  trace.finish(job);
  auto const end = step < options.steps && !options.checkpoint.empty() ? RunEnd::stopped : RunEnd::done;
  if (end == RunEnd::done) {
    final_model.save(engine, shape, settings.saved_weights);
  }
  output.finish(job, {engine.planned(), engine.peak()}, end, step);
  return end;
}

template <class Where>
RunEnd train(zeroth::Job& job, Task const& task) {
  auto end = RunEnd::done;
  with_precision(task.config, [&](auto precision) { end = train<Where>(job, task, precision); });
  return end;
}

}  // namespace gpt
