//! Chat templates: Jinja as Hugging Face transformers runs it.
//!
//! Same whitespace rules (trim_blocks, lstrip_blocks), same extra functions and filters, Python's spelling of values.
//! A template comes from a model file and is not trusted: instructions, bytes and recursion are bounded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};

use crate::guarded;
use crate::python;
use crate::strftime::strftime;

const NAME: &str = "chat_template";
const NOW: &str = "__unix_seconds";
/// Nested macro calls and blocks; templates in the field stay below 10.
const RECURSION_LIMIT: usize = 100;
/// Templates in the field stay below 64 KiB. Compiling may take time that grows with the square of the size.
const MAX_TEMPLATE_BYTES: usize = 128 << 10;
const COMPILE_TIME: Duration = Duration::from_secs(10);
const DEEP_STACK_BYTES: usize = 512 << 20;
/// What compiling may need: an operator of one byte ("-") is a level of recursion through the parser.
const STACK_BYTES_PER_SOURCE_BYTE: usize = 4 << 10;

pub struct ChatTemplate {
    environment: Environment<'static>,
    runaways: Arc<AtomicUsize>,
}

/// What went wrong, and whether it was a limit of time.
#[derive(Debug)]
pub struct Failure {
    pub message: String,
    pub too_slow: bool,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure { message, too_slow: false }
    }
}

#[derive(Clone, Copy)]
pub struct RenderLimits {
    pub fuel: u64,
    pub max_output_bytes: usize,
    pub time: Duration,
}

impl ChatTemplate {
    /// The parser, the code generator and freeing the syntax tree recurse as deeply as expressions are chained.
    pub fn compile(source: &str) -> Result<ChatTemplate, String> {
        if source.len() > MAX_TEMPLATE_BYTES {
            return Err(format!("the chat template has {} bytes; the limit is {MAX_TEMPLATE_BYTES}", source.len()));
        }
        let source = source.to_string();
        let compiled = on_deep_stack(COMPILE_TIME, &Arc::default(), move |stack_bytes| {
            let most = stack_bytes / STACK_BYTES_PER_SOURCE_BYTE;
            if source.len() > most {
                return Err(format!(
                    "the chat template has {} bytes; with as little address space as there is, {most} at most",
                    source.len()
                ));
            }
            ChatTemplate::compile_here(&source)
        });
        compiled.map_err(|failure| failure.message)
    }

    fn compile_here(source: &str) -> Result<ChatTemplate, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(describe)?);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_recursion_limit(RECURSION_LIMIT);
        environment.set_unknown_method_callback(python::method);
        environment.set_formatter(|out, _, value| {
            out.write_str(&python::to_str(value)?).map_err(|_| Error::from(ErrorKind::WriteFailure))
        });
        environment.add_filter("tojson", tojson);
        environment.add_filter("string", |value: &Value| python::to_str(value).map(Cow::into_owned));
        environment.add_test("sequence", |value: &Value| {
            matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String)
        });
        environment.add_test("iterable", |value: &Value| {
            value.kind() == ValueKind::String || (!value.is_none() && value.try_iter().is_ok())
        });
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", |state: &State, format: &str| {
            let now = state.lookup(NOW).and_then(|value| value.as_i64()).unwrap_or(0);
            strftime(format, now).map_err(|message| Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_template_owned(NAME, replace_generation_tags(source)).map_err(describe)?;
        Ok(ChatTemplate { environment, runaways: Arc::default() })
    }

    /// A template can nest values as deeply as its fuel lasts, and freeing such a value recurses.
    pub fn render(&self, context_json: &str, unix_seconds: i64, limits: RenderLimits) -> Result<String, Failure> {
        let end = Instant::now() + limits.time;
        // Fuel belongs to the environment; a clone of it shares the compiled template.
        let (environment, context_json) = (self.environment.clone(), context_json.to_string());
        on_deep_stack(limits.time, &self.runaways, move |_| {
            ChatTemplate::render_here(environment, &context_json, unix_seconds, limits, end)
        })
    }

    fn render_here(
        mut environment: Environment<'static>,
        context_json: &str,
        unix_seconds: i64,
        limits: RenderLimits,
        end: Instant,
    ) -> Result<String, String> {
        let mut context: BTreeMap<String, Value> =
            serde_json::from_str(context_json).map_err(|error| format!("the context is not a JSON object: {error}"))?;
        context.insert(NOW.to_string(), Value::from(unix_seconds));
        environment.set_fuel(Some(limits.fuel));
        let template = environment.get_template(NAME).map_err(describe)?;
        let mut output = LimitedOutput { bytes: Vec::new(), limit: limits.max_output_bytes, exceeded: false, end };
        let rendered = template.render_captured_to(Value::from(context), &mut output).map(drop);
        if output.exceeded {
            return Err(format!("the rendered prompt exceeds {} bytes", limits.max_output_bytes));
        }
        rendered.map_err(describe)?;
        String::from_utf8(output.bytes).map_err(|_| "the rendered prompt is not valid UTF-8".to_string())
    }
}

/// Runs `work(stack_bytes)` on a thread of its own, at most `limit`. The stack is address space that is only backed by memory
/// when used.
///
/// A thread cannot be killed, and chained slices keep the engine busy for minutes without a step that it counts. Such a
/// thread is left alone; `runaways` counts those that still run, and while there is one, nothing else is started: a hostile
/// template keeps one processor busy, not all.
fn on_deep_stack<T: Send + 'static>(
    limit: Duration,
    runaways: &Arc<AtomicUsize>,
    work: impl FnOnce(usize) -> Result<T, String> + Send + 'static,
) -> Result<T, Failure> {
    if runaways.load(Ordering::Acquire) > 0 {
        return Err(Failure { message: "the chat template is still busy with what took it too long before".to_string(), too_slow: true });
    }
    let shared = Arc::new((Mutex::new(Outcome::Running), Condvar::new()));
    let work = Arc::new(Mutex::new(Some(work)));
    let spawn = |stack_bytes| {
        let (shared, work, runaways) = (shared.clone(), work.clone(), runaways.clone());
        std::thread::Builder::new().stack_size(stack_bytes).spawn(move || {
            let work = lock(&work).take().expect("one thread was started");
            let result = guarded(|| work(stack_bytes));
            let mut outcome = lock(&shared.0);
            if matches!(*outcome, Outcome::Abandoned) {
                runaways.fetch_sub(1, Ordering::Release);
            } else {
                *outcome = Outcome::Done(result);
                shared.1.notify_one();
            }
        })
    };
    // Where address space is limited, honest templates still run.
    let thread = spawn(DEEP_STACK_BYTES)
        .or_else(|_| spawn(DEEP_STACK_BYTES / 16))
        .map_err(|error| format!("no thread for the template: {error}"))?;
    let running = |outcome: &mut Outcome<T>| matches!(outcome, Outcome::Running);
    {
        let waited = shared.1.wait_timeout_while(lock(&shared.0), limit, running);
        let mut outcome = waited.unwrap_or_else(PoisonError::into_inner).0;
        if running(&mut outcome) {
            *outcome = Outcome::Abandoned;
            runaways.fetch_add(1, Ordering::AcqRel);
            return Err(Failure { message: format!("the chat template took longer than {} ms", limit.as_millis()), too_slow: true });
        }
    }
    // It is done: no thread, and no stack, outlives the call. (And ThreadSanitizer, which does not know Rust's locks, sees this.)
    let _ = thread.join();
    let outcome = std::mem::replace(&mut *lock(&shared.0), Outcome::Abandoned);
    match outcome {
        Outcome::Done(result) => result.map_err(Failure::from),
        _ => unreachable!("only a thread that is done is joined"),
    }
}

enum Outcome<T> {
    Running,
    Done(Result<T, String>),
    Abandoned,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct LimitedOutput {
    bytes: Vec<u8>,
    limit: usize,
    exceeded: bool,
    end: Instant,
}

impl Write for LimitedOutput {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.len() > self.limit - self.bytes.len() {
            self.exceeded = true;
            return Err(io::Error::from(io::ErrorKind::WriteZero));
        }
        // Nobody waits any more: most of those who took too long end here.
        if Instant::now() > self.end {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a template refuses by raise_exception() is shown as the template words it.
const RAISED: &str = "raised by the template: ";

fn raise_exception(message: &Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, format!("{RAISED}{}", python::to_str(message)?)))
}

fn describe(error: Error) -> String {
    if error.kind() == ErrorKind::OutOfFuel {
        return "the chat template took too many steps".to_string();
    }
    // An error inside a macro or block arrives wrapped; the innermost one says what happened.
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    match text.find(RAISED) {
        Some(at) => {
            let message = &text[at + RAISED.len()..];
            message.rfind(" (in chat_template:").map_or(message, |end| &message[..end]).to_string()
        }
        None => text,
    }
}

fn tojson(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let indent: Option<Value> = kwargs.get("indent")?;
    let separators: Option<Value> = kwargs.get("separators")?;
    let mut style = python::JsonStyle {
        ensure_ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        ..Default::default()
    };
    kwargs.assert_all_used()?;
    if let Some(indent) = indent.filter(|v| !v.is_none() && !v.is_undefined()) {
        style.indent = Some(match indent.as_str() {
            Some(text) => text.to_string(),
            None => " ".repeat(indent.as_usize().unwrap_or(0).min(64)),
        });
        style.item_separator = ",".to_string();
    }
    if let Some(pair) = separators.filter(|v| !v.is_none() && !v.is_undefined()) {
        style.item_separator = python::to_str(&pair.get_item_by_index(0)?)?.into_owned();
        style.key_separator = python::to_str(&pair.get_item_by_index(1)?)?.into_owned();
    }
    python::to_json(value, &style)
}

/// `{% generation %}…{% endgeneration %}` marks what the assistant wrote, for training. When rendering, it is a block
/// that is always taken.
fn replace_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { break };
        let inner = &tag[..end];
        let word = inner.trim_matches(|c: char| c == '-' || c == '+' || c.is_ascii_whitespace());
        let replacement = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => continue,
        };
        out.push_str(&inner.replacen(word, replacement, 1));
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RenderLimits =
        RenderLimits { fuel: 1_000_000, max_output_bytes: 1 << 20, time: Duration::from_secs(60) };

    fn render(source: &str, context: &str) -> Result<String, String> {
        ChatTemplate::compile(source)?.render(context, 951_782_400, LIMITS).map_err(|failure| failure.message)
    }

    #[test]
    fn long_chains_do_not_overflow_the_stack() {
        for (before, unit, after) in [("", "-", "1"), ("", "not ", "1"), ("x", ".a", ""), ("x", "|e", ""), ("1", "+1", "")] {
            let source = format!("{{{{ {before}{}{after} }}}}", unit.repeat((MAX_TEMPLATE_BYTES - 10) / unit.len()));
            let _ = render(&source, "{}"); // whether it is accepted is the engine's matter
        }
        let error = ChatTemplate::compile(&"a".repeat(MAX_TEMPLATE_BYTES + 1)).err().unwrap();
        assert!(error.contains("the limit is 131072"), "{error}");
    }

    #[test]
    fn values_are_spelled_as_in_python() {
        let context = r#"{"a":{"k":[1,2.0,true,null,"it's"]},"f":1e16,"s":1e-5}"#;
        assert_eq!(render("{{ a }}", context).unwrap(), r#"{'k': [1, 2.0, True, None, "it's"]}"#);
        assert_eq!(render("{{ f }} {{ s }} {{ none }} {{ true }}", context).unwrap(), "1e+16 1e-05 None True");
        assert_eq!(render("{{ missing }}|{{ a.missing }}", context).unwrap(), "|");
        assert_eq!(render("{{ a.k[1]|string ~ '!' }}", context).unwrap(), "2.0!");
    }

    #[test]
    fn json_is_spelled_as_in_python() {
        let context = r#"{"a":{"z":"<é\u0001\u007f\"\n>","b":[],"c":{},"n":-0.0,"big":18446744073709551615}}"#;
        let expected = "{\"z\": \"<é\\u0001\u{7f}\\\"\\n>\", \"b\": [], \"c\": {}, \"n\": -0.0, \"big\": 18446744073709551615}";
        assert_eq!(render("{{ a|tojson }}", context).unwrap(), expected);
        let context = r#"{"a":{"y":[1,{"x":2}],"b":"é😀"}}"#;
        assert_eq!(
            render("{{ a|tojson(indent=2, sort_keys=true, ensure_ascii=true) }}", context).unwrap(),
            "{\n  \"b\": \"\\u00e9\\ud83d\\ude00\",\n  \"y\": [\n    1,\n    {\n      \"x\": 2\n    }\n  ]\n}"
        );
        assert_eq!(render("{{ a|tojson(separators=(',', ':')) }}", context).unwrap(), r#"{"y":[1,{"x":2}],"b":"é😀"}"#);
    }

    #[test]
    fn raise_exception_gives_the_message_alone() {
        assert_eq!(render("{{ raise_exception('no ' ~ who) }}", r#"{"who":"tools"}"#).unwrap_err(), "no tools");
        let nested = "{% macro m() %}{{ raise_exception('inner') }}{% endmacro %}{{ m() }}";
        assert_eq!(render(nested, "{}").unwrap_err(), "inner");
    }

    #[test]
    fn generation_blocks_and_loop_controls() {
        let source = "{% for m in ms %}\n{%- generation -%} {{ m }} {%- endgeneration %}\n{% if loop.last %}{% break %}{% endif %}\n{% endfor %}";
        assert_eq!(render(source, r#"{"ms":[1,2]}"#).unwrap(), "12");
    }

    #[test]
    fn time_is_what_the_caller_says() {
        assert_eq!(render("{{ strftime_now('%d %b %Y') }}", "{}").unwrap(), "29 Feb 2000");
    }

    #[test]
    fn hostile_templates_end() {
        let endless = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
        assert!(render(endless, "{}").unwrap_err().contains("too many steps"));
        let doubling = "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
        assert!(render(doubling, "{}").unwrap_err().contains("too many steps"));
        let output = "{% for a in range(100) %}{{ 'x' * 20000 }}{% endfor %}";
        assert!(render(output, "{}").unwrap_err().contains("exceeds"));
        let recursion = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
        assert!(render(recursion, "{}").is_err());
        let nesting = "{% set ns = namespace(x=[]) %}{% for a in range(100) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}{{ ns.x }}";
        let much = RenderLimits { fuel: 10_000_000, ..LIMITS };
        assert!(ChatTemplate::compile(nesting).unwrap().render("{}", 0, much).is_err());
        assert!(render("{% if %}", "{}").is_err());
        assert!(render("{{ 1", "{}").is_err());
        assert!(render("x", "[]").is_err());
    }

    #[test]
    fn rendering_has_a_limit_of_time() {
        // Each slice looks through all those before it, and none is a step.
        let slices = format!("{{{{ messages{} }}}}", "[0:]".repeat(16_000));
        let template = ChatTemplate::compile(&slices).unwrap();
        let limits = RenderLimits { time: Duration::from_millis(200), ..LIMITS };
        let context = r#"{"messages":[1,2]}"#;
        let start = Instant::now();
        let failure = template.render(context, 0, limits).unwrap_err();
        assert!(failure.too_slow && failure.message.contains("took longer than 200 ms"), "{failure:?}");
        assert!(start.elapsed() < Duration::from_secs(20)); // minutes without the limit, far below it with it
        let failure = template.render(context, 0, limits).unwrap_err();
        assert!(failure.too_slow && failure.message.contains("still busy"), "{failure:?}");
        assert_eq!(render("{{ messages[0:][1:] }}", context).unwrap(), "[2]");
    }

    #[test]
    fn python_methods() {
        for (expression, expected) in [
            ("'abc'.removeprefix('ab')", "c"),
            ("'abc'.removesuffix('bc')", "a"),
            ("'a-b-c'.rsplit('-', 1)", "['a-b', 'c']"),
            ("'a b  c'.rsplit()", "['a', 'b', 'c']"),
            ("'k=v=w'.partition('=')", "('k', '=', 'v=w')"),
            ("'k=v=w'.rpartition('=')", "('k=v', '=', 'w')"),
            ("'7'.zfill(3)", "007"),
            ("'-7'.zfill(3)", "-07"),
            ("'a'.ljust(3) ~ '|' ~ 'a'.rjust(3, '.')", "a  |..a"),
            ("'hello'.index('l')", "2"),
            ("[5, 6].index(6)", "1"),
            ("{'a': 1}.items()|list", "[('a', 1)]"),
            ("'x'.join(['1', '2'])", "1x2"),
            ("[1,2,3][::-1]", "[3, 2, 1]"),
            ("'a,b'.split(',')[-1]", "b"),
            ("'  x '.strip()", "x"),
        ] {
            assert_eq!(render(&format!("{{{{ {expression} }}}}"), "{}").unwrap(), expected, "{expression}");
        }
    }
}
