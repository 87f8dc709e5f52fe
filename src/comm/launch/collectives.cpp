// SPDX-License-Identifier: Apache-2.0
#include "zeroth/comm/collectives.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "comm/launch/job_state.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {
namespace {

/// Messages name the program's own collectives by their labels alone.
constexpr std::string_view purpose;

std::unique_ptr<device::Device> make_device(detail::JobState const& job) {
  auto device = job.make_device();
  if (job.compute_stream) {
    device->compute_on(*job.compute_stream);
  }
  return device;
}

}  // namespace

Collectives::Collectives(Job& job, std::string const& name, comm::CommOptions const& options)
    : device_{make_device(detail::JobState::of(job))},
      communicator_{job.communicator().split(0, job.rank(), name)},
      stream_{device_->make_stream("collectives", device::Overlap::on)} {
  communicator_->set_options(options);
}

Collectives::~Collectives() = default;

Collectives::Work Collectives::start(std::span<comm::Collective const> collectives, std::string_view what) {
  std::unique_ptr<device::Event> event;
  if (events_.empty()) {
    event = device_->make_event();
    events_.reserve(events_.capacity() + 1);  // so that returning an event never allocates
  } else {
    event = std::move(events_.back());
    events_.pop_back();
  }
  device_->compute().record(*event);
  stream_->wait(*event);
  communicator_->submit(*stream_, {purpose, what}, collectives);
  stream_->record(*event);
  return Work{*this, std::move(event)};
}

Collectives::Work Collectives::start(comm::Collective const& collective, std::string_view what) {
  return start(std::span{&collective, 1}, what);
}

Collectives::Work::Work(Collectives& owner, std::unique_ptr<device::Event> event) noexcept
    : owner_{&owner}, event_{std::move(event)}, exceptions_at_start_{std::uncaught_exceptions()} {}

Collectives::Work::Work(Work&& other) noexcept = default;

Collectives::Work::~Work() {
  if (event_ == nullptr) {
    return;
  }
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    auto& communicator = *owner_->communicator_;
    communicator.abort(
        fmt::format("rank {} was ended by an exception while its collectives of communicator '{}' were "
                    "under way",
                    this_rank().rank, communicator.name()));
  }
  try {
    wait();
  } catch (std::exception const&) {  // the stream keeps the error
  }
}

void Collectives::Work::wait() {
  if (event_ == nullptr) {
    return;
  }
  auto event = std::move(event_);
  owner_->device_->compute().wait(*event);
  owner_->events_.push_back(std::move(event));
}

bool Collectives::Work::wait_for(std::chrono::milliseconds most) {
  auto const deadline = std::chrono::steady_clock::now() + most;
  while (!done() && !error()) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds{100});
  }
  wait();
  return true;
}

std::optional<std::string> Collectives::Work::error() const { return owner_->communicator_->failure(); }

bool Collectives::Work::done() const { return event_ == nullptr || event_->done(); }

}  // namespace zeroth
