// SPDX-License-Identifier: Apache-2.0
/// Dropout (Srivastava et al. 2014): in training an element is left out with some probability, and what stays is
/// scaled so that sums stay what they are on average.
#pragma once
#include <cstdint>

#include "dropped.hpp"
#include "math.hpp"
#include "shape.hpp"

namespace gpt {

/// No mask is kept: backward, and blocks that are computed again, draw the same one once more.
template <class Device>
class Dropout {
 public:
  using Matrix = Activations<Device>;

  /// `use` is another one at every place of the model.
  Dropout(float rate, std::uint32_t use, Shape const& s)
      : rate_{rate}, use_{use}, per_sequence_{s.context * s.channels} {}

  [[nodiscard]] bool on() const { return rate_ > 0; }

  /// In place. Nothing if it is off.
  template <class Open>
  void forward(Open const& p, Matrix& x) const {
    if (on()) {
      p.device.drop_out(dropped(p, x), x, x);
    }
  }
  /// y = residual + what stays of y. It is on.
  template <class Open>
  void add(Open const& p, Matrix const& residual, Matrix& y) const {
    p.device.add_dropped_out(dropped(p, y), residual, y);
  }
  /// The gradient of what went in: `dy` itself where it is off, otherwise in `dx`, which may be the same memory.
  template <class Open>
  [[nodiscard]] Matrix const& backward(Open const& p, Matrix const& dy, Matrix& dx) const {
    if (!on()) {
      return dy;
    }
    dx.resize(dy.rows(), dy.cols());
    p.device.drop_out(dropped(p, dy), dy, dx);
    return dx;
  }
  /// The same, in `dx` where it is off, too.
  template <class Open>
  void keep_backward(Open const& p, Matrix const& dy, Matrix& dx) const {
    if (!on()) {
      p.device.copy(dy, dx);
    } else {
      static_cast<void>(backward(p, dy, dx));
    }
  }

 private:
  template <class Open>
  [[nodiscard]] Dropped dropped(Open const& p, Matrix const& x) const {
    Dropped dropped{p.random, per_sequence_, rate_};
    dropped.random.use = use_;
    if constexpr (Device::divides_layers) {
      dropped.first = p.device.first_own_row(x) * x.cols();
    }
    return dropped;
  }

  float rate_;
  std::uint32_t use_;
  std::int64_t per_sequence_;
};

}  // namespace gpt
