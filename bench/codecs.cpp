// SPDX-License-Identifier: Apache-2.0
/// Measures what a codec computes for a reduction: one rank's encoding of all elements, and the sum of what it
/// receives. Bytes read and written per second are compared with those of a loop that reads and writes memory once, on
/// one thread.
///
///   bench_codecs [MIB of gradients, 64 [ROUNDS]]
/// prints one JSON line per codec, dtype and number of ranks.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "device/codec_loops.hpp"
#include "paired.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth {
namespace {

/// Reads and writes `count` numbers, with one addition each.
struct Stream {
  float const* from;
  float* to;
  std::int64_t count;
  ZEROTH_INLINE void operator()() const {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = from[i] + 1;
    }
  }
};

class Bench {
 public:
  Bench(std::int64_t bytes, int rounds) : bytes_{bytes}, rounds_{rounds} {
    for (auto* const buffer : {&elements_, &encoded_, &sums_}) {
      *buffer = device_->allocate(device::Category::scratch, bytes);
    }
  }

  /// A rank of `ranks` encodes its elements, and adds up as many pieces as there are ranks.
  void reduction(Codec codec, Dtype dtype, int ranks) {
    auto const blocks = bytes_ / bytes_of(dtype) / (ranks * codec_block_count);
    auto const count = blocks * ranks * codec_block_count, piece = count / ranks;
    fill(dtype, count);
    auto const sent = encoded_bytes(codec, dtype, count);
    std::vector<float> errors(static_cast<std::size_t>(codec == Codec::sign ? count : 0));
    auto const encode = [&] {
      device::encode({.codec = codec,
                      .source = elements_->data(),
                      .dtype = dtype,
                      .count = count,
                      .destination = encoded_->data(),
                      .errors = codec == Codec::sign ? errors.data() : nullptr});
    };
    auto const& received = keeps_elements(codec) ? elements_ : encoded_;
    auto const fold = [&] {
      device::fold_received({.codec = codec,
                             .received = received->data(),
                             .ranks = ranks,
                             .dtype = dtype,
                             .count = piece,
                             .output = sums_->data()});
    };
    auto const read = count * bytes_of(dtype), written = piece * bytes_of(dtype);
    auto const print = [&](char const* what, std::int64_t moved, auto const& subject) {
      Stream const stream{reinterpret_cast<float const*>(elements_->data()), reinterpret_cast<float*>(sums_->data()),
                          bytes_ / bytes_of(Dtype::fp32)};
      auto const paired = bench::compare(rounds_, subject, [&] { with_best_isa(stream); });
      double const share = static_cast<double>(moved) / static_cast<double>(2 * bytes_);
      nlohmann::ordered_json const line{
          {"benchmark", "codecs"},
          {"what", what},
          {"codec", name_of(codec)},
          {"dtype", name_of(dtype)},
          {"ranks", ranks},
          {"elements", count},
          {"sent_bytes_over_bf16", static_cast<double>(sent) / static_cast<double>(2 * count)},
          {"gb_per_s", static_cast<double>(moved) * 1e-9 / paired.subject_seconds},
          {"stream_gb_per_s", static_cast<double>(2 * bytes_) * 1e-9 / paired.yardstick_seconds},
          {"ratio", paired.ratio * share},
          {"ratio_quartiles", {paired.ratio_low * share, paired.ratio_high * share}}};
      std::cout << line.dump() << std::endl;
    };
    auto const of_errors = 2 * std::ssize(errors) * bytes_of(Dtype::fp32);
    auto const encoding = keeps_elements(codec) ? 0 : read + sent + of_errors;
    print("encode, decode and sum", encoding + sent + written, [&] {
      if (!keeps_elements(codec)) {
        encode();
      }
      fold();
    });
    if (!keeps_elements(codec)) {
      print("encode", encoding, encode);
      print("decode and sum", sent + written, fold);
    }
  }

 private:
  void fill(Dtype dtype, std::int64_t count) {
    with_element(dtype, [&]<class T>(std::type_identity<T>) {
      auto* const values = reinterpret_cast<T*>(elements_->data());
      for (std::int64_t i = 0; i < count; ++i) {
        values[i] =
            from_float<T>(static_cast<float>(static_cast<std::uint32_t>(i) * 2654435761U >> 8U) * 0x1p-24F - 0.5F);
      }
    });
  }

  std::int64_t bytes_;
  int rounds_;
  std::unique_ptr<device::Device> device_ = device::make_cpu_device();
  std::unique_ptr<device::Memory> elements_, encoded_, sums_;
};

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  CLI::App app{"Codecs of reductions over a loop that reads and writes memory"};
  std::int64_t mebibytes = 64;
  int rounds = 15;
  app.add_option("MIB", mebibytes, "of gradients")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  CLI11_PARSE(app, argc, argv);
  zeroth::Bench bench{mebibytes << 20U, rounds};
  for (auto const codec : {zeroth::Codec::exact, zeroth::Codec::int8, zeroth::Codec::int4, zeroth::Codec::sign}) {
    for (auto const dtype : {zeroth::Dtype::bf16, zeroth::Dtype::fp32}) {
      for (int const ranks : {2, 8}) {
        bench.reduction(codec, dtype, ranks);
      }
    }
  }
}
