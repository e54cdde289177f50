// Every backend against the definitions of the ops, and what holds for any of them. A backend that the build does not
// have is skipped with its reason.
#include "exec/backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "exec/backend_rows.h"
#include "exec/dropout.h"
#include "tests/support/naive_ops.h"
#include "tests/support/op_cases.h"
#include "tests/support/random_ops.h"

namespace fusion::exec {
namespace {

class BackendOps : public testing::TestWithParam<std::tuple<std::string_view, OpCase>> {};

Doubles to_doubles(const HostTensor& tensor) {
  if (tensor.dtype == DType::int64) return {tensor.integers().begin(), tensor.integers().end()};
  return {tensor.floats().begin(), tensor.floats().end()};
}

/// Within 1e-5 of the largest of the tensor.
void expect_near(const HostTensor& tensor, const Doubles& expected, const std::string& what) {
  const Doubles values = to_doubles(tensor);
  ASSERT_EQ(values.size(), expected.size()) << what;
  double largest = 1e-2;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], 1e-5 * largest) << what << ", place " << i;
}

/// What the op should answer: forward by its definition, gradients by central differences of that in double.
struct Expected {
  const LoneOp& lone;
  std::vector<Doubles> inputs, parameters, output_gradients;
  std::vector<float> mask;

  std::vector<Doubles> forward() const { return naive_forward(lone.graph, lone.op, inputs, parameters, mask); }

  /// Of sum(output gradient x output), or of the loss, scaled by one half as in `answer`.
  double objective() const {
    const std::vector<Doubles> outputs = forward();
    if (lone.part.has_loss) return outputs[0][0] / 2;
    double sum = 0;
    for (std::size_t o = 0; o < outputs.size(); ++o)
      for (std::size_t i = 0; i < outputs[o].size(); ++i) sum += outputs[o][i] * output_gradients[o][i];
    return sum;
  }

  /// (f(x + h) - f(x - h)) / 2h: an error of h^2 f''' / 6, some 1e-9, and rounding of 1e-16 f / h.
  Doubles gradient(Doubles& values) {
    constexpr double h = 1e-4;
    Doubles result;
    for (double& value : values) {
      const double at = value;
      value = at + h;
      const double above = objective();
      value = at - h;
      const double below = objective();
      value = at;
      result.push_back((above - below) / (2 * h));
    }
    return result;
  }
};

/// Draws what `answer` draws, in its order.
Expected expected_of(const LoneOp& lone, const OpCase& the_case, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Expected expected{lone, {}, {}, {}, {}};
  for (const ParameterId id : lone.part.parameters)
    expected.parameters.push_back(to_doubles(random_tensor(random, lone.graph.parameter(id).shape, DType::fp32, 0)));
  for (const auto& [id, value] : random_values(random, lone.graph, lone.part.inputs, the_case.bound))
    expected.inputs.push_back(to_doubles(value));
  for (const auto& [id, value] : random_values(random, lone.graph, lone.part.outputs))
    expected.output_gradients.push_back(to_doubles(value));
  if (the_case.kind == OpKind::dropout)
    expected.mask = dropout_mask({seed, 3}, 0, lone.op, lone.graph.op(lone.op).real("p"), expected.inputs[0].size());
  return expected;
}

const BackendRow& row_or_skip_reason(std::string_view name, std::string& reason) {
  const BackendRow& row = find_backend(name);
  const LoneOp lone = lone_op(op_cases().front());
  ParameterStore store = make_store(lone.graph, lone.part, 0);
  try {
    row.make(lone.graph, lone.part, store, {});
  } catch (const InputError& error) {
    reason = error.what();
  }
  return row;
}

TEST_P(BackendOps, AnswersItsDefinitionAndGradient) {
  const auto& [name, the_case] = GetParam();
  std::string reason;
  const BackendRow& row = row_or_skip_reason(name, reason);
  if (!reason.empty()) GTEST_SKIP() << reason;
  if (!row.has(the_case.kind)) GTEST_SKIP() << name << " does not have " << row_of(the_case.kind).name;
  const LoneOp lone = lone_op(the_case);
  for (const std::uint64_t seed : {11, 12}) {
    const OpAnswer got = answer(row, lone, the_case, seed);
    Expected expected = expected_of(lone, the_case, seed);
    const std::vector<Doubles> outputs = expected.forward();
    if (lone.part.has_loss) {
      ASSERT_TRUE(got.forward.loss.has_value());
      EXPECT_NEAR(*got.forward.loss, outputs[0][0], 1e-5 * outputs[0][0]);
    }
    for (std::size_t o = 0; o < lone.part.outputs.size(); ++o)
      expect_near(got.forward.outputs.at(lone.part.outputs[o]), outputs[o], "output");
    for (std::size_t i = 0; i < lone.part.inputs.size(); ++i) {
      const TensorId id = lone.part.inputs[i];
      ASSERT_EQ(got.input_gradients.contains(id), lone.graph.tensor(id).needs_gradient);
      if (lone.graph.tensor(id).needs_gradient)
        expect_near(got.input_gradients.at(id), expected.gradient(expected.inputs[i]), "input " + std::to_string(i));
    }
    for (std::size_t p = 0; p < lone.part.parameters.size(); ++p)
      expect_near(got.store.gradients[lone.part.parameters[p].index()], expected.gradient(expected.parameters[p]),
                  "parameter " + std::to_string(p));
  }
}

/// Within 1e-5 of the largest value of the tensor.
void expect_near(const HostTensor& a, const HostTensor& b, const std::string& what) {
  ASSERT_EQ(a.shape, b.shape) << what;
  expect_near(a, to_doubles(b), what);
}

/// Backends of one run may differ, so each has to answer as the first does.
TEST(BackendTable, EigenAnswersAsTorchOnRandomShapes) {
  std::string reason;
  const BackendRow& torch = row_or_skip_reason("torch", reason);
  if (!reason.empty()) GTEST_SKIP() << reason;
  const BackendRow& eigen = find_backend("eigen");
  RandomOps ops(29);
  for (const OpRow& row : op_table()) {
    if (row.kind == OpKind::input || row.kind == OpKind::label || !eigen.has(row.kind)) continue;
    for (std::uint64_t round = 0; round < 25; ++round) {
      const OpCase the_case = ops.next(row.kind);
      const LoneOp lone = lone_op(the_case);
      std::string what = std::string(row.name) + ", round " + std::to_string(round);
      for (const Shape& shape : the_case.inputs) what += ' ' + to_string(shape);
      const OpAnswer a = answer(eigen, lone, the_case, round), b = answer(torch, lone, the_case, round);
      for (const auto& [id, value] : b.forward.outputs) expect_near(a.forward.outputs.at(id), value, what);
      ASSERT_EQ(a.forward.loss.has_value(), b.forward.loss.has_value());
      const double loss = b.forward.loss.value_or(0);
      EXPECT_NEAR(a.forward.loss.value_or(0), loss, 1e-5 * std::abs(loss)) << what;
      for (const auto& [id, value] : b.input_gradients) expect_near(a.input_gradients.at(id), value, what);
      for (const ParameterId id : lone.part.parameters)
        expect_near(a.store.gradients[id.index()], b.store.gradients[id.index()], what);
    }
  }
}

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
  for (const BackendRow& row : backend_table()) names.push_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, BackendOps,
                         testing::Combine(testing::ValuesIn(backend_names()), testing::ValuesIn(op_cases())),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param).name;
                         });

TEST(BackendTable, EveryKindThatComputesHasACase) {
  std::set<OpKind> covered = {OpKind::input, OpKind::label};
  for (const OpCase& the_case : op_cases()) covered.insert(the_case.kind);
  for (const OpRow& row : op_table()) EXPECT_TRUE(covered.contains(row.kind)) << row.name;
}

TEST(BackendTable, UnknownNamesAreAnsweredWithTheNearest) {
  try {
    find_backend("troch");
    FAIL() << "found";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("\"torch\""), std::string::npos) << error.what();
  }
}

class AnyBackend : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    row_ = &row_or_skip_reason(GetParam(), reason_);
    if (!reason_.empty()) GTEST_SKIP() << reason_;
  }
  const BackendRow* row_ = nullptr;
  std::string reason_;
};
INSTANTIATE_TEST_SUITE_P(All, AnyBackend, testing::ValuesIn(backend_names()),
                         [](const auto& test) { return std::string(test.param); });

template <class Error, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_P(AnyBackend, HasEveryKind) {
  for (const OpRow& row : op_table()) EXPECT_TRUE(row_->has(row.kind)) << row.name;
}

TEST(BackendTable, KindsThatABackendLacksAreRefusedByOp) {
  const LoneOp lone = lone_op(op_cases().front());
  const auto no_embedding = [](OpKind kind) { return kind != OpKind::embedding; };
  const std::string message =
      message_of<InputError>([&] { require_kinds("some", no_embedding, lone.graph, lone.part); });
  EXPECT_EQ(message, "embedding: op: the backend \"some\" does not have embedding");
}

TEST_P(AnyBackend, TokensOutsideTheTableAreRefusedByOpAndValue) {
  const LoneOp lone = lone_op(op_cases().front());
  for (const std::int64_t outside : {std::int64_t{-1}, std::int64_t{7}, std::int64_t{1} << 40}) {
    ParameterStore store = make_store(lone.graph, lone.part, 0);
    const auto backend = row_->make(lone.graph, lone.part, store, {});
    HostTensor tokens = HostTensor::zeros({2, 5}, DType::int64);
    tokens.integers()[3] = outside;
    const std::string message = message_of<RuntimeFault>([&] {
      backend->forward(0, {{lone.part.inputs[0], tokens}}, {});
    });
    EXPECT_NE(message.find("op \"op\" [embedding]: " + std::to_string(outside)), std::string::npos) << message;
    EXPECT_NE(message.find("outside 0..6"), std::string::npos) << message;
  }
}

/// -100 too, which libtorch would take for "ignore this one".
TEST_P(AnyBackend, LabelsOutsideTheClassesAreRefusedByOpAndValue) {
  const OpCase the_case{"loss", OpKind::cross_entropy, {{6, 5}, {6}}, {}, 5};
  const LoneOp lone = lone_op(the_case);
  for (const std::int64_t outside : {-100, 5}) {
    ParameterStore store = make_store(lone.graph, lone.part, 0);
    const auto backend = row_->make(lone.graph, lone.part, store, {});
    Values inputs;
    for (const TensorId id : lone.part.inputs)
      inputs.emplace(id, HostTensor::zeros(lone.graph.tensor(id).shape, lone.graph.tensor(id).dtype));
    inputs.at(lone.part.inputs[1]).integers()[2] = outside;
    const std::string message = message_of<RuntimeFault>([&] { backend->forward(0, std::move(inputs), {}); });
    EXPECT_NE(message.find("[cross_entropy]: " + std::to_string(outside)), std::string::npos) << message;
  }
}

/// y = x W^T with x = 1: each backward adds its output gradient g to every element of W's row.
TEST_P(AnyBackend, SumsOfGradientsStartAgainAfterEachFold) {
  const OpCase the_case{"sum", OpKind::linear, {{1, 2}}, {{"out_features", 1}, {"bias", false}}};
  const LoneOp lone = lone_op(the_case);
  ParameterStore store = make_store(lone.graph, lone.part, 0);
  const auto backend = row_->make(lone.graph, lone.part, store, {});
  const HostTensor& folded = store.gradients[lone.part.parameters[0].index()];
  const auto pass = [&](int micro_batch, float g) {
    HostTensor x = HostTensor::zeros({1, 2}), gradient = HostTensor::zeros({1, 1});
    std::ranges::fill(x.floats(), 1.0F);
    gradient.floats()[0] = g;
    backend->forward(micro_batch, {{lone.part.inputs[0], x}}, {});
    backend->backward(micro_batch, {{lone.part.outputs[0], gradient}}, 1);
  };
  const auto sums = [&] { return std::vector<float>(folded.floats().begin(), folded.floats().end()); };
  pass(0, 1), pass(1, 2), pass(2, 4);
  backend->fold_gradients();
  EXPECT_EQ(sums(), (std::vector<float>{7, 7}));
  pass(0, 16);
  backend->fold_gradients();
  EXPECT_EQ(sums(), (std::vector<float>{16, 16}));
  backend->fold_gradients();
  EXPECT_EQ(sums(), (std::vector<float>{0, 0}));
}

/// The values may lie in other memory afterwards, as when a checkpoint was read.
TEST_P(AnyBackend, TakesOverParametersThatChanged) {
  const OpCase the_case{"new", OpKind::linear, {{1, 2}}, {{"out_features", 1}, {"bias", false}}};
  const LoneOp lone = lone_op(the_case);
  ParameterStore store = make_store(lone.graph, lone.part, 0);
  const auto backend = row_->make(lone.graph, lone.part, store, {});
  HostTensor& weight = store.values[lone.part.parameters[0].index()];
  for (const float value : {3.0F, 5.0F}) {
    HostTensor fresh = HostTensor::zeros({1, 2}), x = fresh;
    std::ranges::fill(fresh.floats(), value);
    x.floats()[1] = 1;
    weight = std::move(fresh);
    backend->parameters_changed();
    const ForwardResult result = backend->forward(static_cast<int>(value), {{lone.part.inputs[0], x}}, {});
    EXPECT_EQ(result.outputs.at(lone.part.outputs[0]).floats()[0], value);
  }
}

TEST_P(AnyBackend, RefusesADeviceThatIsNotThere) {
  const LoneOp lone = lone_op(op_cases().front());
  ParameterStore store = make_store(lone.graph, lone.part, 0);
  for (const std::string device : {"tpu", "cuda:", "cuda:x", "cuda:99"}) {
    const std::string message = message_of<InputError>(
        [&] { row_->make(lone.graph, lone.part, store, {.device = device, .recompute = false}); });
    EXPECT_NE(message.find('"' + device + '"'), std::string::npos) << message;
  }
}

TEST_P(AnyBackend, RefusesALossThatOpsRead) {
  GraphBuilder net("odd", 2);
  const TensorId x = net.linear("fc", net.input("x", {2, 3}), 4);
  const TensorId loss = net.cross_entropy("loss", x, net.label("y", {2}));
  net.unary(OpKind::relu, "after", loss);
  const Graph graph = std::move(net).finish();
  Stage stage;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) stage.ops.emplace_back(i);
  const Part part = part_of(graph, stage);
  ParameterStore store = make_store(graph, part, 0);
  EXPECT_NE(message_of<InputError>([&] { row_->make(graph, part, store, {}); }).find("odd: loss: "), std::string::npos);
}

}  // namespace
}  // namespace fusion::exec
