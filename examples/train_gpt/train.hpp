// SPDX-License-Identifier: Apache-2.0
/// The training loop, the same on every device.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <zeroth/zeroth.hpp>

#include "checkpoints.hpp"
#include "kept_blocks.hpp"
#include "key_blocks.hpp"
#include "output.hpp"
#include "run_record.hpp"
#include "saved_model.hpp"
#include "trace.hpp"
#include "train_on.hpp"
#include "units.hpp"

namespace gpt {

template <class Where, class T, class G>
concept HasPipelines = requires {
  typename Where::template StageWork<T, G>;
};
template <class Where, class T, class G>
struct StageWorkOf {
  struct Type {};
};
template <class Where, class T, class G>
  requires HasPipelines<Where, T, G>
struct StageWorkOf<Where, T, G> {
  using Type = typename Where::template StageWork<T, G>;
};

template <class Where, class T, class G>
concept HasGraphs = requires {
  typename Where::template RecordedSteps<T, G>;
};
template <class Where, class T, class G>
struct RecordedStepsOf {
  struct Type {};
};
template <class Where, class T, class G>
  requires HasGraphs<Where, T, G>
struct RecordedStepsOf<Where, T, G> {
  using Type = typename Where::template RecordedSteps<T, G>;
};

/// The forward and backward passes of a step: micro-step by micro-step, or in the order of a pipeline's schedule.
template <class Where, zeroth::Element T, zeroth::GradientOf<T> G>
class Passes {
 public:
  Passes(zeroth::Engine<T, G>& engine, zeroth::Mesh& mesh, GptParams const& params, KeptBlocks const& kept,
         Task const& task, MathChoice const& math, zeroth::Settings const& settings)
      : task_{task} {
    if (mesh.tensor_part().of > 1) {
      tensor_.emplace(mesh.tensor(), zeroth::TensorParallelOptions{.sequence = task.config.sequence_parallel()});
    }
    auto* const tensor = tensor_ ? &*tensor_ : nullptr;
    if (mesh.pipeline().size == 1) {
      micro_steps_.emplace(engine, params, task.options, math, settings, tensor, kept);
      if constexpr (has_graphs) {
        if (task.options.step_graph) {
          recorded_.emplace(engine, *micro_steps_, task.batches, settings.batch);
        }
      }
    } else if constexpr (has_pipelines) {
      stage_.emplace(engine, params, task.options, math, tensor, kept);
    }
  }
  /// Trains one step. Returns the report of the step before.
  std::optional<zeroth::StepReport> step(zeroth::Engine<T, G>& engine) {
    if constexpr (has_graphs) {
      if (recorded_) {
        return recorded_->step();
      }
    }
    enqueue(engine);
    return engine.step();
  }
  [[nodiscard]] std::string products() const {
    auto const all = task_.options.show_products;
    if constexpr (has_pipelines) {
      return stage_ ? stage_->products(all) : micro_steps_->products(all);
    } else {
      return micro_steps_->products(all);
    }
  }

 private:
  /// Engines on GPUs reject files that ask for a pipeline.
  static constexpr bool has_pipelines = HasPipelines<Where, T, G>;
  static constexpr bool has_graphs = HasGraphs<Where, T, G>;

  void enqueue(zeroth::Engine<T, G>& engine) {
    if (micro_steps_) {
      for (auto micro : engine.micro_steps()) {
        task_.batches.read(micro.first_sample(), engine.micro_batch(), batch_);
        micro_steps_->run(micro, batch_);
      }
    } else if constexpr (has_pipelines) {
      for (auto work : engine.schedule()) {
        stage_->run(work, task_.batches, engine.micro_batch());
      }
    }
  }

  Task const& task_;
  std::optional<zeroth::TensorParallel> tensor_;  // outlives the members below
  std::optional<typename Where::template MicroSteps<T, G>> micro_steps_;
  std::optional<typename StageWorkOf<Where, T, G>::Type> stage_;
  std::optional<typename RecordedStepsOf<Where, T, G>::Type> recorded_;
  Batch batch_;
};

/// The lists of keys of this rank's heads, whose random blocks depend on the run's seed. Null without a layout of
/// attention in the file.
[[nodiscard]] inline std::shared_ptr<KeyBlocks const> key_blocks_of(zeroth::Config const& config, Shape const& shape,
                                                                    zeroth::TensorPart const& part,
                                                                    std::uint64_t seed) {
  auto const asked = config.sparse_attention();
  if (!asked) {
    return nullptr;
  }
  zeroth::BlockLayout const layout{*asked, shape.heads, shape.context, seed};
  auto const heads = shape.heads / part.of;
  return std::make_shared<KeyBlocks const>(layout, part.index * heads, heads);
}

/// How one rank's training ended.
struct Ended {
  RunEnd end = RunEnd::done;
  std::int64_t step = 0;  ///< The last one.
  RankMemory memory;
};

/// Trains until the last step, or until all ranks have agreed to stop. On a parameter server it returns when workers
/// have ended, without `end` and `step`. `Where::MicroSteps<T, G>` computes the passes.
template <class Where, zeroth::Element T, zeroth::GradientOf<T> G>
Ended train_steps(zeroth::Mesh& mesh, Task const& task, zeroth::Settings const& settings, Output& output,
                  Trace& trace) {
  auto const& [options, config, shape, batches] = task;
  auto& job = mesh.whole();
  SavedModel initial_model{job, options.save_initial};
  SavedModel final_model{job, options.save_final};
  zeroth::Model model{options.seed, mesh.tensor_part()};
  GptParams params{model, shape, config.sequence_parallel() ? Rows::divided : Rows::whole};
  params.key_blocks = key_blocks_of(config, shape, mesh.tensor_part(), options.seed);
  auto const kept = kept_blocks_of(config, {config, model}, params, Where::kind);
  auto const math = Where::choose(job, options, zeroth::dtype_of<T>);
  auto const facts = run_record(options, config, shape, batches, math, job.world());
  Checkpoints checkpoints{job, options, batches.order(), facts};
  zeroth::Engine<T, G> engine{mesh, model, Where::with_products(config, math, zeroth::dtype_of<T>)};
  if (engine.serves()) {
    engine.serve();
    return {.memory = {engine.planned(), engine.peak()}};
  }
  auto const restored = checkpoints.resume(engine);
  if (!restored) {
    if (!options.init.empty()) {
      engine.load_weights(options.init / weights_name);
    }
    initial_model.save(engine, shape, settings.saved_weights);
  }
  output.begin(facts, restored);

  Passes<Where, T, G> passes{engine, mesh, params, kept, task, math, settings};
  output.products(math, passes.products());
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
    auto const report = passes.step(engine);
    stop = show(report);  // on Ctrl-C anywhere, all ranks end at the same step
    checkpoints.after_step(engine, ++step, report ? report->elapsed_s : 0);
  }
  checkpoints.finish(engine, step);
  show(engine.finish());
  auto const end = step < options.steps && !options.checkpoint.empty() ? RunEnd::stopped : RunEnd::done;
  if (end == RunEnd::done) {
    final_model.save(engine, shape, settings.saved_weights);
  }
  return {end, step, {engine.planned(), engine.peak()}};
}

/// One rank's training, with its output.
template <class Where, zeroth::Element T, zeroth::GradientOf<T> G>
RunEnd train(zeroth::Job& job, Task const& task, zeroth::Precision<T, G>) {
  auto const& [options, config, shape, batches] = task;
  zeroth::Mesh mesh{job, config};
  auto const servers = config.parameter_server().servers;
  auto const settings = config.settings(mesh.data().world() - servers, 1);  // the parts used here do not depend on the
                                                                            // largest unit
  Output output{job, options, shape, settings.batch.train * shape.context};
  Trace trace{job, options};
  auto ended = train_steps<Where, T, G>(mesh, task, settings, output, trace);
  if (servers > 0) {  // servers do not know how training ended
    std::string_view const stopped = "stopped";
    auto const is_stopped = job.broadcast(ended.end == RunEnd::stopped ? stopped : "done") == stopped;
    ended.end = is_stopped ? RunEnd::stopped : RunEnd::done;
  }
  trace.finish(job);
  output.finish(job, ended.memory, ended.end, ended.step);
  return ended.end;
}

template <class Where>
RunEnd train(zeroth::Job& job, Task const& task) {
  auto end = RunEnd::done;
  with_precision(task.config, [&](auto precision) { end = train<Where>(job, task, precision); });
  return end;
}

}  // namespace gpt
