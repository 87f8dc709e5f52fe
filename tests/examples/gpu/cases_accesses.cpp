// SPDX-License-Identifier: Apache-2.0
/// The width of accesses of train_gpt's row kernels, and the number of times that they read a row.
#include <numeric>
#include <vector>

#include "cuda/packs.hpp"
#include "examples/gpu/numbers.hpp"
#include "gpu/bodies.hpp"

namespace gpt::gpu {
namespace {

using namespace gpt::testing;
using zeroth::bf16;
using zeroth::cuda::Accesses;
using zeroth::cuda::accesses;

constexpr std::int64_t columns = 1600;
constexpr std::int64_t packs = columns / 8;  // of a row

template <class Body>
Accesses accesses_of(Body const& body) {
  OnMachine<float> const behind{{0.0F}};
  static_cast<void>(behind.values());  // waits for earlier work
  accesses = {};
  run(body);
  static_cast<void>(behind.values());
  return accesses;
}

template <class Body>
void check_packs(Body const& body, std::int64_t expected) {
  auto const seen = accesses_of(body);
  CHECK(seen.packs == expected);
  CHECK(seen.singles == 0);
}

/// Memory for rows of zeros.
struct Zeros {
  OnMachine<bf16> memory;
  explicit Zeros(std::int64_t count, std::int64_t shift = 0)
      : memory{std::vector<bf16>(static_cast<std::size_t>(count)), shift} {}
  [[nodiscard]] bf16* data() const { return memory.data(); }
};

}  // namespace

TEST_CASE("LayerNorm reads a row once") {
  every_way();
  std::int64_t const rows = 35;
  auto const forward = [&](std::int64_t width, std::int64_t shift) {
    Zeros const x{rows * width, shift}, y{rows * width, shift}, weight{width, shift}, bias{width, shift};
    OnMachine<float> const mean{garbage<float>(rows)}, rstd{garbage<float>(rows)};
    return accesses_of(LayerNormForward<bf16>{
        {x.data(), weight.data(), bias.data(), rows, width, y.data()}, mean.data(), rstd.data()});
  };
  auto const kept = forward(columns, 0);
  CHECK(kept.packs == rows * packs * 4);  // x, weight, bias; y
  CHECK(kept.singles == 0);
  auto const wide = forward(kept_columns + 8, 0);
  CHECK(wide.packs == rows * (kept_columns / 8 + 1) * 6);  // x twice more
  CHECK(wide.singles == 0);
  auto const shifted = forward(columns, 3);
  CHECK(shifted.packs == 0);
  CHECK(shifted.singles == rows * columns * 6);

  Zeros const x{rows * columns}, dy{rows * columns}, dx{rows * columns}, weight{columns}, bias{columns};
  OnMachine<float> const mean{std::vector<float>(35)}, rstd{std::vector<float>(35)};
  check_packs(
      LayerNormAgain<bf16>{{x.data(), weight.data(), bias.data(), rows, columns, dx.data()}, mean.data(), rstd.data()},
      rows * packs * 4);
  std::int64_t const chunks = 2;
  OnMachine<float> const sums{garbage<float>(chunks * 2 * columns)};
  check_packs(LayerNormBackward<bf16>{x.data(), dy.data(), weight.data(), mean.data(), rstd.data(), rows, columns,
                                      dx.data(), sums.data()},
              rows * packs * 4 + chunks * packs * 3);  // loads of x, dy, dx, and a store of dx; for each chunk a load
                                                       // of the weight, and two stores of sums
}

TEST_CASE("sums over rows take packs") {
  every_way();
  std::int64_t const rows = 130, chunks = 3;
  Zeros const values{rows * columns}, gradient{columns};
  OnMachine<float> const sums{std::vector<float>(chunks * columns)};
  check_packs(ChunkSums<bf16>{values.data(), rows, columns, sums.data()}, (rows + chunks) * packs);
  std::int64_t const float_packs = columns / 4;
  check_packs(FoldChunks<bf16>{sums.data(), columns, chunks, columns, gradient.data(), 0}, (chunks + 1) * float_packs);
  check_packs(FoldChunks<bf16>{sums.data(), columns, chunks, columns, gradient.data(), 1}, (chunks + 2) * float_packs);
}

TEST_CASE("embeddings take packs, and leave alone what does not occur") {
  every_way();
  std::int64_t const context = 5, rows = 2 * context, vocabulary = 41, occurring = 3;
  std::vector<std::int32_t> tokens(rows), order(rows), begin(vocabulary + 1, static_cast<std::int32_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::fill(tokens.begin() + 4, tokens.end(), 1);  // 4 times token 0, 5 times 1, once 2
  tokens[9] = 2;
  begin[0] = 0;
  begin[1] = 4;
  begin[2] = 9;
  OnMachine<std::int32_t> const inputs{tokens}, places{order}, first{begin};
  Zeros const table{vocabulary * columns}, positions{context * columns}, x{rows * columns};
  check_packs(Embed<bf16>{{rows, columns}, inputs.data(), table.data(), positions.data(), context, x.data()},
              rows * packs * 3);
  check_packs(EmbedPart<bf16>{{rows, columns}, inputs.data(), table.data(), 1, 1, x.data()}, (rows + 5) * packs);
  check_packs(AddRows<bf16>{{rows, columns}, positions.data(), context, 3, x.data()}, rows * packs * 3);
  auto const backward = [&](float beta) {
    return EmbedTokensBackward<bf16, bf16>{x.data(), places.data(), first.data(), vocabulary,
                                           columns,  table.data(),  beta};
  };
  check_packs(backward(0), (rows + vocabulary) * packs);
  check_packs(backward(1), (rows + 2 * occurring) * packs);
  check_packs(EmbedPositionsBackward<bf16, bf16>{x.data(), rows, columns, context, positions.data(), 0},
              (rows + context) * packs);
}

TEST_CASE("GELU takes packs") {
  every_way();
  Zeros const x{7 * columns}, y{7 * columns};
  check_packs(Gelu<bf16>{x.data(), y.data(), 7 * columns, false}, 7 * packs * 2);
  check_packs(Gelu<bf16>{x.data(), y.data(), 7 * columns, true}, 7 * packs * 3);
}

}  // namespace gpt::gpu
