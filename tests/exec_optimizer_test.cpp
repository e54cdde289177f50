// Optimizers and initial values: steps a person can take by hand, a naive model in double, and the same bits
// everywhere.
#include "exec/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "core/graph/builder.h"
#include "exec/initialize.h"

namespace fusion::exec {
namespace {

using testing::Each;

/// One parameter of one element through some gradients.
float walk(const OptimizerSettings& settings, const std::vector<float>& gradients, float scale = 1) {
  float parameter = 1;
  OptimizerState state = fresh_state(settings.kind, 1);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    update(settings, static_cast<std::int64_t>(i) + 1, scale, {&parameter, 1}, {&gradients[i], 1}, state);
  return parameter;
}

TEST(Optimizer, SgdByHand) {
  OptimizerSettings settings{.kind = Optimizer::sgd, .learning_rate = 0.1};
  EXPECT_FLOAT_EQ(walk(settings, {0.5F}), 0.95F);         // 1 - 0.1 x 0.5
  EXPECT_FLOAT_EQ(walk(settings, {0.5F}, 0.5F), 0.975F);  // 1 - 0.1 x 0.25
  EXPECT_FLOAT_EQ(walk(settings, {0.5F, -1.0F}), 1.05F);
  settings.weight_decay = 0.1;
  EXPECT_FLOAT_EQ(walk(settings, {0.5F}), 0.94F);  // 1 - 0.1 x (0.5 + 0.1 x 1)
}

TEST(Optimizer, MomentumByHand) {
  OptimizerSettings settings{.kind = Optimizer::momentum, .learning_rate = 0.1};
  EXPECT_FLOAT_EQ(walk(settings, {0.5F}), 0.95F);         // the first velocity is the gradient
  EXPECT_FLOAT_EQ(walk(settings, {0.5F, 0.5F}), 0.855F);  // v = 0.9 x 0.5 + 0.5 = 0.95; 0.95 - 0.095
  settings.weight_decay = 0.1;
  EXPECT_FLOAT_EQ(walk(settings, {0.5F}), 0.94F);
  // v = 0.9 x 0.6 + 0.5 + 0.1 x 0.94 = 1.134; 0.94 - 0.1134
  EXPECT_FLOAT_EQ(walk(settings, {0.5F, 0.5F}), 0.8266F);
}

TEST(Optimizer, AdamByHand) {
  OptimizerSettings settings{.kind = Optimizer::adam, .learning_rate = 0.1};
  // Bias correction makes the first step the learning rate, whatever the gradient: m = g, v = g^2.
  for (const float gradient : {1e-3F, 0.5F, 1e6F}) EXPECT_NEAR(walk(settings, {gradient}), 0.9, 2e-6) << gradient;
  EXPECT_NEAR(walk(settings, {-0.5F}), 1.1, 2e-6);
  // m = 0.9 x 0.05 - 0.1 x 0.25 = 0.02, corrected by 1 - 0.81 = 0.19: 0.1052632
  // v = 0.999 x 0.00025 + 0.001 x 0.0625 = 0.00031225, corrected by 1 - 0.998001 = 0.001999: 0.1562031, root 0.3952254
  // 0.9 - 0.1 x 0.1052632 / 0.3952254 = 0.8733663
  EXPECT_NEAR(walk(settings, {0.5F, -0.25F}), 0.8733663, 2e-6);
  settings.weight_decay = 0.5;  // decoupled: 1 x (1 - 0.1 x 0.5) - 0.1
  EXPECT_NEAR(walk(settings, {0.5F}), 0.85, 2e-6);
}

TEST(Optimizer, AdamWithoutGradientsStaysWhereItIs) {
  EXPECT_EQ(walk({.kind = Optimizer::adam, .learning_rate = 0.1}, {0, 0, 0}), 1);
}

/// PyTorch's documented algorithms for one element, in double, with the bias-corrected moments written out.
struct NaiveModel {
  OptimizerSettings s;
  double p, first = 0, second = 0;
  int step = 0;
  void take(double g) {
    ++step;
    if (s.kind != Optimizer::adam) g += s.weight_decay * p;
    if (s.kind == Optimizer::sgd) p -= s.learning_rate * g;
    if (s.kind == Optimizer::momentum) p -= s.learning_rate * (first = s.momentum * first + g);
    if (s.kind != Optimizer::adam) return;
    p -= s.learning_rate * s.weight_decay * p;
    first = s.beta1 * first + (1 - s.beta1) * g;
    second = s.beta2 * second + (1 - s.beta2) * g * g;
    const double m = first / (1 - std::pow(s.beta1, step)), v = second / (1 - std::pow(s.beta2, step));
    p -= s.learning_rate * m / (std::sqrt(v) + s.epsilon);
  }
};

TEST(Optimizer, FollowsANaiveModelOverManySteps) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  for (const Optimizer kind : {Optimizer::sgd, Optimizer::momentum, Optimizer::adam})
    for (const double decay : {0.0, 0.05}) {
      const OptimizerSettings settings{.kind = kind, .learning_rate = 0.01, .weight_decay = decay};
      std::vector<float> parameter(33), gradient(33);
      std::vector<NaiveModel> naive;
      for (float& p : parameter) naive.push_back({settings, p = normal(random)});
      OptimizerState state = fresh_state(kind, parameter.size());
      for (int step = 1; step <= 200; ++step) {
        for (std::size_t i = 0; i < gradient.size(); ++i) naive[i].take(gradient[i] = normal(random));
        update(settings, step, 1, parameter, gradient, state);
      }
      for (std::size_t i = 0; i < parameter.size(); ++i) EXPECT_NEAR(parameter[i], naive[i].p, 2e-5) << i;
    }
}

TEST(Optimizer, APieceOfAParameterGetsTheSameBitsAsTheWhole) {
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal;
  for (const Optimizer kind : {Optimizer::sgd, Optimizer::momentum, Optimizer::adam}) {
    const OptimizerSettings settings{.kind = kind, .weight_decay = 0.01};
    std::vector<float> whole(101), gradient(101);
    for (float& p : whole) p = normal(random);
    std::vector<float> pieces = whole;
    OptimizerState state = fresh_state(kind, 101), left = fresh_state(kind, 37), right = fresh_state(kind, 64);
    for (int step = 1; step <= 5; ++step) {
      for (float& g : gradient) g = normal(random);
      const std::span<const float> g(gradient);
      const std::span<float> p(pieces);
      update(settings, step, 0.3F, whole, gradient, state);
      update(settings, step, 0.3F, p.first(37), g.first(37), left);
      update(settings, step, 0.3F, p.subspan(37), g.subspan(37), right);
    }
    EXPECT_EQ(whole, pieces);
  }
}

TEST(Optimizer, StateOfAnotherKindOrSizeIsRefused) {
  float parameter = 1;
  const float gradient = 1;
  for (const Optimizer kind : {Optimizer::sgd, Optimizer::momentum, Optimizer::adam}) {
    const OptimizerSettings settings{.kind = kind};
    OptimizerState state = fresh_state(kind, 2);
    if (kind != Optimizer::sgd) {  // which has no state to be of the wrong size
      EXPECT_THROW(update(settings, 1, 1, {&parameter, 1}, {&gradient, 1}, state), std::logic_error);
    }
    state = fresh_state(kind == Optimizer::adam ? Optimizer::momentum : Optimizer::adam, 1);
    EXPECT_THROW(update(settings, 1, 1, {&parameter, 1}, {&gradient, 1}, state), std::logic_error);
    state = fresh_state(kind, 1);
    EXPECT_THROW(update(settings, 0, 1, {&parameter, 1}, {&gradient, 1}, state), std::logic_error);
  }
}

TEST(ClipScale, IsTheShareOfTheNormThatIsAllowed) {
  OptimizerSettings settings{.clip_norm = 1};
  const std::vector<float> gradient = {3, 0, -4};  // norm 5
  EXPECT_DOUBLE_EQ(squared_norm(gradient), 25);
  EXPECT_NEAR(clip_scale(settings, 25), 0.2, 1e-6);
  EXPECT_EQ(clip_scale(settings, 0.25), 1);  // below the limit
  EXPECT_EQ(clip_scale(settings, 0), 1);
  settings.clip_norm = 0;  // off
  EXPECT_EQ(clip_scale(settings, 1e30), 1);
}

TEST(ClipScale, ANormThatIsNoNumberIsNotHidden) {
  const OptimizerSettings settings{.clip_norm = 1};
  EXPECT_TRUE(std::isnan(clip_scale(settings, std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(clip_scale(settings, std::numeric_limits<double>::infinity()), 0);
}

TEST(SquaredNorm, AddsInOneOrderForEveryLength) {
  std::mt19937_64 random(3);
  for (std::size_t n = 0; n < 70; ++n) {
    std::vector<float> values(n);
    double expected = 0;
    for (float& v : values) {
      v = static_cast<float>(random() % 1000);  // squares and sums are whole: no order changes them
      expected += static_cast<double>(v) * v;
    }
    EXPECT_EQ(squared_norm(values), expected) << n;
  }
}

/// Initial values of every parameter of a network, by name.
std::map<std::string, std::vector<float>> initial_values(const Graph& graph, std::uint64_t seed) {
  std::map<std::string, std::vector<float>> all;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    auto& values = all[graph.parameters[i].name];
    values.resize(static_cast<std::size_t>(num_elements(graph.parameters[i].shape)), 99);
    initialize_parameter(graph, ParameterId(i), seed, values);
  }
  return all;
}

/// Token ids through an embedding, one attention block with two projections, and a head tied to the embedding.
Graph small_transformer() {
  GraphBuilder net("transformer", 1);
  const TensorId tokens = net.tokens("tokens", {1, 8});
  TensorId x = net.embedding("wte", tokens, 500, 64);
  const TensorId normed = net.unary(OpKind::layer_norm, "ln", x);
  const TensorId qkv = net.linear("h.0.attn.c_attn", normed, 192);
  const auto parts = net.add(OpKind::split, "split", {qkv}, {{"axis", -1}, {"sizes", Shape{64, 64, 64}}});
  const TensorId attended = net.add(OpKind::attention, "h.0.attn", parts, {{"heads", 4}, {"causal", true}})[0];
  x = net.add("sum", net.linear("h.0.attn.c_proj", attended, 64), x);
  x = net.linear("head", x, 500, false, {{"weight", "wte.weight"}});
  net.cross_entropy("loss", x, net.label("label", {1, 8}));
  return std::move(net).finish();
}

double deviation(const std::vector<float>& values) {
  double squares = 0;
  for (const float v : values) squares += static_cast<double>(v) * v;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(InitializeParameter, FollowsGpt2ForATransformer) {
  const auto values = initial_values(small_transformer(), 1);
  // n draws estimate a deviation to 1/sqrt(2n): 0.4 % for 32,000, 1.1 % for 4,096. Five of those are allowed.
  EXPECT_NEAR(deviation(values.at("wte.weight")), 0.02, 0.02 * 0.02);
  EXPECT_NEAR(deviation(values.at("h.0.attn.c_attn.weight")), 0.02, 0.02 * 0.035);
  EXPECT_NEAR(deviation(values.at("h.0.attn.c_proj.weight")), 0.02 / std::sqrt(2), 0.0141 * 0.055);
  EXPECT_THAT(values.at("ln.weight"), Each(1.0F));
  EXPECT_THAT(values.at("ln.bias"), Each(0.0F));
  EXPECT_THAT(values.at("h.0.attn.c_proj.bias"), Each(0.0F));
}

TEST(InitializeParameter, FollowsHeForPicturesAndPlainLayers) {
  GraphBuilder net("pictures", 2);
  TensorId x = net.conv2d("conv", net.input("image", {2, 3, 8, 8}), 64, 3, 1, 1);
  x = net.unary(OpKind::batch_norm, "bn", x);
  x = net.unary(OpKind::avg_pool, "pool", x);
  x = net.unary(OpKind::reshape, "flat", x, {{"shape", Shape{2, 64}}});
  net.cross_entropy("loss", net.linear("fc", x, 100), net.label("label", {2}));
  const auto values = initial_values(std::move(net).finish(), 1);
  EXPECT_NEAR(deviation(values.at("conv.weight")), std::sqrt(2.0 / 27), 0.272 * 0.09);  // 3 x 3 x 3 in, 1,728 draws
  EXPECT_NEAR(deviation(values.at("fc.weight")), std::sqrt(2.0 / 64), 0.177 * 0.045);   // 6,400 draws
  EXPECT_THAT(values.at("bn.weight"), Each(1.0F));
}

TEST(InitializeParameter, DependsOnSeedAndNameAlone) {
  const auto values = initial_values(small_transformer(), 1);
  EXPECT_EQ(values, initial_values(small_transformer(), 1));
  EXPECT_NE(values.at("wte.weight"), initial_values(small_transformer(), 2).at("wte.weight"));
  GraphBuilder other("other", 4);  // another net with a parameter of the same name, kind and size
  const TensorId x = other.embedding("wte", other.tokens("t", {4, 2}), 500, 64);
  other.cross_entropy("loss", x, other.label("label", {4, 2}));
  EXPECT_EQ(values.at("wte.weight"), initial_values(std::move(other).finish(), 1).at("wte.weight"));
}

TEST(InitializeParameter, LooksNormal) {
  std::vector<float> values = initial_values(small_transformer(), 5).at("wte.weight");
  const auto within = [&](double deviations) {
    const auto inside = std::ranges::count_if(values, [&](float v) { return std::abs(v) < deviations * 0.02; });
    return static_cast<double>(inside) / static_cast<double>(values.size());
  };
  EXPECT_NEAR(within(1), 0.683, 0.015);  // a normal's shares; 32,000 draws know them to 0.003
  EXPECT_NEAR(within(2), 0.954, 0.008);
  EXPECT_NEAR(within(3), 0.997, 0.003);
}

}  // namespace
}  // namespace fusion::exec
