#include "models/config.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/json.h"
#include "base/quote.h"
#include "kernels/kernel_table.h"

namespace deepinfer::models {

namespace {

constexpr int max_layers = 1024, max_width = 1 << 20, max_heads = 4096, max_vocabulary = 1 << 22;

std::string number_text(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value);
    return text;
}

// Reads fields and remembers the first error, so that the code below reads like a table.
class Fields {
  public:
    explicit Fields(std::string where) : where_(std::move(where)) {}
    virtual ~Fields() = default;

    int integer(const std::string& key, int least, int most, std::optional<int> fallback = {}) {
        const std::optional<double> value = number_at(key);
        if (!value) return missing<int>(key, fallback);
        if (*value != std::floor(*value) || *value < least || *value > most)
            fail(key + " is " + number_text(*value) + "; must be an integer from " + std::to_string(least) +
                 " to " + std::to_string(most));
        return error_ ? least : static_cast<int>(*value);
    }
    double number(const std::string& key, std::optional<double> fallback = {}) {
        const std::optional<double> value = number_at(key);
        if (value && !std::isfinite(*value)) fail(key + " is not a finite number");
        return value ? *value : missing<double>(key, fallback);
    }
    void fail(const std::string& message) {
        if (!error_) error_ = Error{ErrorCode::corrupt_data, where_ + ": " + message};
    }
    void refuse(const std::string& message) {
        if (!error_) error_ = Error{ErrorCode::unsupported, where_ + ": " + message};
    }
    const std::optional<Error>& error() const { return error_; }

  protected:
    virtual std::optional<double> number_at(const std::string& key) = 0;

  private:
    template <class T>
    T missing(const std::string& key, std::optional<T> fallback) {
        if (!fallback) fail(key + " is missing");
        return fallback.value_or(T{1});
    }
    std::string where_;
    std::optional<Error> error_;
};

class GgufFields : public Fields {
  public:
    GgufFields(const checkpoint::Metadata& metadata, std::string architecture)
        : Fields("GGUF metadata"), metadata_(metadata), prefix_(std::move(architecture) + ".") {}
    std::string text(const std::string& key) {
        auto value = metadata_.string(prefix_ + key);
        if (!value) return fail(value.error().message), "";
        return value->value_or("");
    }
    bool has(const std::string& key) const { return metadata_.find(prefix_ + key) != nullptr; }
    const std::vector<bool>* booleans(const std::string& key) const {
        const checkpoint::MetadataArray* array = metadata_.array(prefix_ + key);
        return array ? std::get_if<std::vector<bool>>(&array->values) : nullptr;
    }

  protected:
    std::optional<double> number_at(const std::string& key) override {
        auto value = metadata_.number(prefix_ + key);
        if (!value) return fail(value.error().message), std::nullopt;
        return *value;
    }

  private:
    const checkpoint::Metadata& metadata_;
    std::string prefix_;
};

class JsonFields : public Fields {
  public:
    JsonFields(const boost::json::object& object, const std::string& where)
        : Fields(where), object_(object) {}
    std::string text(const std::string& key) {
        const auto* value = object_.if_contains(key);
        if (!value || value->is_null()) return "";
        if (!value->is_string()) return fail(key + " must be a string"), "";
        return std::string(value->as_string());
    }
    bool boolean(const std::string& key, bool fallback) {
        const auto* value = object_.if_contains(key);
        if (!value || value->is_null()) return fallback;
        if (!value->is_bool()) return fail(key + " must be true or false"), fallback;
        return value->as_bool();
    }
    const boost::json::object* object(const std::string& key) {
        const auto* value = object_.if_contains(key);
        if (!value || value->is_null()) return nullptr;
        if (!value->is_object()) return fail(key + " must be an object"), nullptr;
        return &value->as_object();
    }
    const boost::json::array* array(const std::string& key) {
        const auto* value = object_.if_contains(key);
        if (!value || value->is_null()) return nullptr;
        if (!value->is_array()) return fail(key + " must be an array"), nullptr;
        return &value->as_array();
    }

  protected:
    std::optional<double> number_at(const std::string& key) override {
        const auto* value = object_.if_contains(key);
        if (!value || value->is_null()) return std::nullopt;
        if (!value->is_number()) return fail(key + " must be a number"), std::nullopt;
        return value->to_number<double>();
    }

  private:
    const boost::json::object& object_;
};

// As floats: a value that is fine as a double may become 0 or infinity.
void check_positive(const std::string& what, double value, Fields& f) {
    const auto single = static_cast<float>(value);
    if (!std::isfinite(single) || !(single > 0))
        f.fail(what + " is " + number_text(value) + "; must be a positive number");
}

void check_rope(const RopeConfig& rope, Fields& f) {
    check_positive("the rotary base", rope.theta, f);
    if (rope.theta <= 1) f.fail("the rotary base is " + number_text(rope.theta) + "; must be above 1");
    const RopeScaling& s = rope.scaling;
    check_positive("the rotary scaling factor", s.factor, f);
    const bool llama3 = s.kind == RopeScaling::Kind::llama3, yarn = s.kind == RopeScaling::Kind::yarn;
    if (llama3 || yarn) check_positive("the original context of the rotary scaling", s.original_context, f);
    if (llama3) {
        check_positive("the low frequency factor", s.low_freq_factor, f);
        check_positive("the high frequency factor", s.high_freq_factor, f);
        if (s.low_freq_factor >= s.high_freq_factor)
            f.fail("the low frequency factor is " + number_text(s.low_freq_factor) +
                   "; must be below the high one, " + number_text(s.high_freq_factor));
    }
    if (yarn) {
        check_positive("beta_fast of yarn", s.beta_fast, f);
        check_positive("beta_slow of yarn", s.beta_slow, f);
        const auto single = static_cast<float>(s.attention_factor);
        if (!std::isfinite(single) || single < 0)
            f.fail("the attention factor of yarn is " + number_text(s.attention_factor) +
                   "; must be a number that is not negative");
    }
    for (size_t i = 0; i < rope.freq_factors.size(); ++i)
        check_positive("frequency factor " + std::to_string(i), static_cast<double>(rope.freq_factors[i]), f);
}

void check_shapes(const DecoderConfig& c, Fields& f) {
    if (c.heads % c.kv_heads != 0)
        f.fail("attention has " + std::to_string(c.heads) + " heads, not a multiple of the " +
               std::to_string(c.kv_heads) + " KV heads");
    if (int64_t{c.heads} * c.head_dim > max_width || int64_t{c.kv_heads} * c.head_dim > max_width)
        f.fail("attention is too wide: " + std::to_string(c.heads) + " heads of " +
               std::to_string(c.head_dim));
    if (c.head_dim > kernels::most_head_dim)
        f.refuse("a head dimension of " + std::to_string(c.head_dim) + " is more than " +
                 std::to_string(kernels::most_head_dim));
    if (c.hidden % 16 || c.ffn % 16 || c.head_dim % 16)
        f.refuse("widths must be multiples of 16: hidden " + std::to_string(c.hidden) + ", feed-forward " +
                 std::to_string(c.ffn) + ", head " + std::to_string(c.head_dim));
    if (c.rope.dim % 2 || c.rope.dim > c.head_dim || c.rope.dim <= 0)
        f.fail("rotary dimension " + std::to_string(c.rope.dim) +
               " must be even and at most the head dimension " + std::to_string(c.head_dim));
    check_positive("the norm epsilon", static_cast<double>(c.norm_eps), f);
    check_positive("the attention scale", static_cast<double>(c.attention_scale), f);
    check_rope(c.rope, f);
    if (!c.local_layers.empty()) check_rope(c.local_rope, f);
}

// ---- GGUF

void read_gguf_rope(GgufFields& f, RopeConfig& rope) {
    rope.theta = f.number("rope.freq_base", 10000.0);
    RopeScaling& s = rope.scaling;
    const std::string type = f.text("rope.scaling.type");
    if (type.empty() && f.has("rope.scale_linear")) {  // older files
        s.kind = RopeScaling::Kind::linear;
        s.factor = f.number("rope.scale_linear");
        return;
    }
    if (type.empty() || type == "none") return;
    s.factor = f.number("rope.scaling.factor", 1.0);
    if (type == "linear") {
        s.kind = RopeScaling::Kind::linear;
    } else if (type == "yarn") {
        s.kind = RopeScaling::Kind::yarn;
        s.original_context = f.number("rope.scaling.original_context_length");
        s.beta_fast = f.number("rope.scaling.yarn_beta_fast", 32.0);
        s.beta_slow = f.number("rope.scaling.yarn_beta_slow", 1.0);
        const double extra = f.number("rope.scaling.attn_factor", 1.0);
        s.attention_factor = extra * (0.1 * std::log(std::max(s.factor, 1.0)) + 1.0);
    } else {
        f.refuse("rope.scaling.type " + quote(type) + " is not supported; supported: none, linear, yarn");
    }
    if (!(s.factor > 0)) f.fail("rope.scaling.factor must be positive");
}

Result<DecoderConfig> read_gguf(const checkpoint::Checkpoint& checkpoint, const std::string& architecture) {
    DecoderConfig c;
    c.architecture = architecture;
    GgufFields f(checkpoint.metadata(), c.architecture);
    if (f.integer("expert_count", 0, max_heads, 0) > 0)
        f.refuse("models with experts (expert_count) are not supported");
    c.layers = f.integer("block_count", 1, max_layers);
    c.hidden = f.integer("embedding_length", 1, max_width);
    c.ffn = f.integer("feed_forward_length", 1, max_width);
    c.heads = f.integer("attention.head_count", 1, max_heads);
    c.kv_heads = f.integer("attention.head_count_kv", 1, max_heads, c.heads);
    c.head_dim = f.integer("attention.key_length", 1, max_width, c.hidden / std::max(c.heads, 1));
    if (const int v = f.integer("attention.value_length", 1, max_width, c.head_dim); v != c.head_dim)
        f.refuse("attention.value_length " + std::to_string(v) + " differs from the key length " +
                 std::to_string(c.head_dim));
    c.context = f.integer("context_length", 1, 1 << 24);
    c.norm_eps = static_cast<float>(f.number("attention.layer_norm_rms_epsilon"));
    c.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
    read_gguf_rope(f, c.rope);
    c.rope.dim = f.integer("rope.dimension_count", 2, max_width, c.head_dim);
    c.rope.interleaved = c.architecture == "llama";
    if (const auto* factors = checkpoint.find("rope_freqs.weight")) {
        if (factors->type != TensorType::f32 || factors->values() != c.rope.dim / 2)
            f.fail("rope_freqs.weight must be " + std::to_string(c.rope.dim / 2) + " F32 values");
        else {
            c.rope.freq_factors.resize(static_cast<size_t>(c.rope.dim / 2));
            std::memcpy(c.rope.freq_factors.data(), factors->data.data(), factors->data.size());
        }
    }
    const auto* embedding = checkpoint.find("token_embd.weight");
    if (!embedding || embedding->shape.size() != 2)
        return Error{ErrorCode::corrupt_data, "tensor token_embd.weight is missing or not a matrix"};
    if (embedding->rows() > max_vocabulary) f.fail("token_embd.weight has too many rows");
    c.vocabulary = static_cast<int>(embedding->rows());
    c.tied_embeddings = checkpoint.find("output.weight") == nullptr;
    if (c.architecture == "gemma3") {
        c.sliding_window = f.integer("attention.sliding_window", 1, 1 << 24);
        if (const auto* local = f.booleans("attention.sliding_window_pattern")) {  // per layer, or its period
            c.local_layers = *local;
            if (c.local_layers.size() != static_cast<size_t>(c.layers))
                f.fail("attention.sliding_window_pattern must name each of the layers");
        } else {
            const int period = f.integer("attention.sliding_window_pattern", 1, max_layers, 6);
            for (int l = 0; l < c.layers; ++l) c.local_layers.push_back((l + 1) % period != 0);
        }
        c.local_rope.theta = f.number("rope.freq_base_swa", 10000.0);
        c.local_rope.dim = c.rope.dim;
        if (f.has("attention.scale"))
            c.attention_scale = static_cast<float>(f.number("attention.scale"));
        else if (c.layers ==
                 62)  // the 27B model scales by its hidden width per head; the file has no field for it
            c.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.hidden) / c.heads));
    } else if (f.integer("attention.sliding_window", 0, 1 << 30, 0) > 0) {
        f.refuse("sliding-window attention of architecture " + quote(c.architecture) + " is not supported");
    }
    if (f.error()) return *f.error();
    check_shapes(c, f);
    if (f.error()) return *f.error();
    return c;
}

// ---- config.json

void read_json_rope(const boost::json::object& object, const std::string& where, double theta,
                    RopeConfig& rope, Fields& errors) {
    JsonFields f(object, where);
    rope.theta = f.number("rope_theta", theta);
    RopeScaling& s = rope.scaling;
    std::string type = f.text("rope_type");
    if (type.empty()) type = f.text("type");
    if (!type.empty() && type != "default") {
        s.factor = f.number("factor");
        if (type == "linear") {
            s.kind = RopeScaling::Kind::linear;
        } else if (type == "llama3") {
            s.kind = RopeScaling::Kind::llama3;
            s.original_context = f.number("original_max_position_embeddings");
            s.low_freq_factor = f.number("low_freq_factor");
            s.high_freq_factor = f.number("high_freq_factor");
        } else if (type == "yarn") {
            s.kind = RopeScaling::Kind::yarn;
            s.original_context = f.number("original_max_position_embeddings");
            s.beta_fast = f.number("beta_fast", 32.0);
            s.beta_slow = f.number("beta_slow", 1.0);
            s.attention_factor = f.number("attention_factor", 0.0);
            if (object.contains("mscale") || object.contains("mscale_all_dim"))
                f.refuse("mscale of yarn is not supported for this architecture");
        } else {
            f.refuse("rope_type " + quote(type) +
                     " is not supported; supported: default, linear, llama3, yarn");
        }
        if (!(s.factor > 0)) f.fail("factor must be positive");
    }
    if (f.error())
        f.error()->code == ErrorCode::unsupported ? errors.refuse(f.error()->message)
                                                  : errors.fail(f.error()->message);
}

void read_json_gemma(JsonFields& f, DecoderConfig& c) {
    c.norm_weights_minus_one = true;
    c.attention_scale = static_cast<float>(
        1.0 / std::sqrt(f.number("query_pre_attn_scalar", static_cast<double>(c.head_dim))));
    if (f.number("attn_logit_softcapping", 0.0) != 0 || f.number("final_logit_softcapping", 0.0) != 0)
        f.refuse("logit soft-capping is not supported");
    if (f.boolean("use_bidirectional_attention", false))
        f.refuse("use_bidirectional_attention is not supported");
    c.sliding_window = f.integer("sliding_window", 1, 1 << 24);
    if (const auto* types = f.array("layer_types")) {
        for (const auto& type : *types) {
            const std::string name = type.is_string() ? std::string(type.as_string()) : "";
            if (name != "sliding_attention" && name != "full_attention")
                f.refuse("layer type " + quote(name) + " is not supported");
            c.local_layers.push_back(name == "sliding_attention");
        }
        if (c.local_layers.size() != static_cast<size_t>(c.layers))
            f.fail("layer_types must name each of the layers");
    } else {
        const int pattern = f.integer("sliding_window_pattern", 1, max_layers, 6);
        for (int l = 0; l < c.layers; ++l) c.local_layers.push_back((l + 1) % pattern != 0);
    }
}

void read_json_ropes(JsonFields& f, DecoderConfig& c) {
    const boost::json::object* parameters = f.object("rope_parameters");
    if (parameters && parameters->contains("full_attention")) {
        JsonFields per_kind(*parameters, "config.json rope_parameters");
        if (const auto* o = per_kind.object("full_attention"))
            read_json_rope(*o, "config.json rope_parameters.full_attention", 1e6, c.rope, f);
        if (const auto* o = per_kind.object("sliding_attention"))
            read_json_rope(*o, "config.json rope_parameters.sliding_attention", 10000.0, c.local_rope, f);
    } else if (parameters) {
        read_json_rope(*parameters, "config.json rope_parameters", 10000.0, c.rope, f);
        c.local_rope = c.rope;
    } else {  // older form: base beside, scaling in rope_scaling
        const double theta = f.number("rope_theta", 10000.0);
        c.rope.theta = theta;
        if (const auto* scaling = f.object("rope_scaling"))
            read_json_rope(*scaling, "config.json rope_scaling", theta, c.rope, f);
        c.local_rope.theta = f.number("rope_local_base_freq", 10000.0);
    }
    const double share = f.number("partial_rotary_factor", 1.0);
    if (share != 1.0) f.refuse("partial_rotary_factor is not supported");
    c.rope.dim = c.local_rope.dim = c.head_dim;
}

Result<boost::json::object> parse_config(const checkpoint::Checkpoint& checkpoint) {
    if (checkpoint.config_json().empty())
        return Error{
            ErrorCode::not_found,
            "config.json is missing beside the safetensors files; it names the architecture and its sizes"};
    auto json = parse_json(checkpoint.config_json(), "config.json");
    if (!json) return std::move(json).error();
    if (!json->is_object()) return Error{ErrorCode::corrupt_data, "config.json must be an object"};
    return std::move(json->as_object());
}

Result<DecoderConfig> read_json(const checkpoint::Checkpoint& checkpoint, const std::string& architecture) {
    auto root = parse_config(checkpoint);
    if (!root) return std::move(root).error();
    JsonFields f(*root, "config.json");
    DecoderConfig c;
    c.architecture = architecture;
    if (f.object("quantization_config"))
        f.refuse("quantization_config is not supported; use plain F32, F16 or BF16 safetensors, or GGUF");
    const std::string activation = f.text(c.architecture == "gemma3" ? "hidden_activation" : "hidden_act");
    const std::string expected = c.architecture == "gemma3" ? "gelu_pytorch_tanh" : "silu";
    if (!activation.empty() && activation != expected)
        f.refuse("hidden activation " + quote(activation) + " is not supported; expected " + expected);
    if (f.boolean("mlp_bias", false)) f.refuse("mlp_bias is not supported");
    if (c.architecture != "qwen2" && f.boolean("attention_bias", false))
        f.refuse("attention_bias is not supported");
    if (f.boolean("use_sliding_window", false))
        f.refuse("use_sliding_window is not supported for " + quote(c.architecture));
    c.layers = f.integer("num_hidden_layers", 1, max_layers);
    c.hidden = f.integer("hidden_size", 1, max_width);
    c.ffn = f.integer("intermediate_size", 1, max_width);
    c.heads = f.integer("num_attention_heads", 1, max_heads);
    c.kv_heads = f.integer("num_key_value_heads", 1, max_heads, c.heads);
    c.head_dim = f.integer("head_dim", 1, max_width, c.hidden / std::max(c.heads, 1));
    c.vocabulary = f.integer("vocab_size", 1, max_vocabulary);
    c.context = f.integer("max_position_embeddings", 1, 1 << 24);
    c.norm_eps = static_cast<float>(f.number("rms_norm_eps"));
    c.tied_embeddings = f.boolean("tie_word_embeddings", c.architecture == "gemma3");
    c.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
    read_json_ropes(f, c);
    if (c.architecture == "gemma3") read_json_gemma(f, c);
    if (f.error()) return *f.error();
    check_shapes(c, f);
    if (f.error()) return *f.error();
    return c;
}

}  // namespace

Result<std::string> read_architecture(const checkpoint::Checkpoint& checkpoint) {
    if (checkpoint.format() == checkpoint::FileFormat::gguf) {
        auto name = checkpoint.metadata().string("general.architecture");
        if (!name) return std::move(name).error();
        if (!*name) return Error{ErrorCode::corrupt_data, "GGUF metadata: general.architecture is missing"};
        return **name;
    }
    auto root = parse_config(checkpoint);
    if (!root) return std::move(root).error();
    JsonFields f(*root, "config.json");
    std::string name = f.text("model_type");
    if (f.error()) return *f.error();
    if (name.empty()) return Error{ErrorCode::corrupt_data, "config.json: model_type is missing"};
    return name == "gemma3_text" ? "gemma3" : name;
}

Result<DecoderConfig> read_config(const checkpoint::Checkpoint& checkpoint) {
    auto architecture = read_architecture(checkpoint);
    if (!architecture) return std::move(architecture).error();
    return checkpoint.format() == checkpoint::FileFormat::gguf ? read_gguf(checkpoint, *architecture)
                                                               : read_json(checkpoint, *architecture);
}

}  // namespace deepinfer::models
