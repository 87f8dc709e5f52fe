// SPDX-License-Identifier: Apache-2.0
/// An engine whose types are known at run time, and all that engines of known types share.
///
/// Rules for every call, said once:
/// - **Collective:** all calls on an engine and its passes are made by every rank in the same order, except where
///   noted.
/// - **Stream order:** work on parameters and gradients is ordered on the compute stream, which the caller owns. No
///   call blocks the host unless it says "waits". On the CPU the compute stream is the calling thread.
/// - **Threads:** calls on an engine, its passes and guards come from any thread, one at a time; the program orders
///   the threads that it hands them to. Messages name the engine's rank, whatever the thread. A call makes the engine's
///   GPU the current one of another thread than that which made the engine, and it stays so. With `zeroth.check` two
///   calls at the same time throw ContractError. A Config may be shared.
/// - **Errors:** a destructor never throws; what it found is thrown by the next call on the same engine.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "zeroth/comm/job.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/device/memory.hpp"
#include "zeroth/device/timeline.hpp"
#include "zeroth/engine/checkpoint.hpp"
#include "zeroth/engine/mesh.hpp"
#include "zeroth/engine/pass.hpp"
#include "zeroth/engine/report.hpp"
#include "zeroth/model/model.hpp"
#include "zeroth/monitor/monitor.hpp"

namespace zeroth {

/// What one step does otherwise than the file says.
struct StepOptions {
  std::optional<float> learning_rate;  ///< For this step, instead of the file's schedule. The same on all ranks.
};

/// Trains `model` as `config` says, for programs that learn dtypes and shapes when they run: adapters of dynamically
/// typed libraries, walks over models that somebody else wrote. All memory is allocated by the constructor, none in a
/// steady-state step. Its end waits for all that it has begun; after an error it tells the other ranks instead, which
/// end too. Neither moves nor copies, because its passes and guards know its address: a function may return one that it
/// makes in the return statement, a container holds a unique_ptr. If it ends before a pass does, it ends the process
/// and says so.
class ZEROTH_EXPORT AnyEngine {
 public:
  /// On the job's device, with the file's types. Waits until all ranks are here and have shown the same model, config
  /// and initial parameters. The model may end before the engine.
  AnyEngine(Job& job, Model const& model, Config const& config);
  /// The same for this rank's stage of a pipeline: every rank describes the whole model, and holds what its stage has
  /// of it. The loss, its weight, metrics, the norm, skips, stops, files of weights and checkpoints are those of all
  /// ranks. With several stages a step is made by Engine::schedule(): micro_steps() throws ConfigError.
  AnyEngine(Mesh& mesh, Model const& model, Config const& config);
  AnyEngine(AnyEngine const&) = delete;
  AnyEngine& operator=(AnyEngine const&) = delete;
  virtual ~AnyEngine();

  /// The file's gradient_accumulation_steps of them; in a step that zeroth.replay_every names one more: the first two
  /// have the same samples, and what the first one computes is only compared with. Then comes step().
  Passes<AnyMicroStep> micro_steps() { return passes<AnyMicroStep>(); }
  /// What the rank does in a step, in order: with stages of a pipeline in place of micro_steps(). Then comes step().
  Passes<AnyWork> schedule() { return actions<AnyWork>(); }
  /// Micro-steps that are between forward and backward at the same time, at most: how many tapes a program of
  /// schedule() keeps. Not collective.
  [[nodiscard]] int in_flight() const noexcept;
  /// Enqueues the update and returns the report of the *previous* step, so the first time none. Waits for that one:
  /// that never idles the device, stops the host from running further ahead, and puts each report at the same place of
  /// the loop on every rank. Throws Error when a dynamic loss scale cannot get smaller.
  std::optional<StepReport> step(StepOptions const& options = {});
  /// Waits for all work; returns the report that step() still owes. After the loop; or after any step(), to have its
  /// report at once, at the cost of an idle device: training goes on.
  /// Ends a save that is under way, and throws what it has failed with; then the report is the next call's.
  std::optional<StepReport> finish();
  /// From now on the engine adds to `timeline` what each stream does and where it waits; null ends that. Between
  /// passes. The timeline lives until finish() or until the engine ends. Costs allocations while it lasts. Not
  /// collective.
  void trace(Timeline* timeline);
  /// Rank 0 gives `monitor` the numbers of every step from the next on, beside the monitors that the file names; the
  /// other ranks drop it. Between passes. Not collective. Throws ContractError for null.
  void add_monitor(std::unique_ptr<Monitor> monitor);
  /// With comms_logger.enabled a table of this rank's collectives so far: numbers, bytes, milliseconds, GB/s over what
  /// all ranks bring or get together, and over what a ring sends from each. Empty without, and on ranks other than 0.
  /// Between passes. On a GPU this waits. What the program traced itself has no times. Not collective.
  [[nodiscard]] std::string communication() const;
  /// Between micro-steps or steps; `passes` batches on every rank, at least one. No effect on training. Ends the
  /// evaluation before it, if that was left unfinished. With several stages of a pipeline before the first action of a
  /// step or behind its last one.
  AnyEvaluation evaluation(int passes) { return AnyEvaluation{begin_evaluation(passes)}; }

  /// A number beside the loss, which passes give to report_metric(); reports and evaluations have its mean over ranks
  /// and passes. Between passes; the same names in the same order on all ranks, or the next step() throws PeerError.
  /// Throws ContractError for a name that is empty or was added before, and for a ninth one.
  [[nodiscard]] Metric add_metric(std::string_view name);

  /// One safetensors file of the masters, in fp32, or rounded to the compute dtype if the stage file says so
  /// (zero_optimization.stage3_gather_16bit_weights_on_model_save), written by rank 0 from the shards of all stages
  /// piece by piece: there when it is complete, or not at all. Between passes. Waits. If it cannot be written, all
  /// ranks throw the same SystemError, and the engine goes on: another file may do.
  void save_weights(std::filesystem::path const& file);
  /// Each rank reads its ranges only. fp32, bf16 and fp16 files. Between passes. Waits. Leaves the optimizer's states
  /// and the count of updates as they are. Warns of the first value that is not finite. If one rank cannot read the
  /// file, or names and shapes do not match, all throw the same SystemError or ContractError, nothing was changed, and
  /// the engine goes on. An error while values are read, from a file that was whole before, is the engine's end, and so
  /// is PeerError if ranks read different values.
  /// Tensors that are no parameters of the model are problems as well, but for those that `left_out`, the same on all
  /// ranks, picks by name.
  void load_weights(std::filesystem::path const& file,
                    std::function<bool(std::string const& name)> const& left_out = {});

  /// Begins a checkpoint of all that training needs to go on: masters, the optimizer's states, frozen parameters, and
  /// how far it has come. It becomes `folder`/step_00001000, by the number of steps, once all of it is on the disk, two
  /// steps later at the earliest, or in finish() or Saving::wait(). Between steps; the same folder on all ranks, which
  /// must see the same one. Returns at once, unless an earlier save is under way, for which it waits; the first one on
  /// a mesh waits until its ranks have said what they have. The files are written beside training, and an update waits
  /// only until what it writes to has been read, or written, as zeroth.checkpoint.buffer_bytes says:
  /// StepReport::save_ms. On a GPU the host waits for that. A save that fails leaves training and all checkpoints as
  /// they were, is logged, and is thrown, once, by what comes first of Saving::wait(), the next save(), which has then
  /// begun its own, and finish(). Takes zeroth.checkpoint.buffer_bytes of the host, or 1 MiB (16 MiB with a GPU) where
  /// that is 0. Throws ContractError for options that are not allowed.
  Saving save(std::filesystem::path const& folder, SaveOptions const& options = {});
  /// Makes `folder`, unless it is there, and lets no other job save into it, until this engine ends or saves elsewhere:
  /// what the first save() does as well, but before there is training to lose. Between steps. Collective. Waits. Throws
  /// SystemError on all ranks, naming the job that has claimed it, or why it cannot be written.
  void claim(std::filesystem::path const& folder);
  /// Takes all states from a checkpoint, of any stage, number of ranks and mesh: `path`, or the one that `path`/latest
  /// names. Before the first step or between steps, once finish() has given the last report. Collective. Waits. Every
  /// rank reads its share, so that the disk is read once in all but for what tensor ranks have whole, and checks the
  /// hash of every MiB. What the stage file says stays; where it differs from the one of the checkpoint, rank 0 logs
  /// that. If the checkpoint is not there, is of another model, optimizer, dtype or data, all throw the same
  /// SystemError or ContractError, and nothing was changed. If a file turns out to be damaged later, all throw
  /// SystemError, and only another restore() may follow.
  Restored restore(std::filesystem::path const& path, RestoreOptions const& options = {});
  /// The newest checkpoint in `folder` that is not damaged: names those that it passes over. Nothing if there is
  /// neither a checkpoint nor `latest`; throws DamagedError if there is, and none can be used, SystemError
  /// for one that cannot be read now, and ContractError for one of another version's format. Claims a folder that is
  /// there and can be written: a job that only reads beside one that saves calls restore(). All else as restore().
  std::optional<Restored> restore_latest(std::filesystem::path const& folder, RestoreOptions const& options = {});

  /// Every element of `param` as the optimizer holds it, the master, or the compute copy of a frozen one, widened to
  /// fp32; on every rank. Between passes; what step() enqueued is in it. Waits, and broadcasts each slice. Throws
  /// ContractError if `values` has not as many elements as `param`.
  void read(AnyParam const& param, std::span<float> values);
  /// The inverse of read: rounds to the nearest number of the master's and the compute dtype. The optimizer's states
  /// stay as they are. Waits. The same values on all ranks, or PeerError ends the engine.
  void write(AnyParam const& param, std::span<float const> values);
  /// Of this step, ahead of its update: global, unscaled, before clipping; the bits of StepReport::grad_norm. Between
  /// the last micro-step and step(), which may then be given a learning rate of 0, say. Waits for backward, as step()
  /// does not: the device idles.
  [[nodiscard]] float gradient_norm();
  /// The same of one trainable parameter, from fp64 sums on the host, which reads the whole slice.
  [[nodiscard]] float gradient_norm(AnyParam const& param);

  /// Which of the ranks' shares of a batch is this one's, from 0: its rank, unless the stage file puts ranks into
  /// groups, whose ranks are then renumbered for all that has an order: samples, sums and slices. For a program that
  /// deals out samples itself; AnyPass::first_sample() has it in. Not collective.
  [[nodiscard]] int place() const noexcept;
  [[nodiscard]] std::int64_t micro_batch() const noexcept;  ///< Samples per rank and pass. Not collective.
  [[nodiscard]] Dtype compute_dtype() const noexcept;       ///< Of parameters in guards. Not collective.
  [[nodiscard]] Dtype gradient_dtype() const noexcept;      ///< Of gradients in guards. Not collective.
  [[nodiscard]] MemoryBytes peak() const noexcept;          ///< Measured. Not collective.
  [[nodiscard]] MemoryBytes planned() const noexcept;       ///< What plan() says: its `bytes`. Not collective.
  /// What this rank's file takes where states are on a disk (Plan::disk), as its file system counts; 0 without. Not
  /// collective.
  [[nodiscard]] std::int64_t bytes_on_disk() const;
  /// What this rank has of the host's pinned memory where states of a GPU are there (Plan::host); 0 without. Not
  /// collective.
  [[nodiscard]] std::int64_t bytes_of_host() const;
  /// Of the host, that this rank's saves hold for what is on its way to the disk (Plan::staging_bytes); 0 before the
  /// first one. Not collective.
  [[nodiscard]] std::int64_t staging_bytes() const noexcept;
  /// The stream that the caller's kernels belong on: see adapters/cuda.hpp. Null on the CPU. Not collective.
  [[nodiscard]] device::StreamRef compute_stream() const noexcept;

 protected:
  /// For a program that was compiled for these types. Throws ConfigError, naming both, if the file says otherwise.
  AnyEngine(Job& job, Model const& model, Config const& config, Dtype compute, Dtype gradient);
  AnyEngine(Mesh& mesh, Model const& model, Config const& config, Dtype compute,
            Dtype gradient);  ///< As the one above, on a mesh.
  /// The step's micro-steps as P: AnyMicroStep, or MicroStep of the engine's types.
  template <class P>
  [[nodiscard]] Passes<P> passes() {
    return {state_.get(), passes_in_step()};
  }
  /// The step's actions as P, which is Work of the engine's types.
  template <class P>
  [[nodiscard]] Passes<P> actions() {
    return {state_.get(), actions_in_step()};
  }
  /// What evaluation() makes a range of. Throws ContractError for less than one pass, and while a pass is open.
  [[nodiscard]] detail::EvaluationRecord begin_evaluation(int passes);

 private:
  [[nodiscard]] int passes_in_step() const;
  [[nodiscard]] int actions_in_step() const;

  std::unique_ptr<detail::EngineState> state_;
  int accumulation_;
};

}  // namespace zeroth
