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
  /// All ranks of the job, stage by stage, and places in each; the same as exchange() where there is one stage.
  [[nodiscard]] Exchange whole() const noexcept {
    return all_stages ? Exchange{all_stages.get(), device.get(), gather_stream.get()} : exchange();
  }
  /// The ranks at this rank's place in all stages.
  [[nodiscard]] Exchange line() const noexcept { return {stages.get(), device.get(), gather_stream.get()}; }
  [[nodiscard]] DeviceKind kind() const noexcept {
    return device->has_host_memory() ? DeviceKind::cpu : DeviceKind::cuda;
  }
  [[nodiscard]] bool has_pipeline() const noexcept { return share.stages() > 1; }
  /// Does this rank speak for the job, all its stages included?
  [[nodiscard]] bool speaks() const noexcept { return share.first() && exchange().rank() == 0; }
  /// What only engines without a pipeline do. Throws ConfigError otherwise.
  void expect_one_stage(char const* call) const;

  void make_streams(device::Overlap overlap);
  /// Splits the communicators that stages have in common. Collective on the mesh.
  void join_stages(Mesh& mesh, Settings const& settings);
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

  detail::JobState* job;  ///< Its ranks share the states of this stage.
  Share share;
  std::unique_ptr<device::Device> device;
  std::optional<Communicators> communicators;
  /// The ranks at this place of all stages, and all ranks; null where there is one stage, as is the next.
  std::unique_ptr<comm::Communicator> stages, all_stages;
  TieCommunicators ties;
  std::unique_ptr<Channels> channels;
  std::unique_ptr<device::Stream> gather_stream, reduce_stream;  // end first: their work uses all of the rest
};

}  // namespace zeroth::engine
