// Every backend against the definitions of the ops, and what holds for any of them. A backend that the build does not
// have is skipped with its reason.
#include "exec/backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "exec/dropout.h"
#include "tests/support/naive_ops.h"
#include "tests/support/op_cases.h"

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
