//! C ABI over the Rust libraries that deepinfer links. See include/deepinfer_rust.h for the contract.
//!
//! Every entry point catches panics and turns them into an error text: nothing unwinds into C++.

mod python;
mod strftime;
mod template;

use std::os::raw::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use template::{ChatTemplate, Failure, RenderLimits};

/// A text that Rust allocated and `deepinfer_text_free` frees. Not NUL-terminated.
#[repr(C)]
pub struct DeepinferText {
    data: *mut c_char,
    size: usize,
}

impl DeepinferText {
    fn new(text: String) -> Self {
        let bytes = text.into_bytes().into_boxed_slice();
        let size = bytes.len();
        DeepinferText { data: Box::into_raw(bytes) as *mut c_char, size }
    }
}

/// # Safety
/// `data` must point to `size` readable bytes, or `size` be 0.
unsafe fn utf8<'a>(data: *const c_char, size: usize, what: &str) -> Result<&'a str, String> {
    if size == 0 {
        return Ok("");
    }
    std::str::from_utf8(std::slice::from_raw_parts(data as *const u8, size))
        .map_err(|error| format!("{what} is not valid UTF-8 at byte {}", error.valid_up_to()))
}

fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown reason");
        Err(format!("the template engine failed: {reason}"))
    })
}

/// # Safety
/// See include/deepinfer_rust.h.
#[no_mangle]
pub unsafe extern "C" fn deepinfer_template_compile(
    source: *const c_char,
    source_size: usize,
    error: *mut DeepinferText,
) -> *mut ChatTemplate {
    match guarded(|| ChatTemplate::compile(utf8(source, source_size, "the template")?)) {
        Ok(compiled) => Box::into_raw(Box::new(compiled)),
        Err(message) => {
            *error = DeepinferText::new(message);
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// See include/deepinfer_rust.h.
#[no_mangle]
pub unsafe extern "C" fn deepinfer_template_free(compiled: *mut ChatTemplate) {
    if !compiled.is_null() {
        drop(Box::from_raw(compiled));
    }
}

/// # Safety
/// See include/deepinfer_rust.h.
#[no_mangle]
pub unsafe extern "C" fn deepinfer_template_render(
    compiled: *const ChatTemplate,
    context_json: *const c_char,
    context_size: usize,
    unix_seconds: i64,
    fuel: u64,
    max_output_bytes: usize,
    max_milliseconds: u32,
    result: *mut DeepinferText,
) -> DeepinferRendered {
    let limits = RenderLimits { fuel, max_output_bytes, time: Duration::from_millis(max_milliseconds.into()) };
    let rendered = guarded(|| {
        Ok((*compiled).render(utf8(context_json, context_size, "the context")?, unix_seconds, limits))
    });
    let (outcome, text) = match rendered.unwrap_or_else(|message| Err(Failure::from(message))) {
        Ok(text) => (DeepinferRendered::Ok, text),
        Err(failure) if failure.too_slow => (DeepinferRendered::TooSlow, failure.message),
        Err(failure) => (DeepinferRendered::Failed, failure.message),
    };
    *result = DeepinferText::new(text);
    outcome
}

#[repr(C)]
pub enum DeepinferRendered {
    Ok = 0,
    Failed = 1,
    TooSlow = 2,
}

/// # Safety
/// See include/deepinfer_rust.h.
#[no_mangle]
pub unsafe extern "C" fn deepinfer_text_free(text: DeepinferText) {
    if !text.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(text.data as *mut u8, text.size)));
    }
}
