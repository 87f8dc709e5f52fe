// SPDX-License-Identifier: Apache-2.0
/// An engine's ranks, its place in the mesh, its device, and its communication streams.
#pragma once
#include <exception>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/channels.hpp"
#include "engine/communicators.hpp"
#include "engine/exchange.hpp"
#include "engine/server_ranks.hpp"
#include "engine/share.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/engine/mesh.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::engine {

/// The part of an engine that belongs to its job. The constructor makes what needs no plan. Communicators, streams and
/// channels are made here once the engine has a plan.
class Runtime {
 public:
  /// `mesh` is null if `job` has all ranks.
  Runtime(Job& job, Model const& model, Config const& config, Mesh* mesh);

  [[nodiscard]] Exchange exchange() const noexcept {
    return {communicators->gather().all(), device.get(), gather_stream.get()};
  }
  /// All ranks of the job in the order of the mesh, with places along data. Equals exchange() if one rank has the whole
  /// model.
  [[nodiscard]] Exchange whole() const noexcept {
    return all_stages ? Exchange{all_stages.get(), device.get(), gather_stream.get()} : exchange();
  }
  /// All ranks of the job, parameter servers included.
  [[nodiscard]] Exchange everyone() const noexcept { return servers ? with_servers() : whole(); }
  /// The ranks at this rank's place that together have the model once: all stages, with all tensor ranks of each.
  [[nodiscard]] Exchange line() const noexcept { return {stages.get(), device.get(), gather_stream.get()}; }
  [[nodiscard]] DeviceKind kind() const noexcept {
    return device->has_host_memory() ? DeviceKind::cpu : DeviceKind::cuda;
  }
  /// The rank in line() of the first tensor rank of a stage.
  [[nodiscard]] int first_in_line(int stage) const noexcept { return stage * part.of; }
  /// The tensor ranks. Uses the stream of their sums, which share the communicator.
  [[nodiscard]] Exchange over_tensor() const noexcept { return {tensor.get(), device.get(), reduce_stream.get()}; }
  [[nodiscard]] bool has_pipeline() const noexcept { return share.stages() > 1; }
  /// Whether values that all tensor ranks report or hold alike count on this rank.
  [[nodiscard]] bool counts() const noexcept { return part.index == 0; }
  /// Whether this rank logs for the whole job.
  [[nodiscard]] bool speaks() const noexcept {
    return share.first() && counts() && !serves() && exchange().rank() == 0;
  }
  /// Whether this rank is a parameter server.
  [[nodiscard]] bool serves() const noexcept { return servers != nullptr && servers->serves(); }
  /// The number of ranks that have samples, and whose gradients are added up.
  [[nodiscard]] int workers() const noexcept;
  /// The number of ranks whose calls a step's sums compare.
  [[nodiscard]] int deciders() const noexcept {
    return servers != nullptr && servers->is_stale() ? 1 : exchange().world();
  }
  /// Workers, then parameter servers.
  [[nodiscard]] Exchange with_servers() const noexcept { return {&servers->all(), device.get(), gather_stream.get()}; }
  /// Throws ConfigError if there is a pipeline, which `call` does not support.
  void expect_one_stage(char const* call) const;

  void make_streams(device::Overlap overlap);
  /// Splits the communicators that stages and tensor ranks share. Collective on the mesh.
  void join_mesh(Mesh& mesh, Settings const& settings);
  /// Makes channels to the neighbouring stages and communicators of tied parameters. Collective on the mesh.
  void make_channels(Mesh& mesh, ChannelSizes const& messages, Settings const& settings);
  /// Sets the options of all communicators except those of channels.
  void set_options(comm::CommOptions const& options);
  /// A barrier on the communicator that is used next, that of gathers or of reductions. If only some ranks call it,
  /// their next collectives mismatch, and all ranks get the error.
  void meet(std::string_view purpose, bool gathers_first);
  /// Aborts the job. Call before joining the streams: they may hold collectives that other ranks never join.
  void tell_others(std::exception_ptr const& error) noexcept;
  void end_streams() noexcept;

  std::unique_ptr<ServerRanks> servers;  ///< Null without parameter servers.
  /// Its ranks share the states of this stage and part; with parameter servers, those of all workers or of all servers.
  detail::JobState* job;
  Share share;
  TensorPart part;  ///< This rank's part of divided parameters.
  std::unique_ptr<device::Device> device;
  std::optional<Communicators> communicators;
  /// Communicators of line() and of all ranks, null if one rank has the model; and of over_tensor(), null if there is
  /// one part.
  std::unique_ptr<comm::Communicator> stages, all_stages, tensor;
  TieCommunicators ties;
  std::unique_ptr<Channels> channels;
  std::unique_ptr<device::Stream> gather_stream, reduce_stream;  // destroyed first: their work uses all of the rest
};

}  // namespace zeroth::engine
