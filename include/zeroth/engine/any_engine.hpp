// SPDX-License-Identifier: Apache-2.0
/// The base class of all engines; its dtypes are known at run time.
///
/// Rules for every call:
/// - **Collective:** every rank makes all calls on an engine and its passes, in the same order, except where noted.
/// - **Stream order:** work on parameters and gradients is ordered on the compute stream, which the caller owns. A call
///   blocks the host only if its description says "waits". On the CPU the compute stream is the calling thread.
/// - **Threads:** any thread may call an engine, its passes and guards, but only one at a time; the program orders its
///   threads. Messages name the engine's rank, whatever the thread. A call from a thread other than the one that made
///   the engine makes the engine's GPU that thread's current one, and leaves it current. With `zeroth.check` concurrent
///   calls throw ContractError. Threads may share a Config.
/// - **Errors:** a destructor never throws; the next call on the same engine throws its error.
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
#include "zeroth/engine/reduced_gradient.hpp"
#include "zeroth/engine/report.hpp"
#include "zeroth/engine/step_graph.hpp"
#include "zeroth/model/model.hpp"
#include "zeroth/monitor/monitor.hpp"

namespace zeroth {

/// Overrides of the file for one step.
struct StepOptions {
  std::optional<float> learning_rate;  ///< Learning rate of this step instead of the schedule's. The same on all ranks.
};

/// Trains `model` as `config` says, with dtypes and shapes known at run time: for adapters of dynamically typed
/// libraries, and for programs that train models they do not define. Engine<T, G> is the typed version.
///
/// The constructor allocates all memory; a steady-state step allocates none. The engine is neither movable nor
/// copyable, because its passes and guards hold its address. Return it as a prvalue, or store a unique_ptr. The
/// destructor waits for pending work and cancels a save that is not finished. After an error it aborts the job instead.
/// Destroying the engine during a pass prints an error and terminates the process.
class ZEROTH_EXPORT AnyEngine {
 public:
  /// Runs on the job's device, with the file's dtypes. Waits until all ranks have arrived and agree on the model, the
  /// config and the initial parameters. The model may be destroyed before the engine.
  AnyEngine(Job& job, Model const& model, Config const& config);
  /// Makes an engine for this rank's stage of a pipeline. Every rank describes the whole model, and holds its stage's
  /// part. The loss, its weight, metrics, the norm, skips, stops, weight files and checkpoints are those of all ranks.
  /// With several stages use schedule(); micro_steps() throws ConfigError.
  AnyEngine(Mesh& mesh, Model const& model, Config const& config);
  AnyEngine(AnyEngine const&) = delete;
  AnyEngine& operator=(AnyEngine const&) = delete;
  virtual ~AnyEngine();

  /// A step's micro-steps: gradient_accumulation_steps of the file. A step that zeroth.replay_every selects has one
  /// more: its first two have the same samples, and the results of the first are only compared. Call step() afterwards.
  Passes<AnyMicroStep> micro_steps() { return passes<AnyMicroStep>(); }
  /// This rank's actions in a step, in order. Replaces micro_steps() if a pipeline has several stages. Call step()
  /// afterwards.
  Passes<AnyWork> schedule() { return actions<AnyWork>(); }
  /// Max micro-steps between forward and backward at the same time: the number of tapes that a program of schedule()
  /// keeps. Not collective.
  [[nodiscard]] int in_flight() const noexcept;
  /// Whether this rank is a parameter server (zeroth.parameter_server): it calls serve(), and nothing else. Not
  /// collective.
  [[nodiscard]] bool serves() const noexcept;
  /// Adds up the workers' gradients and updates parameters, until the workers' engine is destroyed. Waits. A server
  /// that does not call it lets the workers' first step end by their timeout. Throws ContractError on a worker.
  void serve();
  /// Enqueues the update, or with zeroth.delayed_update leaves it to the next step's passes, and returns the previous
  /// step's report; nullopt on the first call.
  ///
  /// Waits for the previous step only. So the device stays busy, the host cannot run further ahead, and every rank gets
  /// each report in the same iteration. Throws Error if a dynamic loss scale cannot become smaller.
  std::optional<StepReport> step(StepOptions const& options = {});
  /// A recorder of whole steps as CUDA graphs. Throws ContractError that names the reason if steps of this engine
  /// cannot be recorded: graphs need a GPU, NCCL, and steps for which the host has nothing to decide.
  [[nodiscard]] StepGraph step_graph();
  /// Waits for all work and for a running save, and returns the pending report of step(). Between steps it also applies
  /// a pending update of zeroth.delayed_update.
  ///
  /// Call it after the loop, or after any step() to get its report at once, which idles the device; training may
  /// continue. If the save failed, throws its error, and the next call returns the report.
  std::optional<StepReport> finish();
  /// Records the work and the waits of all streams in `timeline` from now on; null stops that. Call it between passes.
  /// `timeline` must exist until finish() or until the engine is destroyed. Recording allocates. Not collective.
  void trace(Timeline* timeline);
  /// Adds a monitor to those of the stage file, on rank 0, from the next step on. Other ranks discard it. Call it
  /// between passes. Not collective. Throws ContractError for null.
  void add_monitor(std::unique_ptr<Monitor> monitor);
  /// Returns a table of this rank's collectives so far, if comms_logger.enabled: count, bytes, milliseconds, and
  /// algorithm and bus bandwidth in GB/s. Otherwise, and on ranks other than 0, returns an empty text. Call it between
  /// passes. On a GPU it waits. Collectives that the program traced itself have no times. Not collective.
  [[nodiscard]] std::string communication() const;
  /// Starts an evaluation of `passes` batches on every rank, at least one. Call it between micro-steps or steps; with
  /// several pipeline stages, before the first action of a step or after its last one. Does not affect training. Closes
  /// an evaluation that was left unfinished.
  AnyEvaluation evaluation(int passes) { return AnyEvaluation{begin_evaluation(passes)}; }

  /// Adds a number to be reported besides the loss. Passes give its values to report_metric(); reports and evaluations
  /// have its mean over ranks and passes. Call it between passes, with the same names in the same order on all ranks;
  /// otherwise the next step() throws PeerError. Throws ContractError for an empty or duplicate name, and for a ninth
  /// metric.
  [[nodiscard]] Metric add_metric(std::string_view name);

  /// Writes one safetensors file of the masters, in fp32, or rounded to the compute dtype if the stage file says so
  /// (zero_optimization.stage3_gather_16bit_weights_on_model_save). Rank 0 writes it piece by piece, from the shards of
  /// all stages; the file appears complete or not at all. Call it between passes. Waits. If it cannot be written, all
  /// ranks throw the same SystemError, and the engine remains usable: another file may work.
  void save_weights(std::filesystem::path const& file);
  /// Loads weights from a safetensors file of fp32, bf16 and fp16 tensors. Each rank reads its own ranges only. Call it
  /// between passes. Waits. Does not change optimizer states or the count of updates. Warns about the first value that
  /// is not finite.
  ///
  /// If a rank cannot read the file, or names and shapes do not match, all throw the same SystemError or ContractError,
  /// nothing is changed, and the engine remains usable. Tensors that are not parameters of the model are problems as
  /// well, unless `left_out`, the same on all ranks, selects them by name. After an error while values are read, or a
  /// PeerError because ranks read different values, the engine is unusable.
  void load_weights(std::filesystem::path const& file,
                    std::function<bool(std::string const& name)> const& left_out = {});

  /// Exchanges every trained parameter with its exponential moving average (zeroth.ema.decay); a second call exchanges
  /// them back, bit for bit. In between evaluations, read() and save_weights() have the averages, and calls that change
  /// or save states throw ContractError. Call it between steps. Collective. Waits. Throws ContractError if the engine
  /// keeps no averages. Costs a pass over masters and averages on the host, and a gather of all parameters.
  void swap_ema();

  /// Starts an asynchronous checkpoint: masters, optimizer states, frozen parameters and progress.
  ///
  /// Call it between steps, with the same folder on all ranks, which must see the same file system. Returns at once,
  /// except that it waits for an earlier save, and that the first save on a mesh waits for the ranks to exchange what
  /// they hold. The checkpoint becomes `folder`/step_00001000, by the number of steps, once all of it is on disk: two
  /// steps later at the earliest, or in finish() or Saving::wait().
  ///
  /// With zeroth.delayed_update it first applies the pending update, and waits for it. So a checkpoint includes all of
  /// its steps, and the next step reads the parameters that it has.
  ///
  /// Files are written during training. An update waits only until what it overwrites has been read, or written,
  /// depending on zeroth.checkpoint.buffer_bytes (StepReport::save_ms). On a GPU the host waits for that. Needs
  /// zeroth.checkpoint.buffer_bytes of host memory; if that is 0, 1 MiB, or 16 MiB with a GPU.
  ///
  /// With parameter servers (zeroth.parameter_server) it waits until the checkpoint is committed, and throws its error.
  ///
  /// A failed save leaves training and all checkpoints intact. It is logged, and thrown once by the first of
  /// Saving::wait(), the next save(), which has then started its own, and finish(). Throws ContractError for invalid
  /// options.
  Saving save(std::filesystem::path const& folder, SaveOptions const& options = {});
  /// Creates `folder` if necessary, and locks it against saves of other jobs until this engine is destroyed or saves
  /// elsewhere. The first save() does the same, but by then there is training to lose. Call it between steps.
  /// Collective. Waits. If another job holds the folder, or it cannot be written, all ranks throw SystemError, naming
  /// that job or the reason.
  void claim(std::filesystem::path const& folder);
  /// Loads all states from a checkpoint of any stage, number of ranks and mesh: `path`, or the one that `path`/latest
  /// names.
  ///
  /// Collective; waits. Call it before the first step, or between steps once finish() has returned the last report.
  /// Each rank reads its share and checks the hash of every MiB; only what tensor-parallel ranks hold whole is read
  /// more than once. The current stage file applies; rank 0 logs where it differs from the checkpoint's. If the
  /// checkpoint is missing, or its model, optimizer, dtype or data do not match, all ranks throw the same SystemError
  /// or ContractError, and nothing is changed. If a file proves damaged later, all throw SystemError, and only another
  /// restore() may follow.
  Restored restore(std::filesystem::path const& path, RestoreOptions const& options = {});
  /// Restores the newest undamaged checkpoint in `folder`, and names damaged ones that it skips. Returns nullopt if
  /// there is neither a checkpoint nor `latest`. Throws DamagedError if all are damaged (unless
  /// RestoreOptions::start_over_if_all_damaged), SystemError if one cannot be read now, and ContractError if one has
  /// another version's format. Claims the folder if it exists and is writable; a job that only reads while another one
  /// saves should call restore(). Otherwise like restore().
  std::optional<Restored> restore_latest(std::filesystem::path const& folder, RestoreOptions const& options = {});

  /// Copies all elements of `param` to every rank in fp32: the master, or a frozen parameter's compute copy. Call it
  /// between passes; includes updates that step() enqueued. Waits, and broadcasts each slice. Throws ContractError if
  /// the size of `values` differs from that of `param`.
  void read(AnyParam const& param, std::span<float> values);
  /// Sets all elements of `param`, rounded to the master's and the compute dtype. Does not change optimizer states.
  /// Waits. If `values` differ between ranks, throws PeerError, and the engine is unusable.
  void write(AnyParam const& param, std::span<float const> values);
  /// This step's global gradient norm before its update, unscaled and unclipped; bitwise equal to
  /// StepReport::grad_norm. Call it between the last micro-step and step(), to which you may then pass a learning rate
  /// of 0, say. Waits for backward, unlike step(), so the device idles.
  [[nodiscard]] float gradient_norm();
  /// The norm of one trainable parameter, from fp64 sums on the host, which reads the whole slice.
  [[nodiscard]] float gradient_norm(AnyParam const& param);

  /// Calls `edit` for all gradients that this rank's optimizer will read, so that the program can log or change them
  /// before the update: clip them by value, add noise. Norm, clipping and skips follow from what `edit` leaves.
  ///
  /// Call it between the last micro-step and step(). Collective. Waits for backward, unlike step(), so the device
  /// idles, and costs a pass over the gradients. `edit` runs on the calling thread, and on a GPU its kernels on
  /// compute_stream(). A rank sees all elements at stage 0, its share at stages 1 to 3, and only those of its pipeline
  /// stage. Several ranks may see the same element, and must leave it with the same value: so let it depend on the
  /// element, its parameter and its index alone. Does nothing if no rank reported a loss in this step. Throws
  /// ContractError with parameter servers, and with OneBitAdam, whose ranks keep gradients of their own. If `edit`
  /// throws, the engine is unusable.
  void edit_gradients(std::function<void(ReducedGradient const&)> const& edit);

  /// Replaces ParamOptions::learning_rate_factor from the next step() on: rates by group of parameters that change
  /// while training runs, as by torch.optim's param_groups. Calls `factor_of` with the name of every trainable
  /// parameter of the model; nullopt leaves its factor. Factors are 0 or more and finite, and the same on all ranks;
  /// otherwise the next step() throws PeerError. Checkpoints do not have them: set them again after a restore.
  ///
  /// Call it between steps. Collective. Throws ContractError with parameter servers. Costs a pass over the list of
  /// parameters, and the next step() waits for the update before it.
  void set_learning_rate_factors(std::function<std::optional<float>(std::string const& name)> const& factor_of);

  /// This rank's data-parallel index, from 0: which share of a batch it processes. Equals its rank, unless the stage
  /// file uses groups, which renumber ranks for samples, sums and slices. For programs that distribute samples
  /// themselves; AnyPass::first_sample() takes it into account. Not collective.
  [[nodiscard]] int place() const noexcept;
  /// Index of the first sample of the step that comes next, or is under way, in the stream of
  /// AnyPass::first_sample(). For programs that load a step's samples before its passes. Not collective.
  [[nodiscard]] std::int64_t first_sample() const noexcept;
  [[nodiscard]] std::int64_t micro_batch() const noexcept;  ///< Samples per rank and pass. Not collective.
  [[nodiscard]] Dtype compute_dtype() const noexcept;       ///< Dtype of parameters in guards. Not collective.
  [[nodiscard]] Dtype gradient_dtype() const noexcept;      ///< Dtype of gradients in guards. Not collective.
  [[nodiscard]] MemoryBytes peak() const noexcept;          ///< Measured peak memory. Not collective.
  [[nodiscard]] MemoryBytes planned() const noexcept;       ///< Plan::bytes of plan(). Not collective.
  /// Disk space of this rank's offload file (Plan::disk), as the file system counts it; 0 without disk offload. Not
  /// collective.
  [[nodiscard]] std::int64_t bytes_on_disk() const;
  /// Pinned host memory of this rank, if states of a GPU are there (Plan::host); otherwise 0. Not collective.
  [[nodiscard]] std::int64_t bytes_of_host() const;
  /// Host memory that this rank's saves hold as write buffers (Plan::staging_bytes); 0 before the first save. Not
  /// collective.
  [[nodiscard]] std::int64_t staging_bytes() const noexcept;
  /// The stream to enqueue the caller's kernels on: see adapters/cuda.hpp. Null on the CPU. Not collective.
  [[nodiscard]] device::StreamRef compute_stream() const noexcept;

 protected:
  /// For programs compiled for these dtypes. Throws ConfigError, naming both, if the file has other ones.
  AnyEngine(Job& job, Model const& model, Config const& config, Dtype compute, Dtype gradient);
  AnyEngine(Mesh& mesh, Model const& model, Config const& config, Dtype compute,
            Dtype gradient);  ///< Does the same on a mesh.
  /// The step's micro-steps as P: AnyMicroStep, or MicroStep with the engine's types.
  template <class P>
  [[nodiscard]] Passes<P> passes() {
    return {state_.get(), passes_in_step()};
  }
  /// The step's actions as P: AnyWork, or Work with the engine's types.
  template <class P>
  [[nodiscard]] Passes<P> actions() {
    return {state_.get(), actions_in_step()};
  }
  /// Starts the evaluation for evaluation(). Throws ContractError for less than one pass, and while a pass is open.
  [[nodiscard]] detail::EvaluationRecord begin_evaluation(int passes);

 private:
  friend class ActivationStore;
  [[nodiscard]] int passes_in_step() const;
  [[nodiscard]] int actions_in_step() const;

  std::unique_ptr<detail::EngineState> state_;
  int accumulation_;
};

}  // namespace zeroth
