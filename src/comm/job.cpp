#include "zeroth/comm/job.hpp"

namespace zeroth {

int Job::rank() const noexcept { return state_->communicator->rank(); }
int Job::world() const noexcept { return state_->communicator->world(); }
int Job::local_rank() const noexcept { return state_->local_rank; }
void Job::request_stop() noexcept { state_->request_stop(); }

}  // namespace zeroth
