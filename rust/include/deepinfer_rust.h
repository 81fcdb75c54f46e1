/* C ABI of the Rust static library: chat templates (Jinja as Hugging Face transformers runs it) through minijinja.
 *
 * Texts are UTF-8 with a length, without a terminating NUL. No function throws or lets a Rust panic out; a panic
 * arrives as an error text. A compiled template is immutable: any number of threads may render it at once. */
#ifndef DEEPINFER_RUST_H
#define DEEPINFER_RUST_H

#include <stdbool.h>
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
 * text. True: *result is the text; false: *result says what went wrong. */
bool deepinfer_template_render(const DeepinferTemplate* compiled, const char* context, size_t context_size,
                               int64_t unix_seconds, uint64_t fuel, size_t max_output_bytes, DeepinferText* result);

void deepinfer_text_free(DeepinferText text);

#ifdef __cplusplus
}
#endif

#endif
