// SPDX-License-Identifier: Apache-2.0
/// Activations that wait for backward on a disk or, with a GPU, in host memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "zeroth/core/export.hpp"
#include "zeroth/engine/any_engine.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth {

/// The size of an ActivationStore.
struct ActivationStoreOptions {
  /// Size of the store: room for `bytes` / `input_bytes` inputs at the same time. The file, or host memory, rounds each
  /// up to 4096.
  std::int64_t bytes = 0;
  int slots = 2;  ///< Buffers: inputs that are being written, or fetched and not yet taken, at the same time.
  /// Max bytes of one put(). 0: the largest input of the model's units (UnitOptions::input_per_sample).
  std::int64_t input_bytes = 0;
};

/// Keeps inputs of units from forward to backward outside of the device's memory, for a program that recomputes those
/// units (see ActivationPolicy::offloads()). On CPUs it is a file without a name in
/// zeroth.activation_checkpointing.nvme_path, which is accessed as the stage file's `aio` section says; on GPUs it is
/// pinned host memory. Writes and reads run on separate streams, concurrently with the math.
///
/// Memory: `slots` buffers of `input_bytes`, rounded up to 4096, in the device's memory, besides what the engine has
/// planned; no call allocates. Threads: it counts as a part of the engine, so one thread at a time calls either. Not
/// collective: ranks may put different numbers. It must be destroyed before the engine. Errors: a disk that fails, or
/// that moves nothing for three quarters of zeroth.timeout_ms, and a failed copy end the job with a SystemError that
/// names bytes, unit and reason; it is thrown by a later call on the store or the engine.
class ZEROTH_EXPORT ActivationStore {
 public:
  /// An input in the store. Its place becomes free when it is taken or destroyed. Movable. It must not outlive the
  /// store.
  class ZEROTH_EXPORT Kept {
   public:
    Kept() = default;                        ///< Nothing.
    Kept(Kept&& other) noexcept;             ///< Leaves nothing in `other`.
    Kept& operator=(Kept&& other) noexcept;  ///< Drops what it held before.
    ~Kept();
    /// Whether it holds an input.
    [[nodiscard]] explicit operator bool() const noexcept { return store_ != nullptr; }
    /// Starts to read it into a slot, unless it is still in one; does not block. Does nothing if it was fetched before.
    /// Throws ContractError if every slot has something that was fetched and not taken.
    void fetch();
    /// Copies it to `address` on the compute stream, which waits for the read (StepReport::activation_ms), and drops
    /// it. Fetches it if that was not done. Throws ContractError if it holds nothing.
    void take(void* address);

   private:
    friend class ActivationStore;
    ActivationStore* store_ = nullptr;
    std::size_t place_ = 0;
  };

  /// Reserves file or host memory, allocates the slots and starts the streams. Throws ConfigError if the stage file
  /// does not offload activations to "nvme", or on a GPU; ContractError for less than one slot, for a store smaller
  /// than one input, and if the size of an input is unknown; SystemError if there is no space.
  ActivationStore(AnyEngine& engine, ActivationStoreOptions const& options);
  ActivationStore(ActivationStore const&) = delete;
  ActivationStore& operator=(ActivationStore const&) = delete;
  ~ActivationStore();

  /// Copies `bytes` at `address` into a slot on the compute stream, which waits until one is free
  /// (StepReport::activation_ms), and starts to write the slot to the file, or to host memory. The memory at `address`
  /// may be changed afterwards, in the order of the compute stream. `unit` is for messages. Throws ContractError if the
  /// store is full, if `bytes` are more than an input has, or if every slot has something that was fetched and not
  /// taken.
  [[nodiscard]] Kept put(void const* address, std::int64_t bytes, std::optional<Unit> unit = {});

  [[nodiscard]] int slots() const noexcept;                  ///< ActivationStoreOptions::slots.
  [[nodiscard]] std::int64_t room() const noexcept;          ///< How many inputs it can hold at the same time.
  [[nodiscard]] std::int64_t memory_bytes() const noexcept;  ///< Memory of the slots.
  [[nodiscard]] std::int64_t stored_bytes() const noexcept;  ///< Size of the file, or of the pinned host memory.
  /// The same as the file system, or CUDA, counts it.
  [[nodiscard]] std::int64_t bytes_taken() const;
  [[nodiscard]] std::int64_t written_bytes() const noexcept;  ///< Total so far.
  [[nodiscard]] std::int64_t read_bytes() const noexcept;     ///< Total so far. What was still in a slot is not read.
  /// Total milliseconds that the compute stream has waited for slots and reads.
  [[nodiscard]] double waited_ms() const;

 private:
  struct State;
  void fetch(std::size_t place);
  void take(std::size_t place, void* address);
  void drop(std::size_t place) noexcept;

  std::unique_ptr<State> state_;
};

}  // namespace zeroth
