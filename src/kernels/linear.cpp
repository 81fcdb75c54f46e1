#include "kernels/linear.h"

#include <algorithm>
#include <cstring>

#include "kernels/dequantize.h"

namespace deepinfer::kernels {

namespace {

constexpr int piece_columns = 256;  // a whole number of blocks of every format
// Activations that are quantised by one thread: about as long as it takes to call another.
constexpr int smallest_split = 4096;

uint8_t* align64(uint8_t* p) {
    return reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(p) + 63) & ~uintptr_t{63});
}

// Smallest hand-out in panels. Few rows are bound by memory and want long runs; many rows are bound by compute and
// want balance.
int smallest_piece(int rows) { return rows <= 12 ? 4 : rows <= 32 ? 2 : 1; }

int panel_count(int outputs) { return (outputs + panel_outputs - 1) / panel_outputs; }

void pack_panels(const Packing& matrix, WeightLayout layout, int begin, int end, const PackedSlice& done,
                 int thread) {
    const MatrixView& view = matrix.view;
    const int rows = static_cast<int>(view.rows), columns = static_cast<int>(view.columns);
    const size_t panel = panel_bytes(layout, columns),
                 source = panel_outputs * row_bytes(view.type, static_cast<size_t>(columns));
    const int slice = std::max(1, static_cast<int>((size_t{1} << 20) / source));
    for (int first = begin; first < end; first += slice) {
        const int last = std::min(first + slice, end);
        for (int p = first; p < last; ++p)
            pack_panel(layout, view.data.data() + static_cast<size_t>(p) * source,
                       std::min(panel_outputs, rows - p * panel_outputs), columns,
                       matrix.memory + static_cast<size_t>(p) * panel);
        if (!done) continue;
        const size_t from = static_cast<size_t>(first) * source,
                     to = std::min(static_cast<size_t>(last) * source, view.data.size());
        done(view.data.subspan(from, to - from), static_cast<size_t>(last - first) * panel, thread);
    }
}

}  // namespace

uint8_t* Context::scratch(int thread, size_t bytes) {
    Scratch& s = scratch_[static_cast<size_t>(thread)];
    if (s.bytes < bytes + 64) {
        s.memory = std::make_unique<uint8_t[]>(bytes + 64);
        s.bytes = bytes + 64;
    }
    return align64(s.memory.get());
}

void Activations::reset(const float* x, int rows, int columns) {
    x_ = x;
    filled_ = nullptr;
    rows_ = rows;
    columns_ = columns;
    for (Form& form : forms_) form.ready = false;
}

void Activations::reset(float* x, int rows, int columns, FillRow fill) {
    reset(x, rows, columns);
    filled_ = x;
    fill_ = std::move(fill);
}

const ActivationTiles& Activations::form(Context& context, ActivationLayout layout) {
    Form& form = forms_[static_cast<int>(layout)];
    if (form.ready) return form.tiles;
    const int most = context.table.tile_rows[static_cast<int>(layout)], tiles = (rows_ + most - 1) / most;
    form.first_row.resize(static_cast<size_t>(tiles) + 1);
    for (int t = 0; t <= tiles; ++t)  // equal tiles: 16 rows are 8 + 8, not 12 + 4
        form.first_row[static_cast<size_t>(t)] = static_cast<int>(static_cast<int64_t>(rows_) * t / tiles);
    const size_t stride = activation_row_bytes(context.table, layout, columns_),
                 width = static_cast<size_t>(columns_);
    if (form.bytes.size() < stride * static_cast<size_t>(rows_) + 64)
        form.bytes.resize(stride * static_cast<size_t>(rows_) + 64);
    uint8_t* out = align64(form.bytes.data());
    const auto fill = [&](int first, int last) {
        for (int r = first; r < last; ++r) fill_(r, filled_ + static_cast<size_t>(r) * width);
    };
    const auto quantize = [&](int t, int k0, int k1) {
        const int first = form.first_row[static_cast<size_t>(t)],
                  n = form.first_row[static_cast<size_t>(t) + 1] - first;
        context.table.quantize(layout, x_ + static_cast<size_t>(first) * width + k0, width, n, k1 - k0,
                               out + stride * static_cast<size_t>(first) +
                                   activation_row_bytes(context.table, layout, k0) * static_cast<size_t>(n));
    };
    if (tiles >= 4 * context.pool.threads()) {  // a tile is quantised while its rows are in cache
        context.pool.for_each(tiles, std::max(1, 8 / most), [&](int begin, int end, int) {
            for (int t = begin; t < end; ++t) {
                if (filled_)
                    fill(form.first_row[static_cast<size_t>(t)], form.first_row[static_cast<size_t>(t) + 1]);
                quantize(t, 0, columns_);
            }
        });
    } else {
        // The rows of a tile share cache lines, so few rows are divided between threads by columns.
        const int pieces = (columns_ + piece_columns - 1) / piece_columns, items = tiles * pieces;
        const auto share = [&](int count) {
            const int shares = rows_ * columns_ < smallest_split ? 1 : 2 * context.pool.threads();
            return (count + shares - 1) / shares;
        };
        if (filled_)
            context.pool.for_each(rows_, share(rows_), [&](int begin, int end, int) { fill(begin, end); });
        context.pool.for_each(items, share(items), [&](int begin, int end, int) {
            for (int i = begin; i < end; ++i) {
                const int k = i % pieces * piece_columns;
                quantize(i / pieces, k, std::min(k + piece_columns, columns_));
            }
        });
    }
    filled_ = nullptr;
    form.tiles = {rows_, columns_, tiles, form.first_row.data(), out, stride};
    form.ready = true;
    return form.tiles;
}

size_t Linear::packed_bytes(const MatrixView& view, Compute compute) {
    const auto layout = packed_layout(view.type, compute);
    if (!layout) return 0;
    const size_t panels = static_cast<size_t>((view.rows + panel_outputs - 1) / panel_outputs);
    return panels * panel_bytes(*layout, static_cast<int>(view.columns));
}

Linear::Linear(const MatrixView& view, Compute compute, const uint8_t* memory)
    : outputs_(static_cast<int>(view.rows)), columns_(static_cast<int>(view.columns)) {
    if (const auto layout = packed_layout(view.type, compute)) {
        layout_ = *layout;
        packed_ = memory;
    } else {
        rows_ = view;
    }
}

Linear::Linear(Context& context, const MatrixView& view, Compute compute, uint8_t* memory)
    : Linear(view, compute, memory) {
    const Packing matrix{view, memory};
    pack(context, {&matrix, 1}, compute);
}

size_t Linear::bytes() const {
    return packed_ ? static_cast<size_t>(panel_count(outputs_)) * panel_bytes(layout_, columns_)
                   : rows_.data.size();
}

void pack(Context& context, std::span<const Packing> matrices, Compute compute, const PackedSlice& done) {
    int panels = 0;
    for (const Packing& m : matrices) panels += panel_count(static_cast<int>(m.view.rows));
    context.pool.for_each_guided(panels, 4, [&](int begin, int end, int thread) {
        int first = 0;  // of the matrix's panels in the common count
        for (const Packing& m : matrices) {
            const auto layout = packed_layout(m.view.type, compute);
            const int count = panel_count(static_cast<int>(m.view.rows)), from = std::max(begin - first, 0),
                      to = std::min(end - first, count);
            if (layout && from < to) pack_panels(m, *layout, from, to, done, thread);
            first += count;
        }
    });
}

void multiply(Context& context, Activations& x, std::span<const Product> products) {
    if (x.rows() == 0) return;
    int panels = 0;
    for (const Product& p : products) {
        x.form(context, p.w->activation_layout());
        panels += panel_count(p.w->outputs());
    }
    context.pool.for_each_guided(panels, smallest_piece(x.rows()), [&](int begin, int end, int thread) {
        int first = 0;  // of the product's panels in the common count
        for (const Product& p : products) {
            const int count = panel_count(p.w->outputs()), from = std::max(begin - first, 0),
                      to = std::min(end - first, count);
            if (from < to) p.w->compute_panels(context, x, p, from, to, thread);
            first += count;
        }
    });
}

void Linear::compute_panels(Context& context, Activations& x, const Product& product, int begin, int end,
                            int thread) const {
    if (packed_)
        compute_packed(context, x, product, begin, end, thread);
    else
        compute_dequantised(context, x, product, begin, end, thread);
}

void Linear::compute_packed(Context& context, Activations& x, const Product& product, int begin, int end,
                            int thread) const {
    GemmArgs args;
    args.weights = packed_;
    args.activations = x.form(context, activation_layout());
    args.y = product.y;
    args.ldy = product.ldy;
    args.bias = product.bias;
    args.add = product.add;
    args.outputs = outputs_;
    args.first_panel = begin;
    args.last_panel = end;
    if (const size_t scratch = gemm_scratch_bytes(layout_, columns_))
        args.scratch = context.scratch(thread, scratch);
    context.table.gemm(layout_, args);
}

// Dequantises 16 rows x 256 columns at a time and continues the accumulators, which wait in y: the same order
// as a panel.
void Linear::compute_dequantised(Context& context, Activations& x, const Product& product, int begin, int end,
                                 int thread) const {
    const ActivationTiles& act = x.form(context, ActivationLayout::f32);
    const size_t row = row_bytes(rows_.type, static_cast<size_t>(columns_));
    constexpr size_t piece_floats = static_cast<size_t>(piece_columns) * panel_outputs;
    const size_t out_floats = static_cast<size_t>(act.rows) * panel_outputs;
    auto* rows =
        reinterpret_cast<float*>(context.scratch(thread, (2 * piece_floats + out_floats) * sizeof(float)));
    float *panel = rows + piece_floats, *out = panel + piece_floats;
    for (int p = begin; p < end; ++p) {
        const int first = p * panel_outputs, valid = std::min(panel_outputs, outputs_ - first);
        for (int k0 = 0; k0 < columns_; k0 += piece_columns) {
            const int n = std::min(piece_columns, columns_ - k0);
            std::memset(rows, 0, piece_floats * sizeof(float));
            for (int i = 0; i < valid; ++i)
                dequantize_row(rows_.type,
                               rows_.data.data() + static_cast<size_t>(first + i) * row +
                                   row_bytes(rows_.type, static_cast<size_t>(k0)),
                               rows + i * piece_columns, static_cast<size_t>(n));
            for (int k = 0; k < n; ++k)
                for (int i = 0; i < panel_outputs; ++i)
                    panel[k * panel_outputs + i] = rows[i * piece_columns + k];
            for (int t = 0; t < act.tiles; ++t) {
                const int r0 = act.first_row[t], r = act.first_row[t + 1] - r0;
                const float* a =
                    reinterpret_cast<const float*>(act.data + static_cast<size_t>(r0) * act.row_stride) +
                    static_cast<size_t>(k0) * static_cast<size_t>(r);
                context.table.gemm_piece_f32(panel, a, r, n, out + static_cast<size_t>(r0) * panel_outputs,
                                             panel_outputs, k0 > 0);
            }
        }
        for (int r = 0; r < act.rows; ++r)
            for (int i = 0; i < valid; ++i) {
                float v = out[r * panel_outputs + i],
                      *y = product.y + static_cast<size_t>(r) * product.ldy + static_cast<size_t>(first + i);
                if (product.bias) v += product.bias[first + i];
                *y = product.add ? *y + v : v;
            }
    }
}

}  // namespace deepinfer::kernels
