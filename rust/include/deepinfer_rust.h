/* C ABI of the Rust static library: chat templates (Jinja as Hugging Face transformers runs it) through minijinja.
 *
 * Texts are UTF-8 with a length, without a terminating NUL. No function throws or lets a Rust panic out; a panic
 * arrives as an error text. A compiled template is immutable: any number of threads may render it at once. */
#ifndef DEEPINFER_RUST_H
#define DEEPINFER_RUST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct DeepinferTemplate DeepinferTemplate;

/* Owned by the caller, who gives it to deepinfer_text_free() exactly once. */
typedef struct DeepinferText {
    char* data;
    size_t size;
} DeepinferText;

/* NULL on a syntax error; then *error is set. Free with deepinfer_template_free(). */
DeepinferTemplate* deepinfer_template_compile(const char* source, size_t source_size, DeepinferText* error);
void deepinfer_template_free(DeepinferTemplate* compiled);

/* Renders with the members of the JSON object `context` as variables. `unix_seconds` is what strftime_now() shows
 * (UTC). `fuel` bounds instructions and bytes produced (one unit: one instruction or 64 bytes), `max_output_bytes` the
 * text, `max_milliseconds` the time, which is only then needed when neither counts what keeps the engine busy: what took
 * longer goes on on a thread of its own, and until it ends, further calls with this template are too slow at once.
 * *result is the text, or says what went wrong. */
typedef enum DeepinferRendered {
    DEEPINFER_RENDERED = 0,
    DEEPINFER_RENDERING_FAILED = 1,
    DEEPINFER_RENDERING_TOO_SLOW = 2,
} DeepinferRendered;
DeepinferRendered deepinfer_template_render(const DeepinferTemplate* compiled, const char* context,
                                            size_t context_size, int64_t unix_seconds, uint64_t fuel,
                                            size_t max_output_bytes, uint32_t max_milliseconds,
                                            DeepinferText* result);

void deepinfer_text_free(DeepinferText text);

#ifdef __cplusplus
}
#endif

#endif
