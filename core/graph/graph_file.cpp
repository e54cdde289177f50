// The graph file: a network as TOML, op by op. experiments/unet.toml is an example that teaches.
//
//   name = "tiny"                       # default: the file's name
//   sequence_length = 1024              # language models: the default T; leave it out where there are no tokens
//   image_size = 64                     # picture models whose shapes use S: the default S
//
//   [[op]]                              # in order: an op reads only what stands above it
//   name = "image"                      # unique; its output is the tensor "image"
//   kind = "input"                      # a row of the op table: `core/graph/ops.h`
//   shape = "[B, 3, S, S]"              # lists are texts of numbers and B (micro-batch), T (tokens), S (image size)
//
//   [[op]]
//   name = "conv"
//   kind = "conv2d"
//   block = "stem"                      # label that groups ops; optional
//   inputs = ["image"]                  # tensors; an op with several outputs makes "name.0", "name.1", …
//   out_channels = 16                   # the attributes of the row, those with a default optional
//   kernel = 3
//   tied = { weight = "other.weight" }  # share a parameter that stands above; optional
//
// B, T and dtype come from the options of a run (ModelOptions), so one file serves any micro-batch.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/toml_file.h"
#include "core/graph/builder.h"
#include "core/graph/models.h"
#include "core/graph/models_text.h"

namespace fusion {
namespace {

/// What the letters of a shape stand for; 0: nothing.
struct Dimensions {
  std::int64_t b = 1, t = 0, s = 0;
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::int64_t dimension(std::string_view text, const Dimensions& dimensions) {
  if (text == "B") return dimensions.b;
  if (text == "T" && dimensions.t > 0) return dimensions.t;
  if (text == "S" && dimensions.s > 0) return dimensions.s;
  if (text == "T") throw std::invalid_argument("T stands for nothing; give the file a sequence_length");
  if (text == "S") throw std::invalid_argument("S stands for nothing; give the file an image_size");
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size())
    throw std::invalid_argument('"' + std::string(text) + "\" is no dimension; a whole number, B, T or S is");
  return value;
}

/// "[B, 3, 32, 32]"
std::vector<std::int64_t> parse_list(std::string_view text, const Dimensions& dimensions) {
  text = trim(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']')
    throw std::invalid_argument('"' + std::string(text) + "\" is no list; write it like \"[B, 3, 32, 32]\"");
  text = text.substr(1, text.size() - 2);
  std::vector<std::int64_t> list;
  for (;;) {
    const std::size_t comma = text.find(',');
    list.push_back(dimension(trim(text.substr(0, comma)), dimensions));
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

AttributeValue read_attribute(const TomlTable& table, const AttributeSpec& spec, const Dimensions& dimensions) {
  if (std::holds_alternative<std::int64_t>(spec.fallback)) return table.integer(spec.name);
  if (std::holds_alternative<double>(spec.fallback)) return table.real(spec.name);
  if (std::holds_alternative<bool>(spec.fallback)) return table.boolean(spec.name);
  try {
    return parse_list(table.string(spec.name), dimensions);
  } catch (const std::invalid_argument& error) {
    throw table.error(spec.name, error.what());
  }
}

const OpRow& read_kind(const TomlTable& table) {
  const std::string kind = table.string("kind");
  if (const OpRow* row = find_op(kind)) return *row;
  std::vector<std::string_view> names;
  for (const OpRow& row : op_table()) names.push_back(row.name);
  throw table.error("kind", unknown_name(kind, names));
}

/// One [[op]] as it stands in the file.
struct Entry {
  TomlTable table;
  std::string name, block;
  const OpRow* row = nullptr;
  std::vector<std::string> inputs;
  std::vector<Attribute> attributes;
  std::vector<std::pair<std::string, std::string>> tied;  ///< suffix, parameter
};

Entry read_entry(const TomlTable& table, const Dimensions& dimensions) {
  Entry entry{table, table.string("name"), table.string("block", ""), &read_kind(table), {}, {}, {}};
  if (entry.row->max_inputs != 0) entry.inputs = table.strings("inputs");
  for (const AttributeSpec& spec : entry.row->attributes)
    if (spec.required || table.has(spec.name))
      entry.attributes.push_back({std::string(spec.name), read_attribute(table, spec, dimensions)});
  if (table.has("tied"))
    for (const TomlTable ties = table.table("tied"); const std::string& suffix : ties.keys())
      entry.tied.emplace_back(suffix, ties.string(suffix));
  table.reject_unknown();
  return entry;
}

using Makers = std::map<std::string, std::size_t, std::less<>>;

/// The entry that makes a tensor: the op of that name, or of the name before ".0", ".1", ….
const std::size_t* maker_of(std::string_view tensor, const Makers& makers) {
  auto found = makers.find(tensor);
  if (found == makers.end()) found = makers.find(tensor.substr(0, tensor.rfind('.')));
  return found == makers.end() ? nullptr : &found->second;
}

/// The shortest way from entry `from` to `goal` along inputs, both included; empty where there is none.
std::vector<std::size_t> path_along_inputs(const std::vector<Entry>& entries, const Makers& makers, std::size_t from,
                                           std::size_t goal) {
  constexpr std::size_t unseen = SIZE_MAX;
  std::vector<std::size_t> reader_of(entries.size(), unseen), queue = {from};
  reader_of[from] = from;
  for (std::size_t next = 0; next < queue.size() && reader_of[goal] == unseen; ++next)
    for (const std::string& input : entries[queue[next]].inputs) {
      const std::size_t* maker = maker_of(input, makers);
      if (maker == nullptr || reader_of[*maker] != unseen) continue;
      reader_of[*maker] = queue[next];
      queue.push_back(*maker);
    }
  if (reader_of[goal] == unseen) return {};
  std::vector<std::size_t> path = {goal};
  while (path.back() != from) path.push_back(reader_of[path.back()]);
  std::ranges::reverse(path);
  return path;
}

/// Why entry `reader` can't read `input`: a cycle, an op that stands below, or no such tensor.
std::string explain(const std::vector<Entry>& entries, const Makers& makers, std::size_t reader,
                    const std::string& input, const GraphBuilder& net) {
  const std::size_t* maker = maker_of(input, makers);
  if (maker == nullptr || *maker < reader) {
    std::vector<std::string_view> names;
    for (const Tensor& tensor : net.tensors()) names.push_back(tensor.name);
    return "tensor " + unknown_name(input, names);
  }
  const auto path = path_along_inputs(entries, makers, *maker, reader);
  if (path.empty())
    return "\"" + input + "\" is made by an op that stands below; move \"" + entries[*maker].name + "\" above \"" +
           entries[reader].name + '"';
  constexpr std::size_t shown = 8;
  std::string cycle = entries[reader].name;
  for (std::size_t i = 0; i < std::min(path.size(), shown); ++i) cycle += " <- " + entries[path[i]].name;
  if (path.size() > shown) cycle += " <- … <- " + entries[reader].name + " (" + std::to_string(path.size()) + " ops)";
  return "a cycle: " + cycle + "; a graph has none";
}

void add_entry(GraphBuilder& net, const std::vector<Entry>& entries, const Makers& makers, std::size_t index) {
  const Entry& entry = entries[index];
  std::vector<TensorId> inputs;
  for (const std::string& input : entry.inputs) {
    const auto tensor = net.find_tensor(input);
    if (!tensor) throw entry.table.error("inputs", explain(entries, makers, index, input, net));
    inputs.push_back(*tensor);
  }
  std::vector<GraphBuilder::Tie> tied;
  for (const auto& [suffix, parameter] : entry.tied) tied.push_back({suffix, parameter});
  net.block(entry.block);
  try {
    net.append(entry.row->kind, entry.name, std::move(inputs), entry.attributes, tied);
  } catch (const std::invalid_argument& error) {
    throw entry.table.error("name", '"' + entry.name + "\": " + error.what());
  }
}

/// A size that the file gives a default for and the options may override.
std::int64_t read_size(const TomlTable& root, std::string_view key, std::int64_t option) {
  if (!root.has(key)) {
    if (option != 0)
      throw root.error(key, std::to_string(option) + " is given, but the graph has no " + std::string(key));
    return 0;
  }
  const std::int64_t fallback = root.integer(key), value = option != 0 ? option : fallback;
  if (value < 1) throw root.error(key, std::to_string(value) + " is no size; 1 or more is wanted");
  return value;
}

/// A text as TOML writes it.
std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    constexpr std::string_view digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    if (byte < 0x20 || byte == 0x7f)
      out += std::string("\\u00") + digits[byte >> 4] + digits[byte & 15];
    else
      out += c;
  }
  return out + '"';
}

std::string write_real(double value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  const std::string out(text, end);
  return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
}

/// B and T stand in place of their numbers, so that the file serves other micro-batches and lengths.
std::string write_list(const std::vector<std::int64_t>& list, bool is_shape, const Graph& graph) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) text += ", ";
    if (is_shape && i == 0 && list[i] == graph.micro_batch)
      text += "B";
    else if (is_shape && i == 1 && list[i] == graph.tokens_per_sample)
      text += "T";
    else
      text += std::to_string(list[i]);
  }
  return toml_text(text + "]");
}

std::string write_value(const Attribute& attribute, const Graph& graph) {
  if (const auto* v = std::get_if<std::int64_t>(&attribute.value)) return std::to_string(*v);
  if (const auto* v = std::get_if<double>(&attribute.value)) return write_real(*v);
  if (const auto* v = std::get_if<bool>(&attribute.value)) return *v ? "true" : "false";
  return write_list(std::get<std::vector<std::int64_t>>(attribute.value), attribute.name == "shape", graph);
}

std::string write_inputs(const Graph& graph, const Op& op) {
  std::string text = "inputs = [";
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    text += (i > 0 ? ", " : "") + toml_text(graph.tensor(op.inputs[i]).name);
  return text + "]\n";
}

std::string write_ties(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  const auto specs = row_of(op.kind).parameters(view_of(graph, id));
  std::string ties;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::string& parameter = graph.parameter(op.parameters[i]).name;
    if (parameter == op.name + "." + std::string(specs[i].suffix)) continue;
    ties += (ties.empty() ? "" : ", ") + std::string(specs[i].suffix) + " = " + toml_text(parameter);
  }
  return ties.empty() ? "" : "tied = { " + ties + " }\n";
}

std::string write_op(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  const OpRow& row = row_of(op.kind);
  std::string text = "\n[[op]]\nname = " + toml_text(op.name) + "\nkind = " + toml_text(row.name) + "\n";
  if (!op.block.empty()) text += "block = " + toml_text(op.block) + "\n";
  if (row.max_inputs != 0) text += write_inputs(graph, op);
  for (std::size_t i = 0; i < op.attributes.size(); ++i)
    if (row.attributes[i].required || op.attributes[i].value != row.attributes[i].fallback)
      text += op.attributes[i].name + " = " + write_value(op.attributes[i], graph) + "\n";
  return text + write_ties(graph, id);
}

}  // namespace

Graph load_graph(const std::filesystem::path& path, const ModelOptions& options) {
  const TomlTable root = load_toml(path);
  const std::string name = root.string("name", path.stem().string());
  const Dimensions dimensions{options.micro_batch, read_size(root, "sequence_length", options.sequence_length),
                              read_size(root, "image_size", options.image_size)};
  std::vector<Entry> entries;
  Makers makers;
  for (const TomlTable& table : root.tables("op")) {
    entries.push_back(read_entry(table, dimensions));
    makers.emplace(entries.back().name, entries.size() - 1);
  }
  root.reject_unknown();

  GraphBuilder net(name, options.micro_batch, options.dtype, path.string());
  net.tokens_per_sample(dimensions.t);
  for (std::size_t i = 0; i < entries.size(); ++i) add_entry(net, entries, makers, i);
  return std::move(net).finish();
}

std::string write_graph(const Graph& graph) {
  std::string text = "name = " + toml_text(graph.name) + "\n";
  if (graph.tokens_per_sample > 0) text += "sequence_length = " + std::to_string(graph.tokens_per_sample) + "\n";
  for (std::size_t i = 0; i < graph.ops.size(); ++i) text += write_op(graph, OpId(i));
  return text;
}

}  // namespace fusion
