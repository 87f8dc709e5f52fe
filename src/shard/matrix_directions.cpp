// SPDX-License-Identifier: Apache-2.0
#include "shard/matrix_directions.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace zeroth::shard {

using comm::Operation;

namespace {

constexpr std::int64_t element_bytes = bytes_of(Dtype::bf16);

}  // namespace

MatrixDirections::MatrixDirections(Memory& memory)
    : memory_{&memory},
      rule_{&std::get<optim::Muon>(memory.request().settings.matrix_update->rule)},
      homes_{matrix_homes(memory.layout(), *rule_, memory.request().placements.optimizer, memory.request().places)},
      staged_{memory.directions()},
      home_{staged_ + homes_.staged_count * element_bytes},
      workspace_{home_ + homes_.home_count * element_bytes},
      ready_{memory.context().device->make_event()},
      arrived_{memory.context().device->make_event()} {
  for (auto const flat : memory.layout().update_order()) {
    if (memory.flat(flat).matrices) {
      flats_.push_back(flat);
    }
  }
  plan_exchange();
  prepare();
}

/// The direction of `element`, counted in the part, if this rank's optimizer has it.
std::byte* MatrixDirections::staged(HomedMatrix const& matrix, std::int64_t element) const noexcept {
  auto const index = homes_.staged[matrix.flat] + element - memory_->optimized(matrix.flat).begin;
  return staged_ + index * element_bytes;
}

/// Lists the messages between slices and homes, by matrix and then by place, as both ends have them.
void MatrixDirections::plan_exchange() {
  auto const place = memory_->place();
  auto const& places = memory_->request().places;
  for (auto const& matrix : homes_.matrices) {
    sent_count_ += matrix.elements.count();
    if (homes_.whole()) {
      auto* const data = staged(matrix, matrix.elements.begin);
      back_.push_back({.operation = Operation::broadcast,
                       .input = data,
                       .output = data,
                       .count = matrix.elements.count(),
                       .dtype = Dtype::bf16,
                       .peer = matrix.home});
      continue;
    }
    for (int of = 0; of < places.world(); ++of) {
      auto const slice =
          held(memory_->flat(matrix.flat).trainable, memory_->request().placements.optimizer, places, of);
      auto const begin = std::max(slice.begin, matrix.elements.begin);
      auto const count = std::min(slice.end, matrix.elements.end) - begin;
      if (count <= 0 || (of != place && matrix.home != place)) {
        continue;
      }
      auto* const in_home = home_ + (matrix.in_home + begin - matrix.elements.begin) * element_bytes;
      if (of == matrix.home) {
        copies_.push_back({staged(matrix, begin), in_home, count * element_bytes});
      } else if (of == place) {
        auto* const own = staged(matrix, begin);
        to_homes_.push_back({Operation::send, own, nullptr, count, Dtype::bf16, matrix.home});
        back_.push_back({Operation::receive, nullptr, own, count, Dtype::bf16, matrix.home});
      } else {
        to_homes_.push_back({Operation::receive, nullptr, in_home, count, Dtype::bf16, of});
        back_.push_back({Operation::send, in_home, nullptr, count, Dtype::bf16, of});
      }
    }
  }
  if (!homes_.whole()) {
    add_own(to_homes_);
    add_own(back_);
  }
}

/// Adds an empty message of this rank to itself, so that ranks without other messages also submit a transaction.
void MatrixDirections::add_own(std::vector<comm::Collective>& messages) const {
  messages.push_back({Operation::send, nullptr, nullptr, 0, Dtype::bf16, memory_->place()});
  messages.push_back({Operation::receive, nullptr, nullptr, 0, Dtype::bf16, memory_->place()});
}

/// Before the first step, in which peers would wait for this rank.
void MatrixDirections::prepare() {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (auto const& matrix : homes_.matrices) {
    if (matrix.home == memory_->place() && shapes.emplace(matrix.rows, matrix.columns).second) {
      memory_->kernels().prepare_orthogonalise(memory_->compute(), work_on(matrix));
    }
  }
}

/// What makes a matrix of this home orthogonal.
optim::OrthogonalArgs MatrixDirections::work_on(HomedMatrix const& matrix) const noexcept {
  auto* const data = homes_.whole() ? staged(matrix, matrix.elements.begin) : home_ + matrix.in_home * element_bytes;
  return {.matrix = reinterpret_cast<bf16*>(data),
          .rows = matrix.rows,
          .columns = matrix.columns,
          .workspace = workspace_,
          .rule = rule_,
          .scalars = &memory_->step()->scalars};
}

void MatrixDirections::compute() {
  if (flats_.empty()) {
    return;
  }
  auto& kernels = memory_->kernels();
  auto& compute = memory_->compute();
  auto const* const scalars = &memory_->step()->scalars;
  for (auto const flat : flats_) {
    device::SpanScope const span{compute, "update", memory_->flat(flat).name};
    auto const at = memory_->addresses(flat);
    kernels.direction(compute, {.gradient = at.reduced,
                                .gradient_dtype = at.reduced_dtype,
                                .momentum = reinterpret_cast<float*>(at.states.front()),
                                .direction = reinterpret_cast<bf16*>(staged_ + homes_.staged[flat] * element_bytes),
                                .count = memory_->optimized(flat).count(),
                                .rule = rule_,
                                .scalars = scalars});
  }
  for (auto const& [staged, home, bytes] : copies_) {
    kernels.copy(compute, home, staged, bytes);
  }
  if (!homes_.whole()) {
    exchange("to_homes", to_homes_);
  }
  for (auto const& matrix : homes_.matrices) {
    if (matrix.home != memory_->place()) {
      continue;
    }
    device::SpanScope const span{compute, "update", memory_->flat(matrix.flat).name};
    kernels.orthogonalise(compute, work_on(matrix));
  }
  for (auto const& [staged, home, bytes] : copies_) {
    kernels.copy(compute, staged, home, bytes);
  }
  exchange("from_homes", back_);
}

/// Every rank submits `messages`, after its work on the compute stream and before the following work there.
void MatrixDirections::exchange(std::string_view purpose, std::vector<comm::Collective> const& messages) {
  auto& among = *memory_->ranks(Lane::reduce).all();
  auto& stream = memory_->stream(Lane::reduce);
  if (among.world() == 1) {
    return;
  }
  auto const first = flats_.front();
  memory_->compute().record(*ready_);
  stream.wait(*ready_);
  among.submit(stream, {purpose, memory_->flat(first).name}, messages);
  stream.record(*arrived_);
  memory_->compute().wait(*arrived_);
  // The logs of ranks are compared, and each has other messages: it notes what they are together.
  comm::Collective const together{.operation = homes_.whole() ? Operation::broadcast : Operation::all_to_all,
                                  .count = sent_count_,
                                  .dtype = Dtype::bf16};
  memory_->note_call(purpose, first, {&together, 1}, among);
  moved_.add((homes_.whole() ? among.world() : 1) * sent_count_ * element_bytes, false);
}

void MatrixDirections::direct(FlatId flat, Range elements, optim::UpdateArgs& args) const noexcept {
  args.gradient = staged_ + (homes_.staged[flat] + elements.begin) * element_bytes;
  args.gradient_dtype = Dtype::bf16;
}

}  // namespace zeroth::shard
