// SPDX-License-Identifier: Apache-2.0
#include "zeroth/comm/job.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "comm/launch/job_state.hpp"
#include "comm/local/local.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {

Job::Job(detail::JobState& state) noexcept : state_{&state} {}
Job::Job(std::unique_ptr<detail::JobState> part) noexcept : part_{std::move(part)}, state_{part_.get()} {}
Job::Job(Job&& other) noexcept = default;
Job::~Job() = default;

int Job::rank() const noexcept { return state_->communicator->rank(); }
int Job::world() const noexcept { return state_->communicator->world(); }
int Job::local_rank() const noexcept { return state_->local_rank; }
comm::Communicator& Job::communicator() noexcept { return *state_->communicator; }
std::unique_ptr<device::Device> Job::make_device() { return state_->make_device(); }

Job Job::split(int color, int key, std::string const& name) {
  ZEROTH_EXPECTS(color >= 0, fmt::format("Job::split: the color of part '{}' is {}; allowed are 0 and above, since "
                                         "every rank is in one part",
                                         name, color));
  return Job{state_->part(state_->communicator->split(color, key, name))};
}

Job Job::create_group(std::span<int const> ranks, std::string const& name) {
  return Job{state_->part(state_->communicator->create_group(ranks, name))};
}

std::vector<int> Job::monitored_barrier(std::chrono::milliseconds timeout) {
  return state_->communicator->monitored_barrier(timeout);
}

KeyValueStore Job::key_value_store() { return state_->communicator->key_value_store(); }

std::unique_ptr<detail::JobState> detail::JobState::part(std::unique_ptr<comm::Communicator> of_part) const {
  auto result = std::make_unique<JobState>();
  result->communicator = std::move(of_part);
  result->local_rank = local_rank;
  auto const stop = std::make_shared<std::atomic<bool>>(false);
  result->stop_requested = [stop, whole = stop_requested] { return stop->load() || whole(); };
  result->request_stop = [stop] { stop->store(true); };
  result->note_progress = note_progress;
  result->make_device = make_device;
  result->compute_stream = compute_stream;
  result->set_flight_folder = set_flight_folder;
  return result;
}

Job detail::JobState::alone() const { return Job{part(std::move(comm::make_local(1).front()))}; }

void Job::request_stop() noexcept { state_->request_stop(); }
void Job::note_progress(std::int64_t step) { state_->note_progress(step); }
void Job::compute_on(device::StreamRef stream) noexcept { state_->compute_stream = stream; }

}  // namespace zeroth
