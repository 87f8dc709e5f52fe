#include "zeroth/comm/job.hpp"

namespace zeroth {

int Job::rank() const noexcept { return state_->communicator->rank(); }
int Job::world() const noexcept { return state_->communicator->world(); }
int Job::local_rank() const noexcept { return state_->local_rank; }
void Job::request_stop() noexcept { state_->request_stop(); }
void Job::compute_on(device::StreamRef stream) noexcept { state_->compute_stream = stream; }

}  // namespace zeroth
