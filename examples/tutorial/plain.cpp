// SPDX-License-Identifier: Apache-2.0
/// The first program of docs/tutorial.md: a training loop on Eigen, on one thread, with all states in one place.
#include <cmath>
#include <cstdio>

#include "problem.hpp"

struct Parameter {
  Matrix value, gradient, m, v;

  Parameter(int rows, int columns) : value{Matrix::Zero(rows, columns)}, gradient{value}, m{value}, v{value} {}
  void update(int step) {  // Adam (Kingma and Ba 2015), learning rate 0.001
    float const correction1 = 1 - std::pow(0.9F, static_cast<float>(step));
    float const correction2 = 1 - std::pow(0.999F, static_cast<float>(step));
    m = 0.9F * m + 0.1F * gradient;
    v = 0.999F * v + 0.001F * gradient.cwiseAbs2();
    value.array() -= 0.001F * (m.array() / correction1) / ((v.array() / correction2).sqrt() + 1e-8F);
  }
};

int main() {
  Parameter weight1{width, hidden}, bias1{1, hidden}, weight2{hidden, width}, bias2{1, width};
  for (Parameter* weight : {&weight1, &weight2}) {
    for (Eigen::Index i = 0; i < weight->value.size(); ++i) {
      weight->value.data()[i] = start(i);
    }
  }

  int const batch = 32;
  for (int step = 1; step <= steps; ++step) {
    Matrix const x = samples((step - 1) * batch, batch);
    Matrix const target = x.rowwise().reverse();

    Matrix const h = ((x * weight1.value).rowwise() + bias1.value.row(0)).array().tanh();
    Matrix d = ((h * weight2.value).rowwise() + bias2.value.row(0)) - target;
    float const loss = d.array().square().mean();

    d *= 2 / static_cast<float>(d.size());
    weight2.gradient = h.transpose() * d;
    bias2.gradient = d.colwise().sum();
    d = (d * weight2.value.transpose()).array() * (1 - h.array().square());
    weight1.gradient = x.transpose() * d;
    bias1.gradient = d.colwise().sum();

    for (Parameter* parameter : {&weight1, &bias1, &weight2, &bias2}) {
      parameter->update(step);
    }
    if (step % 50 == 0) {
      std::printf("step %d  loss %.5f\n", step, static_cast<double>(loss));
    }
  }
}
