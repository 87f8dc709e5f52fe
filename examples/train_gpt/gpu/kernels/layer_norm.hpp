// SPDX-License-Identifier: Apache-2.0
/// LayerNorm. Rows of up to `kept_columns` are read once; longer ones are read again when needed.
#pragma once
#include <cmath>
#include <concepts>

#include "gpu/kernels/columns.hpp"

namespace gpt::gpu {

using zeroth::cuda::PerThread;
using zeroth::cuda::warp_threads;

inline constexpr int kept_columns = 2048;

struct Plus {
  ZEROTH_DEVICE float operator()(float a, float b) const { return a + b; }
};

/// Calls `group(first_row)` for the block's groups of rows, with one row per warp.
template <int warps, class Block, class F>
ZEROTH_DEVICE void each_row_group(Block& block, std::int64_t rows, F const& group) {
  for (std::int64_t first = block.index() * warps; first < rows; first += block.count() * warps) {
    group(first);
  }
}

/// Common parts of forward and of its recomputation: a warp has a row.
template <Element T>
struct LayerNormRows {
  static constexpr int threads = 128, warps = threads / warp_threads;
  static constexpr int resident_blocks = sizeof(T) == 2 ? 7 : 5;  // as many as have registers for their rows
  using Part = RowPart<T, warp_threads, kept_columns>;
  static constexpr int pack = Part::pack;

  T const *x, *weight, *bias;
  std::int64_t rows, columns;
  T* y;

  [[nodiscard]] std::int64_t work() const { return (rows + warps - 1) / warps; }

  /// Calls `function(access, first_row)` for each group of rows.
  template <class Block, class F>
  ZEROTH_DEVICE void each_group(Block& block, F const& function) const {
    auto const groups = [&](auto const& access) {
      each_row_group<warps>(block, rows, [&](std::int64_t first) { function(access, first); });
    };
    with_row_packs<pack, kept_columns>(columns, groups, x, weight, bias, y);
  }
  /// Calls `function` on each thread alone, with its warp's row of the group. A warp without a row leaves its values
  /// unspecified.
  template <class Block, class F>
  ZEROTH_DEVICE void each(Block& block, std::int64_t first, F const& function) const {
    block.alone([&](int thread) {
      std::int64_t const row = first + thread / warp_threads;
      if (row < rows) {
        function(thread, row);
      }
    });
  }
  template <class Access>
  ZEROTH_DEVICE void write(Access const& access, Part const& part, int thread, std::int64_t row, float mean,
                           float rstd) const {
    part.each(access, x + row * columns, thread % warp_threads, [&](std::int64_t c, Pack<T, pack> const& in) {
      auto const scale = access.read(weight, c);
      auto const shift = access.read(bias, c);
      Pack<float, pack> out;
      for (int k = 0; k < pack; ++k) {
        float const normal = (float_of(in.at[k]) - mean) * rstd;
        out.at[k] = normal * float_of(scale.at[k]) + float_of(shift.at[k]);
      }
      access.write(y + row * columns, c, from_floats<T>(out));
    });
  }
};

template <Element T>
struct LayerNormForward : LayerNormRows<T> {
  using Base = LayerNormRows<T>;
  using Base::columns, Base::pack, Base::x;
  static constexpr float epsilon = 1e-5F;
  struct Shared {};

  float *mean, *rstd;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    this->each_group(block, [&](auto const& access, std::int64_t first) {
      PerThread<typename Base::Part, Block> part;
      PerThread<float, Block> sum;
      PerThread<float, Block> middle;
      this->each(block, first, [&](int thread, std::int64_t row) {
        int const lane = thread % warp_threads;
        part[thread].read(access, x + row * columns, lane);
        sum[thread] = 0;
        part[thread].each(access, x + row * columns, lane, [&](std::int64_t /*c*/, Pack<T, pack> const& in) {
          for (int k = 0; k < pack; ++k) {
            sum[thread] += float_of(in.at[k]);
          }
        });
      });
      block.fold_warps(sum, Plus{});
      this->each(block, first, [&](int thread, std::int64_t row) {
        int const lane = thread % warp_threads;
        middle[thread] = sum[thread] / static_cast<float>(columns);
        sum[thread] = 0;
        part[thread].each(access, x + row * columns, lane, [&](std::int64_t c, Pack<T, pack> const& in) {
          for (int k = 0; k < pack && access.has(c + k); ++k) {
            float const difference = float_of(in.at[k]) - middle[thread];
            sum[thread] += difference * difference;
          }
        });
      });
      block.fold_warps(sum, Plus{});
      this->each(block, first, [&](int thread, std::int64_t row) {
        float const scale = 1 / std::sqrt(sum[thread] / static_cast<float>(columns) + epsilon);
        this->write(access, part[thread], thread, row, middle[thread], scale);
        if (thread % warp_threads == 0) {
          mean[row] = middle[thread];
          rstd[row] = scale;
        }
      });
    });
  }
};

/// Recomputes the output with the same bits from the statistics that forward kept.
template <Element T>
struct LayerNormAgain : LayerNormRows<T> {
  using Base = LayerNormRows<T>;
  struct Shared {};

  float const *mean, *rstd;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    this->each_group(block, [&](auto const& access, std::int64_t first) {
      this->each(block, first, [&](int thread, std::int64_t row) {
        typename Base::Part part;
        part.read(access, this->x + row * this->columns, thread % warp_threads);
        this->write(access, part, thread, row, mean[row], rstd[row]);
      });
    });
  }
};

/// Adds to `dx`, and computes the gradients of weight and bias as sums over chunks of rows. A block has a chunk, and
/// takes a few rows at a time; its threads share the columns.
template <Element T>
struct LayerNormBackward {
  static constexpr int threads = 128, warps = threads / warp_threads;
  static constexpr int resident_blocks = std::same_as<T, zeroth::bf16> ? 4 : 2;  // also limited by registers for rows
  static constexpr int rows_of_a_chunk = 32, rows_at_once = 2;
  using Part = RowPart<T, threads, kept_columns>;
  static constexpr int pack = Part::pack;
  /// Sums or means over a row of dnormal and of dnormal * normal.
  struct Along {
    float ones, normal;
  };
  struct Shared {
    Along sums[rows_at_once][warps];
  };

  T const *x, *dy, *weight;
  float const *mean, *rstd;
  std::int64_t rows, columns;
  T* dx;
  float* sums;  // [chunks, 2, columns]: of weight, of bias

  [[nodiscard]] ZEROTH_HOST_DEVICE static std::int64_t chunks_of(std::int64_t rows) {
    return (rows + rows_of_a_chunk - 1) / rows_of_a_chunk;
  }
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t work() const { return chunks_of(rows); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    auto const add = [&](auto const& access) {
      for (std::int64_t chunk = block.index(); chunk < work(); chunk += block.count()) {
        std::int64_t const begin = chunk * rows_of_a_chunk;
        int const there = begin + rows_of_a_chunk < rows ? rows_of_a_chunk : static_cast<int>(rows - begin);
        PerThread<Columns, Block> mine;
        block.alone([&](int thread) { start(access, mine[thread], thread, chunk); });
        for (int first = 0; first < there; first += rows_at_once) {
          int const count = first + rows_at_once < there ? rows_at_once : there - first;
          add_rows(access, block, shared, mine, chunk, begin + first, count);
        }
        block.alone([&](int thread) { finish(access, mine[thread], thread, chunk); });
      }
    };
    with_row_packs<pack, kept_columns>(columns, add, x, dy, weight, dx, sums);
  }

 private:
  using Floats = Pack<float, pack>;
  using Packed = Pack<T, pack>;

  /// A thread's sums for its columns, over all rows.
  struct Columns {
    Part weight;
    Floats dweight[Part::kept_count], dbias[Part::kept_count];
  };
  /// A thread's part of one row.
  struct Row {
    Part x, dy, dx;
    float mean, rstd;
  };

  [[nodiscard]] ZEROTH_DEVICE float* sums_of(std::int64_t chunk, int which) const {
    return sums + (chunk * 2 + which) * columns;
  }

  template <Way way>
  ZEROTH_DEVICE void start(RowPacks<pack, way> const& access, Columns& mine, int thread, std::int64_t chunk) const {
    if constexpr (way == Way::kept) {
      mine.weight.read(access, weight, thread);
      Part::each_kept(access, thread, [&](int k, std::int64_t /*c*/) { mine.dweight[k] = mine.dbias[k] = {}; });
    } else {
      Part::each_column(access, thread, [&](std::int64_t c) {
        access.write(sums_of(chunk, 0), c, Floats{});
        access.write(sums_of(chunk, 1), c, Floats{});
      });
    }
  }
  template <Way way>
  ZEROTH_DEVICE void finish(RowPacks<pack, way> const& access, Columns const& mine, int thread,
                            std::int64_t chunk) const {
    if constexpr (way == Way::kept) {
      Part::each_kept(access, thread, [&](int k, std::int64_t c) {
        access.write(sums_of(chunk, 0), c, mine.dweight[k]);
        access.write(sums_of(chunk, 1), c, mine.dbias[k]);
      });
    }
  }

  /// Adds `count` rows from `first` on.
  template <class Access, class Block>
  ZEROTH_DEVICE void add_rows(Access const& access, Block& block, Shared& shared, PerThread<Columns, Block>& mine,
                              std::int64_t chunk, std::int64_t first, int count) const {
    PerThread<Row, Block> row[rows_at_once];
    PerThread<float, Block> ones[rows_at_once], normal[rows_at_once];
    auto const each_row = [&](auto const& function) {
      ZEROTH_UNROLL
      for (int r = 0; r < rows_at_once; ++r) {
        if (r < count) {
          function(r);
        }
      }
    };
    block.alone([&](int thread) {
      each_row([&](int r) { read(access, row[r][thread], thread, first + r); });
      each_row([&](int r) {
        Along const sums_of_row = add_row(access, mine[thread], row[r][thread], thread, chunk, first + r);
        ones[r][thread] = sums_of_row.ones;
        normal[r][thread] = sums_of_row.normal;
      });
    });
    ZEROTH_UNROLL
    for (int r = 0; r < rows_at_once; ++r) {
      block.fold_warps(ones[r], Plus{});
      block.fold_warps(normal[r], Plus{});
    }
    block.phase([&](int thread) {
      if (thread % warp_threads == 0) {
        each_row([&](int r) { shared.sums[r][thread / warp_threads] = {ones[r][thread], normal[r][thread]}; });
      }
    });
    block.phase([&](int thread) {
      each_row([&](int r) {
        Along means{};
        for (Along const& sums_of_warp : shared.sums[r]) {
          means.ones += sums_of_warp.ones;
          means.normal += sums_of_warp.normal;
        }
        means.ones /= static_cast<float>(columns);
        means.normal /= static_cast<float>(columns);
        change(access, mine[thread], row[r][thread], thread, first + r, means);
      });
    });
  }

  template <class Access>
  ZEROTH_DEVICE void read(Access const& access, Row& row, int thread, std::int64_t at) const {
    row.x.read(access, x + at * columns, thread);
    row.dy.read(access, dy + at * columns, thread);
    row.dx.read(access, dx + at * columns, thread);
    row.mean = mean[at];
    row.rstd = rstd[at];
  }

  /// Adds a row to the gradients of weight and bias, and returns its sums.
  template <Way way>
  [[nodiscard]] ZEROTH_DEVICE Along add_row(RowPacks<pack, way> const& access, Columns& mine, Row const& row,
                                            int thread, std::int64_t chunk, std::int64_t at) const {
    Along sums_of_row{};
    auto const add = [&](Packed const& x_pack, Packed const& dy_pack, Packed const& scale, Floats& dweight,
                         Floats& dbias) {
      for (int k = 0; k < pack; ++k) {
        float const normal = (float_of(x_pack.at[k]) - row.mean) * row.rstd;
        float const d = float_of(dy_pack.at[k]);
        float const dnormal = d * float_of(scale.at[k]);
        sums_of_row.ones += dnormal;
        sums_of_row.normal += dnormal * normal;
        dweight.at[k] += d * normal;
        dbias.at[k] += d;
      }
    };
    if constexpr (way == Way::kept) {
      Part::each_kept(access, thread, [&](int k, std::int64_t /*c*/) {
        add(row.x.kept[k], row.dy.kept[k], mine.weight.kept[k], mine.dweight[k], mine.dbias[k]);
      });
    } else {
      Part::each_column(access, thread, [&](std::int64_t c) {
        auto dweight = access.read(sums_of(chunk, 0), c);
        auto dbias = access.read(sums_of(chunk, 1), c);
        add(access.read(x + at * columns, c), access.read(dy + at * columns, c), access.read(weight, c), dweight,
            dbias);
        access.write(sums_of(chunk, 0), c, dweight);
        access.write(sums_of(chunk, 1), c, dbias);
      });
    }
    return sums_of_row;
  }

  template <Way way>
  ZEROTH_DEVICE void change(RowPacks<pack, way> const& access, Columns const& mine, Row const& row, int thread,
                            std::int64_t at, Along const& means) const {
    auto const write = [&](std::int64_t c, Packed const& x_pack, Packed const& dy_pack, Packed const& scale,
                           Packed const& before) {
      Floats after;
      for (int k = 0; k < pack; ++k) {
        float const normal = (float_of(x_pack.at[k]) - row.mean) * row.rstd;
        float const dnormal = float_of(dy_pack.at[k]) * float_of(scale.at[k]);
        after.at[k] = float_of(before.at[k]) + (dnormal - means.ones - normal * means.normal) * row.rstd;
      }
      access.write(dx + at * columns, c, from_floats<T>(after));
    };
    if constexpr (way == Way::kept) {
      Part::each_kept(access, thread, [&](int k, std::int64_t c) {
        write(c, row.x.kept[k], row.dy.kept[k], mine.weight.kept[k], row.dx.kept[k]);
      });
    } else {
      Part::each_column(access, thread, [&](std::int64_t c) {
        write(c, access.read(x + at * columns, c), access.read(dy + at * columns, c), access.read(weight, c),
              access.read(dx + at * columns, c));
      });
    }
  }
};

}  // namespace gpt::gpu
