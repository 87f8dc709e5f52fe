// SPDX-License-Identifier: Apache-2.0
/// 1-bit Adam: before its freeze AdamW's bits, after it the algorithm of the paper, with errors of ranks and of slices.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/kernels.hpp"
#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/delayed.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/noise.hpp"
#include "support/sanitized.hpp"
#include "train.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::testing {
namespace {

constexpr Types types_of_signs[] = {fp32_types, bf16_types, bf16_summed_in_fp32};

std::string file_of(Types const& types, Movement const& move, char const* optimizer, char const* reduce,
                    std::string const& more = "") {
  auto text = file(types, 0, 2, reduce, move, more, optimizer);
  std::string const clipped = R"("gradient_clipping": 0.5)";
  return text.replace(text.find(clipped), clipped.size(), R"("gradient_clipping": 0)");
}

std::string one_bit(int freeze_step) {
  return fmt::format(R"("type": "OneBitAdam", "params": {{"lr": 0.01, "weight_decay": 0.1, "freeze_step": {}}})",
                     freeze_step);
}

constexpr auto const* adam = R"("type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1})";

}  // namespace

TEST_CASE("1-bit Adam: up to the freeze it is AdamW, bit for bit, and then it is not") {
  auto const types = GENERATE(from_range(std::begin(types_of_signs), std::end(types_of_signs)));
  auto const world = GENERATE(1, 2, 3);
  for (auto const* const reduce : {"every_micro_step", "last_micro_step"}) {
    INFO(fmt::format("{}, {} ranks, {}", types.name, world, reduce));
    auto const plain = train(world, file_of(types, movements[1], adam, reduce));
    CHECK(bits_of(train(world, file_of(types, movements[0], one_bit(4).c_str(), reduce))) == bits_of(plain));
    CHECK(bits_of(train(world, file_of(types, movements[0], one_bit(3).c_str(), reduce))) != bits_of(plain));
  }
}

TEST_CASE("1-bit Adam: after the freeze neither buckets nor streams change the bits, and memory is as planned") {
  auto const types = GENERATE(from_range(std::begin(types_of_signs), std::end(types_of_signs)));
  auto const world = GENERATE(1, 2, 3, 4);
  static Sample sample{11, 1};
  if (sample.leaves_out()) {
    return;
  }
  for (auto const* const reduce : {"every_micro_step", "last_micro_step"}) {
    auto const base = train(world, file_of(types, movements[1], one_bit(2).c_str(), reduce));
    REQUIRE(std::isfinite(base.reports.back().loss));
    for (auto const& move : movements) {
      INFO(fmt::format("{}, {} ranks, {}, bucket {}", types.name, world, reduce, move.bucket));
      auto const trained = train(world, file_of(types, move, one_bit(2).c_str(), reduce, R"(, "poison": true)"), {},
                                 move.overlap ? Wrap{delayed} : Wrap{});
      REQUIRE(bits_of(trained) == bits_of(base));
    }
  }
}

TEST_CASE("1-bit Adam: first moments travel in about a fourteenth of bf16's bytes, and errors are planned") {
  auto const of = [](std::string const& optimizer) {
    return train(4, file_of(bf16_types, movements[0], optimizer.c_str(), "last_micro_step"));
  };
  auto const frozen = of(one_bit(3)), plain = of(adam);
  auto const before = frozen.reports[2].reduced_bytes, after = frozen.reports[3].reduced_bytes;
  CHECK(before == plain.reports[2].reduced_bytes);
  // Elements travel twice: to the rank that sums them, and back. An all-reduce is counted once.
  CHECK(static_cast<double>(after) < 2 * 0.075 * static_cast<double>(before));
  auto const fp32_elements = plain.planned.optimizer / 12;  // a master and two moments
  CHECK(frozen.planned.optimizer - plain.planned.optimizer == fp32_elements * 4 * 5 / 4);
}

namespace {

/// A parameter as the paper's algorithm updates it, with the library's codec for messages. In fp32, in which each
/// operation is rounded as in the optimizer.
class Reference {
 public:
  Reference(int ranks, std::vector<float> weights, int freeze_step)
      : ranks_{ranks},
        freeze_step_{freeze_step},
        count_{weights.size()},
        padded_{(weights.size() + 127) / 128 * 128},
        w_{std::move(weights)},
        m_(padded_, 0.0F),
        v_(padded_, 0.0F),
        errors_(static_cast<std::size_t>(ranks), std::vector<float>(padded_, 0.0F)),
        sum_errors_(padded_, 0.0F) {}

  /// `gradients[rank]` are of that rank's mean loss.
  void step(std::vector<std::vector<float>> const& gradients) {
    ++steps_;
    auto const beta1 = 0.9, beta2 = 0.999;
    if (steps_ > freeze_step_) {
      exchange(gradients, beta1);
    } else {
      for (std::size_t i = 0; i < count_; ++i) {
        float sum = 0;
        for (auto const& of_rank : gradients) {
          sum += of_rank[i];
        }
        float const g = sum * (1 / static_cast<float>(ranks_));
        m_[i] = static_cast<float>(beta1) * m_[i] + static_cast<float>(1 - beta1) * g;
        v_[i] = static_cast<float>(beta2) * v_[i] + static_cast<float>(1 - beta2) * (g * g);
      }
    }
    auto const correction = [](double beta, int t) { return 1 - std::pow(beta, t); };
    auto const step = 0.01F / static_cast<float>(correction(beta1, steps_));
    auto const root = static_cast<float>(std::sqrt(correction(beta2, std::min(steps_, freeze_step_))));
    for (std::size_t i = 0; i < count_; ++i) {
      m_[i] = steps_ > freeze_step_ && v_[i] == 0 ? 0.0F : m_[i];
      w_[i] -= step * (m_[i] / (std::sqrt(v_[i]) * (1.0F / root) + 1e-8F)) + 0.0F * w_[i];
    }
  }
  [[nodiscard]] std::vector<float> const& weights() const { return w_; }

 private:
  void exchange(std::vector<std::vector<float>> const& gradients, double beta1) {
    std::vector<std::byte> sent;
    for (std::size_t rank = 0; rank < gradients.size(); ++rank) {
      std::vector<float> moment(padded_, 0.0F);
      for (std::size_t i = 0; i < count_; ++i) {
        float const own = 1 / static_cast<float>(ranks_) * gradients[rank][i];
        moment[i] = static_cast<float>(beta1 / ranks_) * m_[i] + static_cast<float>(1 - beta1) * own;
      }
      auto const bytes = encoded(moment, errors_[rank]);
      sent.insert(sent.end(), bytes.begin(), bytes.end());
    }
    auto const sum = decoded(sent, ranks_);
    m_ = decoded(encoded(sum, sum_errors_), 1);
  }
  std::vector<std::byte> encoded(std::vector<float> const& values, std::vector<float>& errors) {
    std::vector<std::byte> bytes(values.size() / 128 * 18);
    device_->kernels().encode(*stream_, {.codec = Codec::sign,
                                         .source = values.data(),
                                         .dtype = Dtype::fp32,
                                         .count = std::ssize(values),
                                         .destination = bytes.data(),
                                         .errors = errors.data()});
    stream_->synchronize();
    return bytes;
  }
  std::vector<float> decoded(std::vector<std::byte> const& bytes, int ranks) {
    std::vector<float> values(padded_);
    device_->kernels().fold_received(*stream_, {.codec = Codec::sign,
                                                .received = bytes.data(),
                                                .ranks = ranks,
                                                .dtype = Dtype::fp32,
                                                .count = std::ssize(values),
                                                .output = values.data()});
    stream_->synchronize();
    return values;
  }

  int ranks_, freeze_step_, steps_ = 0;
  std::size_t count_, padded_;
  std::vector<float> w_, m_, v_;
  std::vector<std::vector<float>> errors_;
  std::vector<float> sum_errors_;
  std::unique_ptr<device::Device> device_ = device::make_cpu_device();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream("reference", device::Overlap::off);
};

constexpr std::array<std::int64_t, 3> counts{300, 128 * 7, 5};

/// The gradient of a rank's mean loss. That of the last parameter is always zero.
std::vector<float> gradient_of(int rank, int step, std::size_t param) {
  std::vector<float> gradient(static_cast<std::size_t>(counts[param]), 0.0F);
  for (std::size_t i = 0; param + 1 < counts.size() && i < gradient.size(); ++i) {
    gradient[i] = noise(100 * rank + step, static_cast<std::int64_t>(10'000 * param + i));
  }
  return gradient;
}

}  // namespace

TEST_CASE("1-bit Adam: it is the paper's algorithm, and what has no gradient before the freeze stays exactly") {
  constexpr int steps = 12, freeze_step = 5;
  auto const config = Config::from_json(
      R"({"optimizer": {"type": "OneBitAdam", "params": {"lr": 0.01, "freeze_step": 5}}, "train_micro_batch_size_per_gpu": 1})");
  for (int const world : {1, 2, 4}) {  // powers of two: means are exact
    INFO(fmt::format("{} ranks", world));
    std::vector<std::vector<float>> read(counts.size());
    auto const outcome = run_job(world, [&](Job& job) {
      Model model{3};
      auto const unit = model.unit("u");
      std::vector<Param<1>> params;
      for (auto const count : counts) {
        params.push_back(model.param(unit, fmt::format("p{}", params.size()), {count}, Constant{0.5F}));
      }
      Engine<float> engine{job, model, config};
      for (int step = 0; step < steps; ++step) {
        for (auto micro : engine.micro_steps()) {
          static_cast<void>(micro.forward(unit));
          auto const seed = micro.report_loss(1.0F);
          auto const pass = micro.backward(unit);
          for (std::size_t p = 0; p < params.size(); ++p) {
            auto const fresh = gradient_of(job.rank(), step, p);
            auto const gradient = pass.grad(params[p]);
            for (std::size_t i = 0; i < fresh.size(); ++i) {
              gradient.data()[i] = seed * fresh[i];
            }
          }
        }
        static_cast<void>(engine.step());
      }
      static_cast<void>(engine.finish());
      for (std::size_t p = 0; p < params.size(); ++p) {
        std::vector<float> values(static_cast<std::size_t>(counts[p]));
        engine.read(params[p], values);
        if (job.rank() == 0) {
          read[p] = values;
        }
      }
    });
    REQUIRE(messages_of(outcome) == "");
    for (std::size_t p = 0; p < counts.size(); ++p) {
      Reference reference{world, std::vector<float>(static_cast<std::size_t>(counts[p]), 0.5F), freeze_step};
      for (int step = 0; step < steps; ++step) {
        std::vector<std::vector<float>> gradients;
        for (int rank = 0; rank < world; ++rank) {
          gradients.push_back(gradient_of(rank, step, p));
        }
        reference.step(gradients);
      }
      CHECK(read[p] == reference.weights());
    }
    CHECK(std::ranges::all_of(read.back(), [](float value) { return value == 0.5F; }));
  }
}

}  // namespace zeroth::testing
