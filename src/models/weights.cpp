#include "models/weights.h"

#include <algorithm>
#include <atomic>

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
        pending_.push_back({tensor->name,
                            &target,
                            {tensor->type, outputs, inputs, tensor->data},
                            static_cast<int>(pending_.size())});
}

void Weights::together(int count) {
    if (error_) return;
    const size_t first = pending_.size() - static_cast<size_t>(count);
    for (size_t i = first; i < pending_.size(); ++i) pending_[i].group = static_cast<int>(first);
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

// Packed matrices start at page borders.
void Weights::lay_out() {
    for (Pending& p : pending_) {
        p.offset = packed_bytes_;
        p.bytes = kernels::Linear::packed_bytes(p.view, options_.compute);
        packed_bytes_ += (p.bytes + 4095) / 4096 * 4096;
        if (p.bytes == 0) mapped_bytes_ += p.view.data.size();
    }
}

// Whether the weights fit where they are, or where they are about to be `built`. Mapped weights are read again for every
// token: where they do not stay in memory, answers take minutes.
Status Weights::check_memory(WeightPlace place, bool built) const {
    // Memory files that exist, and huge pages at all, are no longer part of what is available.
    const bool taken = place == WeightPlace::huge_page_file || (place == WeightPlace::memory_file && !built);
    const uint64_t packed = taken ? 0 : packed_bytes_;
    const std::optional<uint64_t> available = available_memory();
    if (!available || packed + mapped_bytes_ <= *available) return {};
    return Error{ErrorCode::resource_exhausted,
                 "the model does not fit into memory: its weights take " + format_bytes(packed) +
                     " in memory and " + format_bytes(mapped_bytes_) + " mapped from the file, " +
                     format_bytes(*available) +
                     " are available; use a smaller model or a smaller quantisation"};
}

// Packs all matrices into zero-filled memory. What was read from the checkpoint is given back at once, so that no
// more than a few MiB are in memory twice.
void Weights::fill(kernels::Context& context, uint8_t* memory) {
    std::atomic<uint64_t> done{0};
    const auto finished = [&](std::span<const std::byte> source, size_t packed, int thread) {
        checkpoint_.release_pages(source);
        const uint64_t now = done.fetch_add(packed, std::memory_order_relaxed) + packed;
        if (thread == 0 && options_.progress)
            options_.progress(std::min(now, packed_bytes_ - 1), packed_bytes_);
    };
    if (options_.progress) options_.progress(0, packed_bytes_);
    std::vector<kernels::Packing> group;
    for (auto begin = pending_.begin(), end = begin; begin != pending_.end(); begin = end) {
        group.clear();
        for (; end != pending_.end() && end->group == begin->group; ++end)
            group.push_back({end->view, memory + end->offset});
        kernels::pack(context, group, options_.compute, finished);
        for (auto p = begin; p != end; ++p)
            if (p->bytes > 0) checkpoint_.release_pages(p->view.data);  // pages across borders of slices
    }
    if (options_.progress) options_.progress(packed_bytes_, packed_bytes_);
}

Result<WeightIdentity> Weights::identity() const {
    std::string files, layout;
    for (const checkpoint::FileStamp& file : checkpoint_.files())
        files += std::to_string(file.bytes) + " " + std::to_string(file.modified_ns) + "\n";
    if (files.empty())
        return Error{ErrorCode::invalid_argument,
                     "weights that do not come from a file cannot be kept in a weight file"};
    for (const Pending& p : pending_) {
        const auto packed = kernels::packed_layout(p.view.type, options_.compute);
        layout += std::to_string(p.name.size()) + " " + p.name + " " + to_string(p.view.type) + " " +
                  std::to_string(p.view.rows) + " " + std::to_string(p.view.columns) + " " +
                  std::to_string(packed ? static_cast<int>(*packed) : -1) + " " + std::to_string(p.offset) +
                  " " + std::to_string(p.bytes) + "\n";
    }
    return WeightIdentity{kernels::pack_version, static_cast<uint32_t>(options_.compute),
                          pending_.size(),       packed_bytes_,
                          digest(files),         digest(layout)};
}

Result<WeightFile> Weights::shared(kernels::Context& context) {
    const auto wanted = identity();
    if (!wanted) return wanted.error();
    const auto open = [&]() -> Result<WeightFile> {
        auto file = open_weight_file(options_.weight_file, *wanted);
        if (!file) return file;
        if (Status fits = check_memory(file->place, false); !fits) return fits.error();
        if (Status read = read_in(*file, context.pool, options_.progress); !read) return read.error();
        if (options_.verify_weight_file)
            if (Status whole = verify(*file, context.pool); !whole)
                return Error{ErrorCode::not_found, whole.error().message};  // to be built again
        return file;
    };
    auto file = open();
    if (file || file.error().code != ErrorCode::not_found) return file;
    auto builder = WeightFileBuilder::start(options_.weight_file, options_.notice);
    if (!builder) return std::move(builder).error();
    file = open();  // another may have built it meanwhile
    if (file || file.error().code != ErrorCode::not_found) return file;
    if (options_.notice)
        options_.notice("building weight file " + options_.weight_file.string() + ": " +
                        file.error().message);
    if (Status fits = check_memory(builder->place(), true); !fits) return fits.error();
    if (Status room = builder->reserve(*wanted, context.pool); !room) return room.error();
    fill(context, builder->data());
    return builder->finish(context.pool);
}

Result<HugeBuffer> Weights::pack(kernels::Context& context, ModelInfo& info) {
    if (error_) return *error_;
    if (Status leftovers = check_leftovers(); !leftovers) return leftovers.error();
    lay_out();
    HugeBuffer memory;
    const uint8_t* data = nullptr;
    if (options_.weight_file.empty()) {
        if (Status fits = check_memory(WeightPlace::private_memory, true); !fits) return fits.error();
        auto buffer = HugeBuffer::allocate(packed_bytes_);
        if (!buffer) return std::move(buffer).error();
        fill(context, buffer->data());
        memory = std::move(*buffer);
        data = memory.data();
    } else {
        auto file = shared(context);
        if (!file) return std::move(file).error();
        data = file->data();
        info.weight_place = file->place;
        memory = std::move(file->memory);
    }
    for (const Pending& p : pending_) *p.target = kernels::Linear(p.view, options_.compute, data + p.offset);
    info.weight_bytes = packed_bytes_;
    info.mapped_bytes = mapped_bytes_;
    info.parameters = parameters_;
    return memory;
}

int64_t Weights::read_bytes() const {
    int64_t bytes = 0;
    for (const Pending& p : pending_) bytes += static_cast<int64_t>(p.target->bytes());
    return bytes;
}

}  // namespace deepinfer::models
