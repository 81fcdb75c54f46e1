// y = x W^T for a weight matrix W [outputs, inputs] as a checkpoint stores it.
//
// Two ways to compute (Compute):
//   serve  the format's own kernel: int8 activations for the quantised formats, one scale per 32 (per 256 for K-quants),
//          BF16 activations for BF16, float activations for F32 and F16.
//   f32    weights as stored, dequantised exactly, activations float32.
// Either way an output element is one accumulator over k in increasing order: the same bits for any number of rows, threads
// and instruction set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "base/tensor_type.h"
#include "base/thread_pool.h"
#include "kernels/isa.h"
#include "kernels/kernel_table.h"
#include "kernels/pack.h"

namespace deepinfer::kernels {

// What every kernel call needs: the threads, the instruction set, scratch memory per thread. One per model,
// used by one thread at a time.
class Context {
  public:
    Context(ThreadPool& threads, Isa isa)
        : pool(threads), table(kernel_table(isa)), scratch_(static_cast<size_t>(threads.threads())) {}

    ThreadPool& pool;
    const KernelTable& table;

    // At least `bytes` of 64-byte aligned memory of this thread's own, contents undefined.
    uint8_t* scratch(int thread, size_t bytes);

  private:
    struct Scratch {
        std::unique_ptr<uint8_t[]> memory;
        size_t bytes = 0;
    };
    std::vector<Scratch> scratch_;
};

// A view of a stored matrix: `rows` rows of `columns` values, contiguous.
struct MatrixView {
    TensorType type = TensorType::f32;
    int64_t rows = 0, columns = 0;
    std::span<const std::byte> data;
};

// Rows of activations [rows][columns] together with the quantised forms that the kernels asked for so far.
// Valid while the float rows are unchanged; reset() after changing them.
class Activations {
  public:
    // Writes one row's `columns` values.
    using FillRow = std::function<void(int row, float* values)>;

    // The rows at x.
    void reset(const float* x, int rows, int columns);
    // Rows that `fill` writes to x when the first form is made: each is quantised while it is still in cache. What
    // `fill` reads must be unchanged until then.
    void reset(float* x, int rows, int columns, FillRow fill);

    // Makes the form for this layout, unless it is there (in parallel for many rows).
    const ActivationTiles& form(Context& context, ActivationLayout layout);

    int rows() const { return rows_; }
    int columns() const { return columns_; }

  private:
    struct Form {
        bool ready = false;
        std::vector<int> first_row;
        std::vector<uint8_t> bytes;
        ActivationTiles tiles;
    };
    const float* x_ = nullptr;
    float* filled_ = nullptr;  // where fill_ still has to write
    FillRow fill_;
    int rows_ = 0, columns_ = 0;
    Form forms_[activation_layouts];
};

// A matrix and where it is to be packed: packed_bytes() long, zeroed, 64-byte aligned.
struct Packing {
    MatrixView view;
    uint8_t* memory = nullptr;
};
// Told by the packing threads about each slice of a matrix (about a MiB) when it is done.
using PackedSlice = std::function<void(std::span<const std::byte> source, size_t packed_bytes, int thread)>;

// Packs the matrices of one multiply(). Panels are handed out as multiply() does it, so that memory is first touched
// by a thread of the node that will read it.
void pack(Context& context, std::span<const Packing> matrices, Compute compute, const PackedSlice& done = {});

struct Product;

class Linear {
  public:
    // Bytes the matrix takes packed; 0 if there is no kernel for it, so that it is used as stored.
    static size_t packed_bytes(const MatrixView& view, Compute compute);
    Linear() = default;
    // The matrix that pack() wrote to `memory`. One that is not packed is referenced: `view.data` must stay
    // mapped. Requires columns % 16 == 0.
    Linear(const MatrixView& view, Compute compute, const uint8_t* memory);
    // The same after packing it.
    Linear(Context& context, const MatrixView& view, Compute compute, uint8_t* memory);

    int outputs() const { return outputs_; }
    int columns() const { return columns_; }
    bool references_checkpoint() const { return packed_ == nullptr; }
    size_t bytes() const;  // that multiply() reads of it

  private:
    friend void multiply(Context&, Activations&, std::span<const Product>);
    ActivationLayout activation_layout() const {
        return packed_ ? activation_layout_for(layout_) : ActivationLayout::f32;
    }
    void compute_panels(Context& context, Activations& x, const Product& product, int begin, int end,
                        int thread) const;
    void compute_packed(Context& context, Activations& x, const Product& product, int begin, int end,
                        int thread) const;
    void compute_dequantised(Context& context, Activations& x, const Product& product, int begin, int end,
                             int thread) const;

    int outputs_ = 0, columns_ = 0;
    WeightLayout layout_ = WeightLayout::f32;
    const uint8_t* packed_ = nullptr;
    MatrixView rows_;  // used when not packed
};

// y[r * ldy + o] = sum over k of x[r][k] w[o][k], + bias[o] if there is one; with `add`, y += that.
struct Product {
    const Linear* w = nullptr;
    float* y = nullptr;
    size_t ldy = 0;
    const float* bias = nullptr;
    bool add = false;
};

// All products of the same x, in one parallel phase.
void multiply(Context& context, Activations& x, std::span<const Product> products);

}  // namespace deepinfer::kernels
