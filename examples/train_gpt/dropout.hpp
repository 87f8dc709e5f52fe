// SPDX-License-Identifier: Apache-2.0
/// Dropout (Srivastava et al. 2014): in training each element is dropped with some probability, and the others are
/// scaled so that sums are unchanged on average.
#pragma once
#include <cstdint>

#include "dropped.hpp"
#include "math.hpp"
#include "shape.hpp"

namespace gpt {

/// Keeps no mask: backward and recomputed blocks draw the same one again.
template <class Device>
class Dropout {
 public:
  using Matrix = Activations<Device>;

  /// `use` differs between places in the model.
  Dropout(float rate, std::uint32_t use, Shape const& s)
      : rate_{rate}, use_{use}, per_sequence_{s.context * s.channels} {}

  [[nodiscard]] bool on() const { return rate_ > 0; }

  /// Works in place. Does nothing if dropout is off.
  template <class Open>
  void forward(Open const& p, Matrix& x) const {
    if (on()) {
      p.device.drop_out(dropped(p, x), x, x);
    }
  }
  /// y = residual + y after dropout. Only if dropout is on.
  template <class Open>
  void add(Open const& p, Matrix const& residual, Matrix& y) const {
    p.device.add_dropped_out(dropped(p, y), residual, y);
  }
  /// Returns the gradient of the input: `dy` itself if dropout is off; otherwise `dx`, which may share memory with
  /// `dy`.
  template <class Open>
  [[nodiscard]] Matrix const& backward(Open const& p, Matrix const& dy, Matrix& dx) const {
    if (!on()) {
      return dy;
    }
    dx.resize(dy.rows(), dy.cols());
    p.device.drop_out(dropped(p, dy), dy, dx);
    return dx;
  }
  /// Like backward(), but always writes `dx`.
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
