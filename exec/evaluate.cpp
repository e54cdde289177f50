#include "exec/evaluate.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/compress/state.h"
#include "core/compress/topk_rows.h"
#include "core/plan/codec.h"
#include "exec/data_ports.h"
#include "exec/handshake.h"

namespace fusion::exec {
namespace {

/// What the cross_entropy reads, where the classes are its last dimension.
std::optional<TensorId> logits_of(const Graph& graph) {
  const auto loss = std::ranges::find(graph.ops, OpKind::cross_entropy, &Op::kind);
  check(loss != graph.ops.end(), "a network without a loss");
  const auto last = static_cast<std::int64_t>(graph.tensor(loss->inputs[0]).shape.size()) - 1;
  const std::int64_t axis = loss->integer("axis");
  return axis == -1 || axis == last ? std::optional(loss->inputs[0]) : std::nullopt;
}

std::int64_t num_right(const HostTensor& logits, const HostTensor& labels) {
  const auto values = logits.floats();
  const auto truth = labels.integers();
  const std::size_t classes = values.size() / truth.size();
  std::int64_t right = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const auto row = values.subspan(i * classes, classes);
    right += std::ranges::max_element(row) - row.begin() == truth[i];
  }
  return right;
}

/// One stage with the values of the checkpoint.
struct Piece {
  Part part;
  ParameterStore store;
};

void take_values(Piece& piece, const Graph& graph, const Checkpoint& checkpoint) {
  for (const ParameterId p : piece.part.parameters) {
    const std::string name = "p/" + graph.parameter(p).name;
    const auto found = checkpoint.tensors.find(name);
    const auto values = piece.store.values[p.index()].floats();
    if (found == checkpoint.tensors.end() || found->second.floats().size() != values.size())
      throw InputError("checkpoint", name, "is missing, or of another size than the model's");
    std::ranges::copy(found->second.floats(), values.begin());
  }
}

/// The network with dropout that drops nothing.
Graph without_dropout(Graph graph) {
  for (Op& op : graph.ops)
    if (op.kind == OpKind::dropout)
      for (Attribute& attribute : op.attributes)
        if (attribute.name == "p") attribute.value = 0.0;
  return graph;
}

class Evaluator {
 public:
  Evaluator(const Graph& graph, const Schedule& schedule, const Checkpoint& checkpoint, const BackendRow& row,
            const EvaluateOptions& options)
      : graph_(graph), schedule_(schedule), row_(row), options_(options), logits_(logits_of(graph)) {
    for (const Stage& stage : schedule_.stages) {
      if (stage.replica > 0) break;
      Piece& piece = *pieces_.emplace_back(std::make_unique<Piece>());
      piece.part = part_of(graph_, stage);
      std::vector<TensorId>& outputs = piece.part.outputs;
      if (logits_ && std::ranges::binary_search(stage.ops, graph_.tensor(*logits_).producer) &&
          !std::ranges::binary_search(outputs, *logits_))
        outputs.insert(std::ranges::lower_bound(outputs, *logits_), *logits_);
      piece.store = make_store(graph_, piece.part, schedule_.seed);
      take_values(piece, graph_, checkpoint);
    }
  }

  void add(const Batch& batch, Evaluation& sum) {
    const DataPorts ports = ports_of(graph_);
    Values made = {{ports.input, batch.input}, {ports.label, batch.label}};
    for (std::size_t s = 0; s < pieces_.size(); ++s) {
      Piece& piece = *pieces_[s];
      Values inputs;
      for (const TensorId tensor : piece.part.inputs) inputs[tensor] = received(tensor, s, made.at(tensor));
      for (const TensorId tensor : piece.part.data) inputs[tensor] = made.at(tensor);
      // A backend keeps a micro-batch until it is differentiated; a new one, on the same values, has none.
      const auto backend = row_.make(graph_, piece.part, piece.store, options_.backend);
      ForwardResult result = backend->forward(0, std::move(inputs), {schedule_.seed, 0});
      if (result.loss) sum.loss += *result.loss;
      for (auto& [tensor, value] : result.outputs) made[tensor] = std::move(value);
    }
    if (logits_) right_ += num_right(made.at(*logits_), batch.label);
    labels_ += static_cast<std::int64_t>(batch.label.integers().size());
  }

  std::optional<double> accuracy() const {
    if (!logits_) return {};
    return static_cast<double>(right_) / static_cast<double>(labels_);
  }

 private:
  /// What stage `s` sees of a tensor that an earlier one made.
  HostTensor received(TensorId tensor, std::size_t s, const HostTensor& sent) {
    if (!options_.coded) return sent;
    const auto edge = std::ranges::find_if(
        schedule_.edges, [&](const CutEdge& each) { return each.tensor == tensor && each.to.index() == s; });
    check(edge != schedule_.edges.end(), "a stage reads what no edge brings");
    auto coding = coding_of(graph_.tensor(tensor), edge->activation);
    if (!coding) return sent;
    coding->options.feedback = false;
    HostTensor kept = sent;
    const std::uint64_t rows = topk_rows(options_.over, sent.shape);
    if (coding->method == compress::Method::topk && rows > 1) {
      const auto n = static_cast<double>(sent.floats().size());
      compress::keep_of_rows(kept.floats(), static_cast<std::uint64_t>(std::llround(coding->options.keep * n)), rows,
                             order_);
    }
    const Shape shape = coded_shape(graph_.tensor(tensor), edge->activation.kind);
    const std::string& name = graph_.tensor(tensor).name;
    const std::string at = name + '/' + std::to_string(s);
    HostTensor arrived = HostTensor::zeros(sent.shape);
    compress::encode(coding->method, name, kept.floats(), shape, coding->options, states_["send/" + at], workspace_,
                     message_);
    compress::decode(coding->method, name, message_, shape, states_["recv/" + at], workspace_, arrived.floats());
    return arrived;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const BackendRow& row_;
  const EvaluateOptions& options_;
  std::optional<TensorId> logits_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::map<std::string, compress::TensorState> states_;
  compress::CodecWorkspace workspace_;
  std::vector<std::byte> message_;
  std::vector<std::uint64_t> order_;
  std::int64_t right_ = 0, labels_ = 0;
};

}  // namespace

Evaluation evaluate(const Graph& graph, const Schedule& schedule, const Checkpoint& checkpoint, const BackendRow& row,
                    const DataSet& data, const EvaluateOptions& options) {
  const std::string model = graph.name + ' ' + network_hash(graph);
  if (checkpoint.info.model != model)
    throw InputError("checkpoint", "model", "is " + checkpoint.info.model + ", the plan's is " + model);
  const Graph exact = without_dropout(graph);
  Evaluator evaluator(exact, schedule, checkpoint, row, options);
  Evaluation result;
  result.step = checkpoint.info.step;
  for (std::int64_t m = 0; m < options.micro_batches; ++m)
    evaluator.add(batch_of(data, graph, 0, m * graph.micro_batch), result);
  result.loss /= static_cast<double>(options.micro_batches);
  result.samples = options.micro_batches * graph.micro_batch;
  result.accuracy = evaluator.accuracy();
  return result;
}

}  // namespace fusion::exec
