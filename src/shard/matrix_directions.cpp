// SPDX-License-Identifier: Apache-2.0
#include "shard/matrix_directions.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace zeroth::shard {

using comm::Operation;

namespace {

constexpr std::int64_t element_bytes = MatrixMemory::element_bytes;

}  // namespace

MatrixDirections::MatrixDirections(Memory& memory)
    : memory_{&memory},
      rule_{&std::get<optim::Muon>(memory.request().settings.matrix_update->rule)},
      homes_{matrix_homes(memory.layout(), memory.request())},
      at_{memory, homes_},
      among_{memory.ranks(Lane::reduce).over(homes_.axes)},
      own_{memory.request().places.index(homes_.axes, memory.place())},
      cuts_(memory.layout().param_count()),
      last_batch_(memory.flat_count(), 0),
      ready_{memory.context().device->make_event()} {
  for (auto const flat : memory.layout().update_order()) {
    if (memory.flat(flat).matrices) {
      flats_.push_back(flat);
    }
  }
  cut_batches();
  prepare();
}

bool MatrixDirections::computes(HomedMatrix const& matrix) const noexcept {
  return is_home(matrix) && (matrix.parts == 1 || matrix.tensor_home == memory_->request().tensor.index);
}

/// Lists the messages between slices, homes and tensor ranks, by matrix and then by rank, as both ends have them.
void MatrixDirections::cut_batches() {
  auto const limit = memory_->request().settings.reduce_bucket_count;
  for (auto const& matrix : homes_.matrices) {
    if (batches_.empty() || batches_.back().sent_count + matrix.elements.count() > limit) {
      batches_.emplace_back(*memory_->context().device);
    }
    auto& batch = batches_.back();
    batch.matrices.push_back(&matrix);
    batch.sent_count += matrix.elements.count();
    plan_pieces(matrix, batch);
    plan_parts(matrix, batch);
    last_batch_[matrix.flat] = batches_.size() - 1;
  }
  for (auto& batch : batches_) {
    if (!homes_.whole) {
      add_own(batch.to_homes);
      add_own(batch.back);
    }
  }
}

void MatrixDirections::plan_pieces(HomedMatrix const& matrix, Batch& batch) {
  if (homes_.whole) {
    auto* const data = at_.staged(matrix, matrix.elements.begin);
    batch.back.push_back({.operation = Operation::broadcast,
                          .input = data,
                          .output = data,
                          .count = matrix.elements.count(),
                          .dtype = Dtype::bf16,
                          .peer = matrix.home});
    return;
  }
  auto const& places = memory_->request().places;
  auto const& part = memory_->flat(matrix.flat).trainable;
  for (int place = 0; place < places.world(); ++place) {
    bool const has_other_copy =
        places.index(all_axes ^ homes_.axes, place) != places.index(all_axes ^ homes_.axes, memory_->place());
    auto const of = places.index(homes_.axes, place);
    auto const slice = held(part, memory_->request().placements.optimizer, places, place);
    auto const begin = std::max(slice.begin, matrix.elements.begin);
    auto const count = std::min(slice.end, matrix.elements.end) - begin;
    if (has_other_copy || count <= 0 || (of != own_ && !is_home(matrix))) {
      continue;
    }
    auto* const in_home = at_.own_part(matrix) + (begin - matrix.elements.begin) * element_bytes;
    if (of == matrix.home) {
      batch.copies.push_back({at_.staged(matrix, begin), in_home, count * element_bytes});
    } else if (of == own_) {
      auto* const own = at_.staged(matrix, begin);
      batch.to_homes.push_back({Operation::send, own, nullptr, count, Dtype::bf16, matrix.home});
      batch.back.push_back({Operation::receive, nullptr, own, count, Dtype::bf16, matrix.home});
    } else {
      batch.to_homes.push_back({Operation::receive, nullptr, in_home, count, Dtype::bf16, of});
      batch.back.push_back({Operation::send, in_home, nullptr, count, Dtype::bf16, of});
    }
  }
}

/// Within a home: parts go to the tensor rank that joins them.
void MatrixDirections::plan_parts(HomedMatrix const& matrix, Batch& batch) {
  auto const count = matrix.elements.count();
  batch.sent_parts_count += (matrix.parts - 1) * count;
  if (matrix.parts == 1 || !is_home(matrix)) {
    return;
  }
  auto const tensor = memory_->request().tensor.index;
  if (tensor != matrix.tensor_home) {
    auto* const own = at_.own_part(matrix);
    batch.to_tensor_homes.push_back({Operation::send, own, nullptr, count, Dtype::bf16, matrix.tensor_home});
    batch.back_from_them.push_back({Operation::receive, nullptr, own, count, Dtype::bf16, matrix.tensor_home});
    return;
  }
  find_cuts(matrix);
  for (int other = 0; other < matrix.parts; ++other) {
    if (other != tensor) {
      batch.to_tensor_homes.push_back(
          {Operation::receive, nullptr, at_.part(matrix, other), count, Dtype::bf16, other});
      batch.back_from_them.push_back({Operation::send, at_.part(matrix, other), nullptr, count, Dtype::bf16, other});
    }
  }
}

/// Adds an empty message of this rank to itself, so that ranks without other messages also submit a transaction.
void MatrixDirections::add_own(Messages& messages) const {
  messages.push_back({Operation::send, nullptr, nullptr, 0, Dtype::bf16, own_});
  messages.push_back({Operation::receive, nullptr, nullptr, 0, Dtype::bf16, own_});
}

/// Before the first step, in which peers would wait for this rank.
void MatrixDirections::prepare() {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (auto const& matrix : homes_.matrices) {
    if (computes(matrix) && shapes.emplace(matrix.rows, matrix.columns).second) {
      memory_->kernels().prepare_orthogonalise(memory_->compute(), work_on(matrix));
    }
  }
}

/// The arguments that make a matrix of this home orthogonal.
optim::OrthogonalArgs MatrixDirections::work_on(HomedMatrix const& matrix) const noexcept {
  return {.matrix = reinterpret_cast<bf16*>(matrix.parts > 1 ? at_.joined() : at_.own_part(matrix)),
          .rows = matrix.rows,
          .columns = matrix.columns,
          .workspace = at_.workspace(),
          .rule = rule_,
          .scalars = &memory_->step()->scalars};
}

void MatrixDirections::compute() {
  compute_directions();
  memory_->compute().record(*ready_);
  memory_->stream(Lane::reduce).wait(*ready_);
  std::ranges::for_each(batches_, [this](Batch const& batch) { send(batch); });
  std::ranges::for_each(batches_, [this](Batch const& batch) { compute(batch); });
}

void MatrixDirections::compute_directions() {
  auto& kernels = memory_->kernels();
  auto& compute = memory_->compute();
  for (auto const flat : flats_) {
    device::SpanScope const span{compute, "update", memory_->flat(flat).name};
    auto const at = memory_->addresses(flat);
    kernels.direction(compute, {.gradient = at.reduced,
                                .gradient_dtype = at.reduced_dtype,
                                .momentum = reinterpret_cast<float*>(at.states.front()),
                                .direction = reinterpret_cast<bf16*>(at_.staged(flat)),
                                .count = memory_->optimized(flat).count(),
                                .rule = rule_,
                                .scalars = &memory_->step()->scalars});
  }
  for (auto const& batch : batches_) {
    for (auto const& [staged, home, bytes] : batch.copies) {
      kernels.copy(compute, home, staged, bytes);
    }
  }
}

void MatrixDirections::send(Batch const& batch) {
  if (!homes_.whole) {
    exchange_pieces("to_homes", batch, batch.to_homes);
  }
  exchange_parts("to_tensor_homes", batch, batch.to_tensor_homes);
  memory_->stream(Lane::reduce).record(*batch.arrived);
}

void MatrixDirections::compute(Batch const& batch) {
  auto& stream = memory_->stream(Lane::reduce);
  memory_->compute().wait(*batch.arrived);
  for (auto const* const matrix : batch.matrices) {
    if (computes(*matrix)) {
      compute(*matrix);
    }
  }
  memory_->compute().record(*batch.computed);
  stream.wait(*batch.computed);
  exchange_parts("from_tensor_homes", batch, batch.back_from_them);
  for (auto const& [staged, home, bytes] : batch.copies) {
    memory_->kernels().copy(stream, staged, home, bytes);
  }
  exchange_pieces("from_homes", batch, batch.back);
  stream.record(*batch.returned);
}

void MatrixDirections::await(FlatId flat) { memory_->compute().wait(*batches_[last_batch_[flat]].returned); }

void MatrixDirections::compute(HomedMatrix const& matrix) {
  device::SpanScope const span{memory_->compute(), "update", memory_->flat(matrix.flat).name};
  if (matrix.parts > 1) {
    copy_parts(matrix, Way::to_home);
  }
  memory_->kernels().orthogonalise(memory_->compute(), work_on(matrix));
  if (matrix.parts > 1) {
    copy_parts(matrix, Way::back);
  }
}

/// Here, and not in a step, because it allocates.
void MatrixDirections::find_cuts(HomedMatrix const& matrix) {
  auto const& param = memory_->model().params[matrix.param];
  for (int index = 0; index < matrix.parts; ++index) {
    cuts_[matrix.param].emplace_back(param.name, param.part->whole_shape(), *param.options.cut,
                                     TensorPart{index, matrix.parts});
  }
}

/// Padding of parts is left alone: its direction is zero.
void MatrixDirections::copy_parts(HomedMatrix const& matrix, Way way) {
  for (int index = 0; index < matrix.parts; ++index) {
    auto const& cut = cuts_[matrix.param][static_cast<std::size_t>(index)];
    auto* const part = at_.part(matrix, index);
    cut.each_run(0, cut.count(), [&](model::CutPart::Run const& run) {
      if (run.is_padding()) {
        return;
      }
      auto* const in_part = part + run.first * element_bytes;
      auto* const in_whole = at_.joined() + run.in_whole * element_bytes;
      bool const joins = way == Way::to_home;
      memory_->kernels().copy(memory_->compute(), joins ? in_whole : in_part, joins ? in_part : in_whole,
                              run.count * element_bytes);
    });
  }
}

/// Submits `messages` on the reduce stream, if there are any. Ranks send different messages, but their logs are
/// compared, so the log has `together`, which describes all messages.
void MatrixDirections::exchange(std::string_view purpose, comm::Communicator& among, FlatId first,
                                Messages const& messages, comm::Collective const& together) {
  memory_->note_call(purpose, first, {&together, 1}, among);
  if (!messages.empty()) {
    among.submit(memory_->stream(Lane::reduce), {purpose, memory_->flat(first).name}, messages);
  }
}

void MatrixDirections::exchange_pieces(std::string_view purpose, Batch const& batch, Messages const& messages) {
  if (among_->world() > 1) {
    exchange(purpose, *among_, batch.matrices.front()->flat, messages,
             {.operation = homes_.whole ? Operation::broadcast : Operation::all_to_all,
              .count = batch.sent_count,
              .dtype = Dtype::bf16});
    moved_.add((homes_.whole ? among_->world() : 1) * batch.sent_count * element_bytes, false);
  }
}

void MatrixDirections::exchange_parts(std::string_view purpose, Batch const& batch, Messages const& messages) {
  if (batch.sent_parts_count > 0) {
    exchange(purpose, *memory_->context().tensor, batch.matrices.front()->flat, messages,
             {.operation = Operation::all_to_all, .count = batch.sent_parts_count, .dtype = Dtype::bf16});
    moved_.add(batch.sent_parts_count * element_bytes, false);
  }
}

void MatrixDirections::direct(FlatId flat, Range elements, optim::UpdateArgs& args) const noexcept {
  args.gradient = at_.staged(flat) + elements.begin * element_bytes;
  args.gradient_dtype = Dtype::bf16;
}

}  // namespace zeroth::shard
