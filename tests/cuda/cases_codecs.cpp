// SPDX-License-Identifier: Apache-2.0
/// Codecs' kernels against the CPU's loops.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "device/codec_loops.hpp"
#include "device/cuda_launch.hpp"
#include "machine.hpp"

namespace zeroth::cuda {
namespace {

using testing::machine;
using testing::Numbers;
using testing::OnMachine;

std::vector<std::byte> garbage_of(std::int64_t bytes) {
  return std::vector<std::byte>(static_cast<std::size_t>(bytes), std::byte{0x5a});
}

template <class T>
std::vector<std::byte> encoded_on_host(Codec codec, std::vector<T> const& values) {
  auto result = garbage_of(encoded_bytes(codec, dtype_of<T>, std::ssize(values)));
  std::vector<float> errors(values.size(), 0.0F);
  device::encode({.codec = codec,
                  .source = values.data(),
                  .dtype = dtype_of<T>,
                  .count = std::ssize(values),
                  .destination = result.data(),
                  .errors = codec == Codec::sign ? errors.data() : nullptr});
  return result;
}

/// Encodes on the machine and on the CPU, which must give the same bytes and errors. Returns the errors.
template <class T>
std::vector<float> check_signs(std::vector<T> const& values, std::vector<float> errors,
                               std::vector<float> const* momentum = nullptr,
                               optim::StepScalars const* scalars = nullptr) {
  OnMachine<T> const source{values};
  OnMachine<float> const their_errors{errors}, their_momentum{momentum == nullptr ? errors : *momentum};
  OnMachine<optim::StepScalars> const their_scalars{{scalars == nullptr ? optim::StepScalars{} : *scalars}};
  auto bytes = garbage_of(encoded_bytes(Codec::sign, dtype_of<T>, std::ssize(values)));
  OnMachine<std::byte> const destination{bytes};
  device::Encode args{.codec = Codec::sign,
                      .source = source.data(),
                      .dtype = dtype_of<T>,
                      .count = std::ssize(values),
                      .destination = destination.data(),
                      .errors = their_errors.data(),
                      .momentum = momentum == nullptr ? nullptr : their_momentum.data(),
                      .momentum_factor = 0.3F,
                      .gradient_factor = 0.1F,
                      .scalars = scalars == nullptr ? nullptr : their_scalars.data()};
  CHECK(encode(machine().stream(), args) == cudaSuccess);
  args.source = values.data();
  args.destination = bytes.data();
  args.errors = errors.data();
  args.momentum = momentum == nullptr ? nullptr : momentum->data();
  args.scalars = scalars;
  device::encode(args);
  CHECK(destination.values() == bytes);
  CHECK(testing::first_difference(their_errors.values(), errors) == -1);
  return errors;
}

}  // namespace

TEMPLATE_TEST_CASE("blocks are encoded with the CPU's bits", "", float, bf16, fp16) {
  testing::every_way();
  auto const codec = GENERATE(Codec::int8, Codec::int4);
  for (std::int64_t const blocks : {0, 1, 7, 8, 9, 70}) {
    for (auto const numbers : {Numbers::ordinary, Numbers::any}) {
      INFO(blocks << " blocks");
      auto const values = testing::random_values<TestType>(blocks * codec_block_count, 3, numbers);
      OnMachine<TestType> const source{values};
      OnMachine<std::byte> const destination{garbage_of(encoded_bytes(codec, dtype_of<TestType>, std::ssize(values)))};
      CHECK(encode(machine().stream(),
                   {codec, source.data(), dtype_of<TestType>, std::ssize(values), destination.data()}) == cudaSuccess);
      CHECK(destination.values() == encoded_on_host(codec, values));
    }
  }
}

TEMPLATE_TEST_CASE("signs are encoded with the CPU's bits, and leave its errors", "", float, bf16, fp16) {
  testing::every_way();
  for (std::int64_t const blocks : {0, 1, 7, 8, 9, 70}) {
    for (auto const numbers : {Numbers::ordinary, Numbers::any}) {
      INFO(blocks << " blocks");
      auto const count = blocks * codec_block_count;
      auto values = testing::random_values<TestType>(count, 3, numbers);
      if (blocks > 1) {
        std::fill_n(values.end() - 200, 200, TestType{});  // zeros after the last element, and in a whole block
      }
      auto errors = testing::random_values<float>(count, 4, Numbers::ordinary);
      if (blocks > 1) {
        std::fill_n(errors.end() - 200, 200, 0.0F);
      }
      check_signs<TestType>(values, errors);
    }
  }
}

TEMPLATE_TEST_CASE("first moments are encoded with the CPU's bits, and a skipped step keeps its errors", "", float,
                   bf16) {
  testing::every_way();
  bool const skip = GENERATE(false, true);
  auto const count = 9 * codec_block_count;
  auto const gradient = testing::random_values<TestType>(count, 3, Numbers::ordinary);
  auto const momentum = testing::random_values<float>(count, 4, Numbers::ordinary);
  auto const before = testing::random_values<float>(count, 5, Numbers::ordinary);
  optim::StepScalars scalars;
  scalars.gradient_scale = 0.375F;
  scalars.skip = skip;
  auto const kept = check_signs<TestType>(gradient, before, &momentum, &scalars);
  CHECK((kept == before) == skip);
}

TEMPLATE_TEST_CASE("parameters are rounded with the CPU's bits", "", bf16, fp16) {
  testing::every_way();
  for (std::int64_t const blocks : {0, 1, 9, 70}) {
    for (auto const numbers : {Numbers::ordinary, Numbers::any}) {
      INFO(blocks << " blocks");
      auto values = testing::random_values<TestType>(blocks * codec_block_count, 5, numbers);
      OnMachine<TestType> const theirs{values};
      auto const count = std::ssize(values);
      CHECK(quantise(machine().stream(), {theirs.data(), dtype_of<TestType>, count}) == cudaSuccess);
      device::quantise({values.data(), dtype_of<TestType>, count});
      CHECK(testing::first_difference(theirs.values(), values) == -1);
      auto bytes = garbage_of(encoded_bytes(Codec::int8, dtype_of<TestType>, count));
      OnMachine<std::byte> const destination{bytes};
      device::Encode args{.codec = Codec::int8,
                          .source = theirs.data(),
                          .dtype = dtype_of<TestType>,
                          .count = count,
                          .destination = destination.data(),
                          .scales = BlockScales::powers_of_two};
      CHECK(encode(machine().stream(), args) == cudaSuccess);
      args.source = values.data();
      args.destination = bytes.data();
      device::encode(args);
      CHECK(destination.values() == bytes);
    }
  }
}

TEMPLATE_TEST_CASE("what ranks have sent is added up with the CPU's bits", "", float, bf16, fp16) {
  testing::every_way();
  auto const codec = GENERATE(Codec::exact, Codec::int8, Codec::int4, Codec::sign);
  auto const ranks = GENERATE(1, 2, 5);
  std::int64_t const count = 9 * codec_block_count;
  std::vector<std::byte> received;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const values = testing::random_values<TestType>(count, static_cast<std::uint32_t>(rank), Numbers::ordinary);
    auto const* const bytes = reinterpret_cast<std::byte const*>(values.data());
    auto const piece = codec == Codec::exact ? std::vector<std::byte>(bytes, bytes + values.size() * sizeof(TestType))
                                             : encoded_on_host(codec, values);
    received.insert(received.end(), piece.begin(), piece.end());
  }
  OnMachine<std::byte> const theirs{received};
  auto output = std::vector<TestType>(static_cast<std::size_t>(count));
  OnMachine<TestType> const their_output{output};
  device::FoldReceived args{.codec = codec,
                            .received = theirs.data(),
                            .ranks = ranks,
                            .dtype = dtype_of<TestType>,
                            .count = count,
                            .output = their_output.data()};
  CHECK(fold_received(machine().stream(), args) == cudaSuccess);
  args.received = received.data();
  args.output = output.data();
  device::fold_received(args);
  CHECK(testing::first_difference(their_output.values(), output) == -1);
  for (bool const accumulate : {false, true}) {
    auto sums = testing::random_values<float>(count, 99, Numbers::ordinary);
    OnMachine<float> const their_sums{sums};
    args.output = nullptr;
    args.accumulate = accumulate;
    args.received = theirs.data();
    args.sums = their_sums.data();
    CHECK(fold_received(machine().stream(), args) == cudaSuccess);
    args.received = received.data();
    args.sums = sums.data();
    device::fold_received(args);
    CHECK(testing::first_difference(their_sums.values(), sums) == -1);
  }
}

}  // namespace zeroth::cuda
