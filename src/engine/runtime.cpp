// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "comm/launch/job_state.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

/// ": " and the message, or nothing.
std::string cause_of(std::exception_ptr const& error) {
  if (!error) {
    return {};
  }
  try {
    std::rethrow_exception(error);
  } catch (std::exception const& e) {
    return fmt::format(": {}", e.what());
  } catch (...) {
    return {};
  }
}

}  // namespace

Runtime::Runtime(Job& of, Model const& model, Config const& config, Mesh* mesh)
    : servers{ServerRanks::of(of, config)},
      job{&detail::JobState::of(servers ? servers->part() : of)},
      share{model.description(), mesh == nullptr ? PipelineSettings{} : config.pipeline(),
            mesh == nullptr ? 0 : mesh->pipeline().index},
      part{mesh == nullptr ? TensorPart{} : mesh->tensor_part()},
      device{job->make_device()} {}

int Runtime::workers() const noexcept { return servers ? servers->workers() : job->communicator->world(); }

void Runtime::expect_one_stage(char const* call) const {
  if (share.stages() > 1) {
    throw ConfigError{
        fmt::format("{} of an engine whose zeroth.mesh.pipeline is {}; allowed: 1. With several stages use schedule()",
                    call, share.stages())};
  }
}

void Runtime::make_streams(device::Overlap overlap) {
  gather_stream = device->make_stream("gather", overlap);
  reduce_stream = device->make_stream("reduce", overlap);
}

void Runtime::join_mesh(Mesh& mesh, Settings const& settings) {
  auto& line = mesh.model_ ? *mesh.model_ : *mesh.stages_;
  stages = line.communicator().split(0, line.rank(), name_of_stages);
  auto& all = mesh.whole().communicator();
  auto const place = share.stage() * exchange().world() + exchange().rank();
  all_stages = all.split(0, place * part.of + part.index, "whole");
  if (part.of > 1) {
    tensor = mesh.tensor().communicator().split(0, part.index, "tensor-sums");
  }
  set_options({.timeout = settings.timeout, .check = true});
}

void Runtime::make_channels(Mesh& mesh, ChannelSizes const& messages, Settings const& settings) {
  ties = TieCommunicators{mesh.stages_->communicator(), share};
  ties.set_options({.timeout = settings.timeout, .check = true});
  std::vector<Boundary> boundaries;
  for (int chunk = 0; chunk < share.all_chunks(); ++chunk) {
    boundaries.push_back({share.input_per_sample(chunk) * settings.batch.micro, share.first_unit(chunk)});
  }
  channels = std::make_unique<Channels>(mesh.stages_->communicator(), *device, messages, std::move(boundaries));
  channels->set_options({.timeout = settings.timeout, .check = settings.check});
}

void Runtime::set_options(comm::CommOptions const& options) {
  communicators->set_options(options);
  ties.set_options(options);
  for (auto* const each : {stages.get(), all_stages.get(), tensor.get()}) {
    if (each != nullptr) {
      each->set_options(options);
    }
  }
}

void Runtime::meet(std::string_view purpose, bool gathers_first) {
  comm::Collective const barrier{};
  for (bool const gather : {gathers_first, !gathers_first}) {
    auto const& ranks = gather ? communicators->gather() : communicators->reduce();
    ranks.all()->submit(gather ? *gather_stream : *reduce_stream, {purpose, ""}, {&barrier, 1});
  }
  gather_stream->synchronize();
  reduce_stream->synchronize();
}

void Runtime::tell_others(std::exception_ptr const& error) noexcept {
  auto& all = *communicators->gather().all();
  all.abort(fmt::format("the engine of rank {} ended by an error{}", all.job_rank(all.rank()), cause_of(error)));
}

void Runtime::end_streams() noexcept {
  channels.reset();
  gather_stream.reset();
  reduce_stream.reset();
  if (servers) {
    servers->end_streams();
  }
  try {
    device->compute().synchronize();  // the caller's kernels may still use memory that is freed now
  } catch (...) {                     // the device has failed: nothing runs on it any more
  }
}

}  // namespace zeroth::engine
