// SPDX-License-Identifier: Apache-2.0
/// Where an engine runs: its ranks, its place in the mesh, its device, and the streams of its communication.
#pragma once
#include <exception>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/channels.hpp"
#include "engine/communicators.hpp"
#include "engine/exchange.hpp"
#include "engine/share.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/engine/mesh.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::engine {

/// The job's side of an engine. Its constructor makes what needs no plan; the engine makes communicators, streams and
/// channels here once it has one.
class Runtime {
 public:
  /// `mesh` is null where the ranks of `job` are all there are. `settings` are those of the mesh's pipeline.
  Runtime(Job& job, Model const& model, PipelineSettings const& settings, Mesh* mesh);

  [[nodiscard]] Exchange exchange() const noexcept {
    return {communicators->gather().all(), device.get(), gather_stream.get()};
  }
  /// All ranks of the job in the order of the mesh, with places along data; the same as exchange() where one rank has
  /// the model.
  [[nodiscard]] Exchange whole() const noexcept {
    return all_stages ? Exchange{all_stages.get(), device.get(), gather_stream.get()} : exchange();
  }
  /// The ranks at this rank's place that have the model once together: all stages, with all tensor ranks of each.
  [[nodiscard]] Exchange line() const noexcept { return {stages.get(), device.get(), gather_stream.get()}; }
  [[nodiscard]] DeviceKind kind() const noexcept {
    return device->has_host_memory() ? DeviceKind::cpu : DeviceKind::cuda;
  }
  /// Of line(): the first rank of a stage.
  [[nodiscard]] int first_in_line(int stage) const noexcept { return stage * part.of; }
  /// Those that divide parameters. On the stream of their sums, which go over the same communicator.
  [[nodiscard]] Exchange over_tensor() const noexcept { return {tensor.get(), device.get(), reduce_stream.get()}; }
  [[nodiscard]] bool has_pipeline() const noexcept { return share.stages() > 1; }
  /// Does what all tensor ranks report or have whole count on this one?
  [[nodiscard]] bool counts() const noexcept { return part.index == 0; }
  /// Does this rank speak for the job, all of the mesh?
  [[nodiscard]] bool speaks() const noexcept { return share.first() && counts() && exchange().rank() == 0; }
  /// What only engines without a pipeline do. Throws ConfigError otherwise.
  void expect_one_stage(char const* call) const;

  void make_streams(device::Overlap overlap);
  /// Splits the communicators that stages and tensor ranks have in common. Collective on the mesh.
  void join_mesh(Mesh& mesh, Settings const& settings);
  /// Channels to the neighbouring stages, for messages of a step, and communicators of tied parameters. Collective on
  /// the mesh.
  void make_channels(Mesh& mesh, ChannelSizes const& messages, Settings const& settings);
  /// Sets the options of all communicators but those of channels.
  void set_options(comm::CommOptions const& options);
  /// A rank that comes here alone meets the others on the communicator that they use next, which is that of gathers or
  /// of reductions, and all are told at once.
  void meet(std::string_view purpose, bool gathers_first);
  /// The streams may hold collectives that other ranks will never join: to be called before the streams are joined.
  void tell_others(std::exception_ptr const& error) noexcept;
  void end_streams() noexcept;

  detail::JobState* job;  ///< Its ranks share the states of this stage and part.
  Share share;
  TensorPart part;  ///< Of parameters that are cut.
  std::unique_ptr<device::Device> device;
  std::optional<Communicators> communicators;
  /// Those of line(), and all ranks; null where one rank has the model. Of over_tensor(); null where there is one part.
  std::unique_ptr<comm::Communicator> stages, all_stages, tensor;
  TieCommunicators ties;
  std::unique_ptr<Channels> channels;
  std::unique_ptr<device::Stream> gather_stream, reduce_stream;  // end first: their work uses all of the rest
};

}  // namespace zeroth::engine
