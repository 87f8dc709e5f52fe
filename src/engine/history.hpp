/// What a rank did since the last step, so that ranks that took different paths can be told where they parted.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

enum class Verb : std::uint8_t {
  forward,
  backward,
  evaluation,
  begin_micro_step,
  begin_evaluation,
  load_weights,
  save_weights,
  learning_rate
};

/// Calls of one step, in order. Keeps its memory when it is cleared.
class History {
 public:
  /// `argument`: the unit, or the bits of the learning rate.
  void add(Verb verb, std::uint32_t argument = 0);
  void clear() noexcept;
  /// 32 bits: exact in a sum of doubles over ranks.
  [[nodiscard]] double hash() const noexcept { return hash_; }
  [[nodiscard]] std::vector<std::uint64_t> const& calls() const noexcept { return calls_; }

 private:
  std::vector<std::uint64_t> calls_;
  std::uint32_t hash_ = 2166136261U;
};

/// Collective: compares the histories of all ranks. Throws PeerError that names the first call in which they differ,
/// the units, and the ranks; does nothing if they are the same.
void compare_histories(History const& mine, std::int64_t step, model::Description const& model,
                       comm::Communicator& communicator, device::Device& device, device::Stream& stream);

}  // namespace zeroth::engine
