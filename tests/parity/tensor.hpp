// SPDX-License-Identifier: Apache-2.0
/// Blocks of two matrices that tensor ranks divide, and a head whose columns they divide with padding: on a mesh of
/// pipeline, data and tensor ranks, with and without sequence parallelism.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "pipeline.hpp"
#include "support/synthetic.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing {

/// Row-major, in fp32.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;
  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c) : rows{r}, columns{c}, values(static_cast<std::size_t>(r * c), 0.0F) {}
  float& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  [[nodiscard]] float at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
  View<float, 2> view() { return {values.data(), {rows, columns}}; }
};

/// a w
template <class T>
Matrix times(Matrix const& a, View<T const, 2> const& w) {
  Matrix y{a.rows, w.extent(1)};
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t o = 0; o < y.columns; ++o) {
      for (std::int64_t i = 0; i < a.columns; ++i) {
        y.at(r, o) += a.at(r, i) * to_float(w.data()[i * y.columns + o]);
      }
    }
  }
  return y;
}

/// a w^T
template <class T>
Matrix times_transposed(Matrix const& a, View<T const, 2> const& w) {
  Matrix y{a.rows, w.extent(0)};
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t o = 0; o < y.columns; ++o) {
      for (std::int64_t i = 0; i < a.columns; ++i) {
        y.at(r, o) += a.at(r, i) * to_float(w.data()[o * a.columns + i]);
      }
    }
  }
  return y;
}

/// a^T d, the gradient of a matrix, and the sums of columns, the gradient of a bias.
inline std::vector<float> transposed_times(Matrix const& a, Matrix const& d) {
  Matrix g{a.columns, d.columns};
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t i = 0; i < a.columns; ++i) {
      for (std::int64_t o = 0; o < d.columns; ++o) {
        g.at(i, o) += a.at(r, i) * d.at(r, o);
      }
    }
  }
  return g.values;
}
inline std::vector<float> sums_of_columns(Matrix const& d) {
  std::vector<float> sums(static_cast<std::size_t>(d.columns), 0.0F);
  for (std::int64_t r = 0; r < d.rows; ++r) {
    for (std::int64_t c = 0; c < d.columns; ++c) {
      sums[static_cast<std::size_t>(c)] += d.at(r, c);
    }
  }
  return sums;
}

/// x + leave((u * tanh v) second) + bias, where (u, v) is enter(gain * x) first + first_bias.
struct Divided {
  static constexpr std::int64_t channels = 8, hidden = 12, rows_per_sample = 4, classes = 18;
  struct Block {
    Unit unit;
    Param<1> gain;
    Param<2> first;
    Param<1> first_bias;
    Param<2> second;
    Param<1> bias;
  };
  bool sequence, tied;
  Model model;
  std::vector<Block> blocks;
  Unit head;
  Param<2> table;

  /// `with_ties`: the last block has some parameters of the first.
  Divided(TensorPart part, bool sequence_parallel, bool with_ties = false)
      : sequence{sequence_parallel},
        tied{with_ties},
        model{9, part},
        blocks{blocks_of(part)},
        head{model.unit("head", options_of(part))},
        table{model.param(head, "table", {channels, classes}, Normal{0.4F},
                          {.cut = {{.dim = 1, .multiple = 4}}, .matrix = true})} {}

 private:
  [[nodiscard]] UnitOptions options_of(TensorPart part) const {
    return {.input_per_sample = rows_per_sample * channels / (sequence ? part.of : 1)};
  }
  [[nodiscard]] std::vector<Block> blocks_of(TensorPart part) {
    std::vector<Block> made;
    Cut const of_two{1, {hidden, hidden}};
    for (int i = 0; i < 3; ++i) {
      auto const name = "block" + std::to_string(i);
      auto const unit = model.unit(name, options_of(part));
      auto const gain = [&] {
        return model.param(unit, name + ".gain", {channels}, Uniform{0.5F, 1.5F}, {.partial = sequence});
      };
      auto const second = [&] {
        return model.param(unit, name + ".second", {hidden, channels}, Normal{0.3F},
                           {.cut = {{.dim = 0}}, .matrix = true});
      };
      bool const shares = tied && i == 2;
      made.push_back(
          {unit, shares ? of_first(unit, made.front().gain) : gain(),
           model.param(unit, name + ".first", {channels, 2 * hidden}, Normal{0.3F}, {.cut = of_two, .matrix = true}),
           model.param(unit, name + ".first_bias", {2 * hidden}, Uniform{-0.1F, 0.1F},
                       {.cut = Cut{0, of_two.sections}}),
           shares ? of_first(unit, made.front().second) : second(),
           model.param(unit, name + ".bias", {channels}, Uniform{-0.1F, 0.1F},
                       {.trainable = i != 1, .partial = sequence})});
    }
    return made;
  }
  template <std::size_t D>
  [[nodiscard]] Param<D> of_first(Unit unit, Param<D> const& param) {
    model.tie(unit, param);
    return param;
  }
};

/// The data that a stage keeps of a micro-step.
struct DividedTape {
  struct OfBlock {
    Matrix x, all, a, h;
  };
  std::vector<OfBlock> blocks;
  Matrix all, z;  // of the head
  float seed = 0;
};

/// Runs actions of a mesh. The host computes; on a GPU it reads and changes parameters and gradients by `access`, and
/// verbs work in pinned memory.
template <class T, class G>
class DividedRun {
 public:
  DividedRun(Mesh& mesh, Divided const& model, Engine<T, G>& engine, std::unique_ptr<Access> access = {})
      : mesh_{&mesh},
        model_{&model},
        engine_{&engine},
        access_{access ? std::move(access) : std::make_unique<Access>()},
        device_{mesh.tensor().make_device()},
        sent_{device_->allocate_host(rows() * Divided::channels * std::int64_t{sizeof(float)})},
        tp_{mesh.tensor(), {.sequence = model.sequence}} {}

  void step(float factor) {
    std::vector<DividedTape> tapes(static_cast<std::size_t>(engine_->in_flight()));
    for (auto work : engine_->schedule()) {
      auto& tape = tapes[static_cast<std::size_t>(work.slot())];
      if (work.phase() == Phase::forward) {
        forward(work, tape, factor);
      } else {
        backward(work, tape);
      }
    }
  }
  float evaluate(int passes) {
    auto const evaluation = engine_->evaluation(passes);
    for (auto pass : evaluation) {
      DividedTape tape;
      forward(pass, tape, 1);
    }
    return evaluation.mean_loss();
  }
  /// Writes garbage to the padding of the head's gradient.
  float garbage = 1;
  bool forgets_a_sum = false;  ///< Backward of the last block does without enter_backward().

 private:
  [[nodiscard]] std::int64_t rows() const { return engine_->micro_batch() * Divided::rows_per_sample; }

  /// A matrix of all rows, with these rows at their place.
  Matrix with_own(Matrix const& own) {
    Matrix all{rows(), own.columns};
    auto const place = tp_.own(all.view());
    std::copy(own.values.begin(), own.values.end(), place.data());
    return all;
  }
  static Matrix copy(View<float, 2> const& view) {
    Matrix copied{view.extent(0), view.extent(1)};
    std::copy(view.data(), view.data() + view.count(), copied.values.begin());
    return copied;
  }

  /// Starts a verb, in memory that every device reaches.
  template <class Verb>
  [[nodiscard]] auto start(Verb const& verb, Matrix const& all) {
    View<float, 2> const sent{reinterpret_cast<float*>(sent_->data()), {all.rows, all.columns}};
    std::copy(all.values.begin(), all.values.end(), sent.data());
    return verb(sent);
  }
  [[nodiscard]] Matrix finish(TensorParallel::Started<float> started) { return read(started.wait()); }
  [[nodiscard]] Matrix read(View<float, 2> const& view) {
    auto const* const values = access_->read(view.data(), view.count() * std::int64_t{sizeof(float)});
    return copy({static_cast<float*>(const_cast<void*>(values)), view.shape()});  // copy() does not write
  }
  [[nodiscard]] Matrix enter(Matrix const& all) {
    return finish(start([&](auto const& sent) { return tp_.enter(sent); }, all));
  }
  [[nodiscard]] Matrix leave(Matrix const& all) {
    return finish(start([&](auto const& sent) { return tp_.leave(sent); }, all));
  }
  [[nodiscard]] Matrix leave_backward(Matrix const& all) {
    return finish(start([&](auto const& sent) { return tp_.leave_backward(sent); }, all));
  }
  [[nodiscard]] auto start_enter_backward(Matrix const& all) {
    return start([&](auto const& sent) { return tp_.enter_backward(sent); }, all);
  }

  /// A parameter, until the next read.
  template <std::size_t D>
  [[nodiscard]] View<T const, D> read(View<T const, D> const& param) {
    return {static_cast<T const*>(access_->read(param.data(), param.count() * std::int64_t{sizeof(T)})), param.shape()};
  }
  template <std::size_t D>
  void add(Gradient<G, D> const& gradient, std::vector<float> const& more) {
    auto const bytes = static_cast<std::int64_t>(more.size() * sizeof(G));
    auto* const values = static_cast<G*>(access_->edit(gradient.data(), bytes));
    for (std::size_t i = 0; i < more.size(); ++i) {
      float const before = gradient.beta() == 0 ? 0 : to_float(values[i]);
      values[i] = from_float<G>(before + more[i]);
    }
    access_->commit();
  }

  template <class Pass>
  void forward(Pass& pass, DividedTape& tape, float factor) {
    Matrix all{rows(), Divided::channels};
    if (pass.first()) {
      all.values =
          batch_at<T>(pass.first_sample(), engine_->micro_batch(), Divided::rows_per_sample * Divided::channels);
    }
    auto x = copy(tp_.own(all.view()));
    if (!pass.first()) {
      x.values = rows_of(pass.input());
    }
    tape.blocks.clear();
    for (auto const unit : pass.units()) {
      if (unit.index() < model_->blocks.size()) {
        tape.blocks.push_back({x, {}, {}, {}});
        x = block_forward(model_->blocks[unit.index()], pass.forward(unit), tape.blocks.back());
      } else {
        auto const loss = head_forward(pass, unit, x, tape);
        if constexpr (std::is_void_v<decltype(pass.report_loss(loss))>) {
          pass.report_loss(loss);
        } else {
          tape.seed = pass.report_loss(loss) * factor;
        }
      }
    }
    if (!pass.last()) {
      put(x.values, pass.output());
    }
  }

  Matrix block_forward(Divided::Block const& block, Params<T> const& p, DividedTape::OfBlock& tape) {
    auto scaled = tape.x;
    auto const gain = read(p[block.gain]);
    for (std::int64_t r = 0; r < scaled.rows; ++r) {
      for (std::int64_t c = 0; c < scaled.columns; ++c) {
        scaled.at(r, c) *= to_float(gain.data()[c]);
      }
    }
    tape.all = enter(with_own(scaled));
    tape.a = times<T>(tape.all, read(p[block.first]));
    auto const first_bias = read(p[block.first_bias]);
    auto const hidden = tape.a.columns / 2;
    tape.h = Matrix{tape.a.rows, hidden};
    for (std::int64_t r = 0; r < tape.a.rows; ++r) {
      for (std::int64_t c = 0; c < tape.a.columns; ++c) {
        tape.a.at(r, c) += to_float(first_bias.data()[c]);
      }
      for (std::int64_t c = 0; c < hidden; ++c) {
        tape.h.at(r, c) = tape.a.at(r, c) * std::tanh(tape.a.at(r, hidden + c));
      }
    }
    auto result = leave(times<T>(tape.h, read(p[block.second])));
    auto const bias = read(p[block.bias]);
    for (std::int64_t r = 0; r < result.rows; ++r) {
      for (std::int64_t c = 0; c < result.columns; ++c) {
        result.at(r, c) = round_to<T>(tape.x.at(r, c) + result.at(r, c) + to_float(bias.data()[c]));
      }
    }
    return result;
  }

  /// Columns of the head that are not padding, and the place of the first one among all.
  [[nodiscard]] std::int64_t first_class() const { return tp_.index() * model_->table.shape()[1]; }
  [[nodiscard]] std::int64_t own_classes() const {
    return std::clamp(Divided::classes - first_class(), std::int64_t{0}, model_->table.shape()[1]);
  }
  [[nodiscard]] static float target(std::int64_t row, std::int64_t column) {
    return static_cast<float>((3 * row + 5 * column) % 7 - 3);
  }

  template <class Pass>
  float head_forward(Pass& pass, Unit unit, Matrix const& x, DividedTape& tape) {
    auto const p = pass.forward(unit);
    tape.all = enter(with_own(x));
    tape.z = times<T>(tape.all, read(p[model_->table]));
    double sum = 0;
    for (std::int64_t r = 0; r < rows(); ++r) {
      for (std::int64_t c = 0; c < own_classes(); ++c) {
        auto const difference = static_cast<double>(tape.z.at(r, c) - target(r, first_class() + c));
        sum += difference * difference;
      }
    }
    mesh_->tensor().sum({&sum, 1});
    return static_cast<float>(sum / static_cast<double>(rows() * Divided::classes));
  }

  template <class Work>
  void backward(Work& work, DividedTape& tape) {
    Matrix slope;
    if (!work.last()) {
      auto const received = rows_of(work.output_gradient());
      slope = Matrix{std::ssize(received) / Divided::channels, Divided::channels};
      slope.values = received;
    }
    for (auto at = work.units().size(); at-- > 0;) {
      auto const unit = work.units()[at];
      auto const p = work.backward(unit);
      slope = unit.index() < model_->blocks.size()
                  ? block_backward(model_->blocks[unit.index()], p, tape.blocks[at], slope)
                  : head_backward(p, tape);
    }
    if (!work.first()) {
      put(slope.values, work.input_gradient());
    }
  }

  template <class Guard>
  Matrix head_backward(Guard const& p, DividedTape const& tape) {
    Matrix d{tape.z.rows, tape.z.columns};
    auto const scale = 2 * tape.seed / static_cast<float>(rows() * Divided::classes);
    for (std::int64_t r = 0; r < d.rows; ++r) {
      for (std::int64_t c = 0; c < d.columns; ++c) {
        d.at(r, c) = c < own_classes() ? scale * (tape.z.at(r, c) - target(r, first_class() + c)) : garbage;
      }
    }
    add(p.grad(model_->table), transposed_times(tape.all, d));
    return rounded(finish(start_enter_backward(times_transposed<T>(d, read(p[model_->table])))));
  }

  template <class Guard>
  Matrix block_backward(Divided::Block const& block, Guard const& p, DividedTape::OfBlock const& tape,
                        Matrix const& slope) {
    auto const all = leave_backward(with_own(slope));
    auto const dh = times_transposed<T>(all, read(p[block.second]));
    Matrix da{tape.a.rows, tape.a.columns};
    auto const hidden = da.columns / 2;
    for (std::int64_t r = 0; r < da.rows; ++r) {
      for (std::int64_t c = 0; c < hidden; ++c) {
        auto const t = std::tanh(tape.a.at(r, hidden + c));
        da.at(r, c) = dh.at(r, c) * t;
        da.at(r, hidden + c) = dh.at(r, c) * tape.a.at(r, c) * (1 - t * t);
      }
    }
    auto const back = times_transposed<T>(da, read(p[block.first]));
    bool const forgets = forgets_a_sum && block.unit.index() == 2;
    auto started =
        forgets ? start([&](auto const& sent) { return tp_.leave_backward(sent); }, back) : start_enter_backward(back);
    add(p.grad(block.second), transposed_times(tape.h, all));  // between the start and the wait
    add(p.grad(block.first), transposed_times(tape.all, da));
    add(p.grad(block.first_bias), sums_of_columns(da));
    if (block.unit.index() != 1) {
      add(p.grad(block.bias), sums_of_columns(slope));
    }
    auto const result = started.wait();
    auto own = read(forgets ? tp_.own(result) : result);
    auto of_gain = own;
    auto const gain = read(p[block.gain]);
    for (std::int64_t r = 0; r < own.rows; ++r) {
      for (std::int64_t c = 0; c < own.columns; ++c) {
        of_gain.at(r, c) *= tape.x.at(r, c);
        own.at(r, c) = slope.at(r, c) + own.at(r, c) * to_float(gain.data()[c]);
      }
    }
    add(p.grad(block.gain), sums_of_columns(of_gain));
    return rounded(std::move(own));
  }

  static Matrix rounded(Matrix matrix) {
    for (float& value : matrix.values) {
      value = round_to<T>(value);
    }
    return matrix;
  }

  Mesh* mesh_;
  Divided const* model_;
  Engine<T, G>* engine_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Memory> sent_;  // used by one function at a time
  TensorParallel tp_;
};

struct DividedOptions {
  bool sequence = false;
  bool tied = false;  ///< See Divided.
  int steps = 4;
  int overflow_at_step = 0;  ///< The loss's slope is infinite at the last data place in this step.
  /// Called before the first step. Returns the number of completed steps, which is not 0 after a restore.
  std::function<int(AnyEngine&)> begin = [](AnyEngine&) { return 0; };
  std::function<void(AnyEngine&, int step)> after_step = [](AnyEngine&, int) {};
  MakeAccess access = [](device::StreamRef) { return std::make_unique<Access>(); };
};

/// A rank's training. Its parameters are joined over tensor ranks; for those that each rank has whole, they are the
/// rank's own.
inline Trained train_divided(Job& job, Config const& config, DividedOptions const& options) {
  Trained trained;
  with_precision(config, [&]<class P>(P) {
    using T = typename P::Compute;
    using G = typename P::Gradient;
    Mesh mesh{job, config};
    Divided const divided{mesh.tensor_part(), options.sequence, options.tied};
    Engine<T, G> engine{mesh, divided.model, config};
    DividedRun<T, G> run{mesh, divided, engine, options.access(engine.compute_stream())};
    bool const last_place = mesh.place().data + 1 == mesh.data().world();
    auto const first = options.begin(engine) + 1;
    for (int step = first; step <= options.steps; ++step) {
      trained.evaluations.push_back(run.evaluate(2));
      bool const overflows = step == options.overflow_at_step && last_place;
      run.step(overflows ? std::numeric_limits<float>::infinity() : 1.0F);
      trained.evaluations.push_back(engine.gradient_norm());
      trained.evaluations.push_back(engine.gradient_norm(divided.table));
      trained.evaluations.push_back(engine.gradient_norm(divided.blocks.front().gain));
      if (auto const report = engine.step()) {
        trained.reports.push_back(*report);
      }
      options.after_step(engine, step);
    }
    if (first <= options.steps) {
      trained.reports.push_back(*engine.finish());
    }
    trained.parameters = values_of(engine, divided.model);
    trained.planned = engine.planned();
    trained.peak = engine.peak();
  });
  return trained;
}

}  // namespace zeroth::testing
