// Attention over heads, with fewer key and value heads (grouped queries), a causal mask and rotary positions.
#include "core/graph/op_rows.h"

namespace fusion {
namespace {

std::int64_t kv_heads(const Op& op) {
  return op.integer("kv_heads") == 0 ? op.integer("heads") : op.integer("kv_heads");
}

/// B heads T S: one score for each pair of query and key.
std::int64_t num_scores(const OpView& view) {
  return num_elements({shape_of(view, 0)[0], view.op.integer("heads"), shape_of(view, 0)[1], shape_of(view, 1)[1]});
}

void check_heads(const OpView& view) {
  const std::int64_t heads = view.op.integer("heads"), kv = kv_heads(view.op), q = shape_of(view, 0)[2];
  require(heads >= 1 && kv >= 1, view, "heads and kv_heads must be at least 1 (kv_heads 0: as many as heads)");
  require(heads % kv == 0, view,
          std::to_string(heads) + " heads can't share " + std::to_string(kv) + " kv_heads evenly");
  require(q % heads == 0, view,
          "q has " + std::to_string(q) + " features, which " + std::to_string(heads) + " heads don't divide");
  const std::int64_t head = q / heads;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    require(shape_of(view, i)[2] % head == 0 && shape_of(view, i)[2] / head == kv, view,
            std::string(i == 1 ? "k" : "v") + " has " + std::to_string(shape_of(view, i)[2]) + " features, " +
                std::to_string(kv) + " kv_heads of " + std::to_string(head) + " are wanted");
  require(view.op.real("rotary_base") == 0 || head % 2 == 0, view,
          "rotary positions turn pairs, a head of " + std::to_string(head) + " features is odd");
}

/// q [B, T, heads d], k and v [B, S, kv_heads d] to [B, T, heads d].
std::vector<OutputSpec> infer_attention(const OpView& view) {
  const Shape &q = shape_of(view, 0), &k = shape_of(view, 1), &v = shape_of(view, 2);
  const std::string all = to_string(q) + ", " + to_string(k) + ", " + to_string(v);
  require(q.size() == 3 && k.size() == 3 && v.size() == 3, view, "q, k, v are " + all + ", each must be [B, T, C]");
  require(q[0] == k[0] && q[0] == v[0], view, "q, k, v are " + all + ", their B differ");
  require(k[1] == v[1], view, "q, k, v are " + all + ", k and v differ in tokens");
  require(!view.op.flag("causal") || q[1] == k[1], view,
          "a causal mask needs as many queries as keys, q and k are " + to_string(q) + " and " + to_string(k));
  require(view.op.real("rotary_base") >= 0, view, "rotary_base must not be negative (0: no rotary positions)");
  check_heads(view);
  if (!view.op.flag("flash")) num_scores(view);  // they must fit a tensor
  return {{q, view.inputs[0]->dtype}};
}

/// Two products, q k^T and p v, each 2 B T S C, with the mask's zeros counted (convention of golden case G12); each
/// has two gradients. Unfused, the scores pass through memory: forward writes the scores, softmax reads and writes
/// them, p v reads them (4); backward reads p for dv, writes dp, softmax reads p and dp and writes ds, dq and dk read
/// ds (7). Fused (FlashAttention, arXiv 2205.14135) they never leave the chip: a log-sum-exp per row is kept.
OpCosts attention_costs(const OpView& view) {
  const double f = 4 * elements(*view.inputs[0]) * static_cast<double>(shape_of(view, 1)[1]);
  OpCosts costs{.forward = Flops(f), .input_gradient = Flops(2 * f), .keeps_inputs = true};
  if (view.op.flag("flash")) {
    const Shape& q = shape_of(view, 0);
    costs.keeps_outputs = true;
    costs.kept_extra = Bytes(num_elements({q[0], view.op.integer("heads"), q[1]}) * size_of(DType::fp32));
    costs = with_traffic(view, costs);
  } else {
    const Bytes through_memory(num_scores(view) * size_of(view.compute_dtype));
    costs = with_traffic(view, costs);
    costs.kept_extra = through_memory;
    costs.forward_bytes += 4 * through_memory;
    costs.input_gradient_bytes += 7 * through_memory;
  }
  if (view.op.real("rotary_base") > 0) {  // q and k are read, turned and written before the products
    const Bytes turned = 2 * (bytes_of(*view.inputs[0]) + bytes_of(*view.inputs[1]));
    costs.forward_bytes += turned;
    costs.input_gradient_bytes += turned;
  }
  return costs;
}

}  // namespace

OpRow attention_row() {
  return {OpKind::attention,
          "attention",
          "softmax(q k^T / sqrt(d)) v per head",
          3,
          3,
          true,
          {{"heads", 0, true, "query heads"},
           {"kv_heads", 0, false, "key and value heads; 0: as many as heads"},
           {"causal", false, false, "a token sees no later one"},
           {"rotary_base", 0.0, false, "base of rotary positions on q and k; 0: none"},
           {"flash", false, false, "fused: the scores never pass through memory"}},
          infer_attention,
          no_parameters,
          attention_costs};
}

}  // namespace fusion
