// Norms, rotary embedding, gated activations, reductions over a vocabulary. n is a multiple of 16 unless said
// otherwise; sums run in 16 lanes over the vector and end in a fixed tree.
#include "kernels/simd/kernel_functions.h"
#include "kernels/simd/simd.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

void rms_norm(const float* x, const float* weight, float eps, int n, float* y) {
    F32 s = zero();
    for (int i = 0; i < n; i += 16) {
        const F32 v = load(x + i);
        s = fma(v, v, s);
    }
    const F32 factor = set1(1.f / __builtin_sqrtf(reduce_add(s) / (float)n + eps));
    for (int i = 0; i < n; i += 16) store(y + i, mul(mul(load(x + i), factor), load(weight + i)));
}

void rope(float* x, const float* cos_sin, int rotary_dim, bool interleaved) {
    const int half = rotary_dim / 2;
    const float *c = cos_sin, *s = cos_sin + half;
    int i = 0;
    if (!interleaved)
        for (; i + 16 <= half; i += 16) {
            const F32 u = load(x + i), v = load(x + half + i), cosine = load(c + i), sine = load(s + i);
            store(x + i, sub(mul(u, cosine), mul(v, sine)));
            store(x + half + i, add(mul(u, sine), mul(v, cosine)));
        }
    for (; i < half; ++i) {
        float* a = interleaved ? x + 2 * i : x + i;
        float* b = interleaved ? a + 1 : x + i + half;
        const float u = *a, v = *b;
        *a = u * c[i] - v * s[i];
        *b = u * s[i] + v * c[i];
    }
}

void silu_mul(const float* gate, const float* up, int n, float* y) {
    for (int i = 0; i < n; i += 16) {
        const F32 g = load(gate + i);
        store(y + i, mul(mul(g, sigmoid(g)), load(up + i)));
    }
}

// 0.5 g (1 + tanh(u)) = g sigmoid(2u), u = sqrt(2/pi) (g + 0.044715 g^3)
void gelu_mul(const float* gate, const float* up, int n, float* y) {
    for (int i = 0; i < n; i += 16) {
        const F32 g = load(gate + i);
        const F32 cubic = fma(mul(mul(g, g), set1(0.044715f)), g, g);
        store(y + i, mul(mul(g, sigmoid(mul(cubic, set1(2 * 0.7978845608f)))), load(up + i)));
    }
}

void add_vectors(const float* x, const float* y, int n, float* out) {
    for (int i = 0; i < n; i += 16) store(out + i, add(load(x + i), load(y + i)));
}

void scale_vector(float* x, float factor, int n) {
    for (int i = 0; i < n; i += 16) store(x + i, mul(load(x + i), set1(factor)));
}

// Any n.
void exp_scaled(const float* x, int n, float top, float factor, float* y) {
    const F32 m = set1(top), f = set1(factor);
    int i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, exp_negative(mul(sub(load(x + i), m), f)));
    if (i == n) return;
    alignas(64) float tail[16] = {};
    for (int j = 0; i + j < n; ++j) tail[j] = x[i + j];
    store(tail, exp_negative(mul(sub(load(tail), m), f)));
    for (int j = 0; i + j < n; ++j) y[i + j] = tail[j];
}

// Any n.
int argmax(const float* x, int n) {
    F32 top = set1(-__builtin_inff());
    bool nan = false;
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        const F32 v = load(x + i);
        top = max(v, top);
        nan |= any_nan(v);
    }
    float best = reduce_max(top);
    for (; i < n; ++i) {
        best = x[i] > best ? x[i] : best;
        nan |= x[i] != x[i];
    }
    for (i = 0; i < n; ++i)
        if (nan ? x[i] != x[i] : x[i] == best) return i;
    return 0;
}

// n a multiple of 16.
bool all_within(const float* x, int n, float limit) {
    F32 most = zero();
    bool nan = false;
    for (int i = 0; i < n; i += 16) {
        const F32 v = load(x + i);
        most = max(abs(v), most);
        nan |= any_nan(v);
    }
    return !nan && reduce_max(most) <= limit;
}

// Any n. `max` is the largest element.
float log_sum_exp(const float* x, int n, float top) {
    F32 s = zero();
    int i = 0;
    for (; i + 16 <= n; i += 16) s = add(s, exp_negative(sub(load(x + i), set1(top))));
    if (i < n) {
        alignas(64) float tail[16];
        for (int j = 0; j < 16; ++j) tail[j] = i + j < n ? x[i + j] : -__builtin_inff();
        s = add(s, exp_negative(sub(load(tail), set1(top))));
    }
    return top + __builtin_logf(reduce_add(s));
}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
