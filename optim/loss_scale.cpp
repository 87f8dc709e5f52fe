#include "zeroth/optim/loss_scale.hpp"

namespace zeroth::optim {
namespace {

constexpr float factor = 2;

ZEROTH_HOST_DEVICE void overflowed(LossScaleRules const& rules, LossScaleState& state) noexcept {
  if (rules.hysteresis != 1 && state.hysteresis_left != 1) {
    --state.hysteresis_left;
  } else {
    float const next = state.scale / factor;
    state.scale = next > rules.minimum ? next : rules.minimum;
  }
  state.last_overflow = state.iteration;
}

ZEROTH_HOST_DEVICE void went_well(LossScaleRules const& rules, LossScaleState& state) noexcept {
  std::int64_t const stable = state.iteration - state.last_overflow - 1;
  bool const grows = stable > 0 && stable % rules.window == 0;
  if (grows) {
    state.scale *= factor;
  }
  if (grows || rules.consecutive_hysteresis) {
    state.hysteresis_left = rules.hysteresis;
  }
}

}  // namespace

LossScaleState initial_state(LossScaleRules const& rules) noexcept {
  return {.scale = rules.initial, .hysteresis_left = rules.hysteresis};
}

void update(LossScaleRules const& rules, bool overflow, LossScaleState& state) noexcept {
  if (!rules.dynamic) {
    return;
  }
  bool const would_shrink = rules.hysteresis == 1 || state.hysteresis_left == 1;
  if (overflow && would_shrink && state.scale == rules.minimum) {
    state.exhausted = true;  // and nothing else: DeepSpeed ends here
    return;
  }
  overflow ? overflowed(rules, state) : went_well(rules, state);
  ++state.iteration;
}

}  // namespace zeroth::optim
