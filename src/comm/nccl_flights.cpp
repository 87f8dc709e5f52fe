#include "comm/nccl_flights.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "comm/describe.hpp"
#include "device/cuda_call.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr std::size_t expected_at_a_time = 64;

/// An event that fails to answer belongs to a GPU that has failed: its device says so, and nothing comes of it here.
bool has_passed(cudaEvent_t event) noexcept {
  auto const answer = cudaEventQuery(event);
  if (answer != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
  }
  return answer == cudaSuccess;
}

}  // namespace

NcclFlights::~NcclFlights() {
  for (auto& flight : all_) {
    static_cast<void>(cudaEventDestroy(flight.begin));
    static_cast<void>(cudaEventDestroy(flight.end));
  }
}

void NcclFlights::add_one() {
  auto& flight = all_.emplace_back();
  for (auto* const event : {&flight.begin, &flight.end}) {
    if (auto const error = cudaEventCreateWithFlags(event, cudaEventDisableTiming); error != cudaSuccess) {
      throw SystemError{device::describe_call("cudaEventCreateWithFlags", gpu_, error)};
    }
  }
  free_.reserve(all_.size());  // so that releasing never allocates
  free_.push_back(&flight);
}

/// Those that have ended are used again before more are made, whether or not the watch has seen them.
NcclFlights::Flight& NcclFlights::free_one() {
  while (all_.size() < expected_at_a_time) {
    add_one();
  }
  if (free_.empty()) {
    settle(Clock::now());
  }
  if (free_.empty()) {
    add_one();
  }
  auto* const flight = free_.back();
  free_.pop_back();
  return *flight;
}

NcclFlights::Flight& NcclFlights::begin(Transaction& transaction, std::shared_ptr<device::Failure> failure,
                                        cudaStream_t stream) {
  std::lock_guard const lock{mutex_};
  Flight& flight = free_one();
  flight.transaction = &transaction;
  flight.failure = std::move(failure);
  flight.begun.reset();
  copy_name(flight.names.purpose, transaction.label.purpose);
  copy_name(flight.names.unit, transaction.label.unit);
  transaction.label = {flight.names.purpose, flight.names.unit};
  if (auto const error = cudaEventRecord(flight.begin, stream); error != cudaSuccess) {
    release(flight);
    throw SystemError{device::describe_call("cudaEventRecord", gpu_, error)};
  }
  return flight;
}

void NcclFlights::launched(Flight& flight, cudaStream_t stream) {
  std::lock_guard const lock{mutex_};
  if (auto const error = cudaEventRecord(flight.end, stream); error != cudaSuccess) {
    release(flight);
    throw SystemError{device::describe_call("cudaEventRecord", gpu_, error)};
  }
  flying_.push_back(&flight);
}

void NcclFlights::cancel(Flight& flight) noexcept {
  std::lock_guard const lock{mutex_};
  release(flight);
}

void NcclFlights::release(Flight& flight) noexcept {
  pool_.give_back(*flight.transaction);
  flight.transaction = nullptr;
  flight.failure.reset();
  flight.kept = false;
  free_.push_back(&flight);
}

/// Which have begun and ended. Under the lock.
void NcclFlights::settle(Clock::time_point now) {
  for (auto* const flight : flying_) {
    if (!flight->begun) {
      if (!has_passed(flight->begin)) {
        continue;
      }
      flight->begun = now;
      for (auto const ticket : flight->transaction->tickets) {
        recorder_.started(ticket);
      }
    }
    if (!flight->kept && has_passed(flight->end)) {
      for (auto const ticket : flight->transaction->tickets) {
        recorder_.finished(ticket);
      }
      release(*flight);
    }
  }
  std::erase_if(flying_, [](Flight const* flight) { return flight->transaction == nullptr; });
}

std::optional<NcclFlights::Late> NcclFlights::look(Clock::time_point now) {
  std::lock_guard const lock{mutex_};
  settle(now);
  auto const late = std::find_if(flying_.begin(), flying_.end(), [now](Flight const* flight) {
    return flight->begun && now - *flight->begun >= flight->transaction->timeout;
  });
  if (late == flying_.end()) {
    return std::nullopt;
  }
  (*late)->kept = true;
  return Late{(*late)->transaction, *(*late)->begun};
}

bool NcclFlights::empty() const {
  std::lock_guard const lock{mutex_};
  return flying_.empty();
}

std::string NcclFlights::describe_first() const {
  std::lock_guard const lock{mutex_};
  auto const first =
      std::find_if(flying_.begin(), flying_.end(), [](Flight const* flight) { return !has_passed(flight->end); });
  if (first == flying_.end()) {
    return {};
  }
  auto const& transaction = *(*first)->transaction;
  return fmt::format("{}, transaction {}", describe(transaction), transaction.sequence);
}

void NcclFlights::fail(std::exception_ptr const& error) noexcept {
  std::lock_guard const lock{mutex_};
  for (auto const* const flight : flying_) {
    if (!has_passed(flight->end)) {
      flight->failure->set(error);
    }
  }
}

void NcclFlights::abandon() noexcept {
  std::lock_guard const lock{mutex_};
  for (auto* const flight : flying_) {
    release(*flight);
  }
  flying_.clear();
}

}  // namespace zeroth::comm
