#include "models/weights.h"

#include <algorithm>

#include "base/memory_info.h"
#include "kernels/dequantize.h"

namespace deepinfer::models {

namespace {

std::string shape_text(std::initializer_list<int64_t> shape) {
    std::string text = "[";
    for (int64_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
    return text + "]";
}

}  // namespace

Weights::Weights(const checkpoint::Checkpoint& checkpoint, const DecoderConfig& config,
                 const LoadOptions& options)
    : checkpoint_(checkpoint), config_(config), options_(options) {}

std::string Weights::name(const char* gguf, const char* hf, int layer) const {
    std::string text = checkpoint_.format() == checkpoint::FileFormat::gguf ? gguf : hf;
    if (const size_t at = text.find("{}"); at != std::string::npos)
        text.replace(at, 2, std::to_string(layer));
    return text;
}

const checkpoint::Tensor* Weights::find(const char* gguf, const char* hf, int layer,
                                        std::initializer_list<int64_t> shape) {
    if (error_) return nullptr;
    const std::string wanted = name(gguf, hf, layer);
    const checkpoint::Tensor* tensor = checkpoint_.find(wanted);
    if (!tensor) {
        error_ = Error{ErrorCode::corrupt_data, "tensor " + wanted + " " + shape_text(shape) + " is missing"};
        return nullptr;
    }
    if (!std::equal(shape.begin(), shape.end(), tensor->shape.begin(), tensor->shape.end())) {
        error_ = Error{ErrorCode::corrupt_data, "tensor " + wanted + " has shape " + tensor->shape_string() +
                                                    "; the configuration asks for " + shape_text(shape)};
        return nullptr;
    }
    if (used_.insert(wanted).second) parameters_ += static_cast<uint64_t>(tensor->values());
    return tensor;
}

void Weights::matrix(kernels::Linear& target, const char* gguf, const char* hf, int layer, int64_t outputs,
                     int64_t inputs) {
    if (const auto* tensor = find(gguf, hf, layer, {outputs, inputs}))
        pending_.push_back({&target, {tensor->type, outputs, inputs, tensor->data}});
}

void Weights::vector(std::vector<float>& target, const char* gguf, const char* hf, int layer,
                     int64_t values) {
    const auto* tensor = find(gguf, hf, layer, {values});
    if (!tensor) return;
    target.resize(static_cast<size_t>(values));
    kernels::dequantize_row(tensor->type, tensor->data.data(), target.data(), target.size());
}

void Weights::norm(std::vector<float>& target, const char* gguf, const char* hf, int layer, int64_t values) {
    vector(target, gguf, hf, layer, values);
    if (config_.norm_weights_minus_one)
        for (float& w : target) w += 1.0f;
}

void Weights::embedding(kernels::MatrixView& target, const char* gguf, const char* hf, int64_t rows,
                        int64_t columns) {
    const auto* tensor = find(gguf, hf, 0, {rows, columns});
    if (!tensor) return;
    target = {tensor->type, rows, columns, tensor->data};
    mapped_bytes_ += tensor->data.size();
}

Status Weights::check_leftovers() const {
    for (const checkpoint::Tensor& tensor : checkpoint_.tensors()) {
        if (used_.contains(tensor.name) || tensor.name == "rope_freqs.weight") continue;
        // Derived from the configuration; some exporters store it anyway.
        if (tensor.name.ends_with("rotary_emb.inv_freq")) continue;
        if (config_.tied_embeddings && tensor.name == "lm_head.weight") continue;
        return Error{ErrorCode::unsupported, "tensor " + tensor.name + " " + tensor.shape_string() +
                                                 " is not part of architecture '" + config_.architecture +
                                                 "' as it is supported here"};
    }
    return {};
}

Result<HugeBuffer> Weights::pack(kernels::Context& context, ModelInfo& info) {
    if (error_) return *error_;
    if (Status leftovers = check_leftovers(); !leftovers) return leftovers.error();
    uint64_t packed = 0;
    std::vector<size_t> offsets;
    for (const Pending& p : pending_) {
        offsets.push_back(packed);
        const size_t bytes = kernels::Linear::packed_bytes(p.view, options_.compute);
        packed += (bytes + 4095) / 4096 * 4096;
        if (bytes == 0) mapped_bytes_ += p.view.data.size();
    }
    // Mapped weights are read again for every token: where they do not stay in memory, answers take minutes.
    const std::optional<uint64_t> available = available_memory();
    if (available && packed + mapped_bytes_ > *available)
        return Error{ErrorCode::resource_exhausted,
                     "the model does not fit into memory: its weights take " + format_bytes(packed) +
                         " in memory and " + format_bytes(mapped_bytes_) + " mapped from the file, " +
                         format_bytes(*available) +
                         " are available; use a smaller model or a smaller quantisation"};
    auto buffer = HugeBuffer::allocate(packed);
    if (!buffer) return std::move(buffer).error();
    for (size_t i = 0; i < pending_.size(); ++i) {
        if (options_.progress) options_.progress(offsets[i], packed);
        *pending_[i].target =
            kernels::Linear(context, pending_[i].view, options_.compute, buffer->data() + offsets[i]);
        if (!pending_[i].target->references_checkpoint()) checkpoint_.release_pages(pending_[i].view.data);
    }
    if (options_.progress) options_.progress(packed, packed);
    info.weight_bytes = packed;
    info.mapped_bytes = mapped_bytes_;
    info.parameters = parameters_;
    return buffer;
}

}  // namespace deepinfer::models
