//! Values as Python spells them: str(), repr(), json.dumps(), and methods that templates call on them.

use std::borrow::Cow;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

/// Nesting beyond which a value is not printed. JSON from outside stays below it.
const MAX_DEPTH: usize = 100;

fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, "value is nested too deeply")
}

/// str(value); undefined is empty.
pub fn to_str(value: &Value) -> Result<Cow<'_, str>, Error> {
    if let Some(text) = value.as_str() {
        return Ok(Cow::Borrowed(text));
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Number => {
            let mut out = String::new();
            write_repr(&mut out, value, 0)?;
            Ok(Cow::Owned(out))
        }
        _ => Ok(Cow::Owned(value.to_string())),
    }
}

fn write_repr(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Number if !value.is_integer() => out.push_str(&float_repr(f64::try_from(value.clone())?)),
        ValueKind::String => write_string_repr(out, value.as_str().unwrap_or_default()),
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_repr(out, &key, depth + 1)?;
                out.push_str(": ");
                write_repr(out, &value.get_item(&key)?, depth + 1)?;
            }
            out.push('}');
        }
        ValueKind::Seq => {
            let (open, close) = if value.is_tuple() { ('(', ')') } else { ('[', ']') };
            out.push(open);
            for (i, item) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_repr(out, &item, depth + 1)?;
            }
            out.push_str(if value.is_tuple() && value.len() == Some(1) { "," } else { "" });
            out.push(close);
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn write_string_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || (0x7f..0xa1).contains(&(c as u32)) || c == '\u{ad}' => {
                out.push_str(&format!("\\x{:02x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// repr(float): shortest digits that read back, exponent form below 1e-4 and from 1e16 on.
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_string();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0.0" } else { "0.0" }.to_string();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        return format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

pub struct JsonStyle {
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub ensure_ascii: bool,
    pub sort_keys: bool,
}

impl Default for JsonStyle {
    fn default() -> Self {
        JsonStyle {
            indent: None,
            item_separator: ", ".to_string(),
            key_separator: ": ".to_string(),
            ensure_ascii: false,
            sort_keys: false,
        }
    }
}

/// json.dumps(value) in the given style.
pub fn to_json(value: &Value, style: &JsonStyle) -> Result<String, Error> {
    let mut out = String::new();
    write_json(&mut out, value, style, 0)?;
    Ok(out)
}

fn write_json(out: &mut String, value: &Value, style: &JsonStyle, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
        ValueKind::Number => {
            let number = f64::try_from(value.clone())?;
            match (number.is_finite(), number.is_nan()) {
                (true, _) => out.push_str(&float_repr(number)),
                (_, true) => out.push_str("NaN"),
                _ => out.push_str(if number > 0.0 { "Infinity" } else { "-Infinity" }),
            }
        }
        ValueKind::String => write_json_string(out, value.as_str().unwrap_or_default(), style.ensure_ascii),
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            write_json_items(out, '{', '}', style, depth, keys.len(), |out, i| {
                match keys[i].kind() {
                    ValueKind::String => {
                        write_json_string(out, keys[i].as_str().unwrap_or_default(), style.ensure_ascii);
                    }
                    _ => {
                        out.push('"');
                        write_json(out, &keys[i], style, depth + 1)?;
                        out.push('"');
                    }
                }
                out.push_str(&style.key_separator);
                write_json(out, &value.get_item(&keys[i])?, style, depth + 1)
            })?;
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            write_json_items(out, '[', ']', style, depth, items.len(), |out, i| {
                write_json(out, &items[i], style, depth + 1)
            })?;
        }
        kind => {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("tojson: a value of kind {kind} is not JSON")))
        }
    }
    Ok(())
}

fn write_json_items(
    out: &mut String,
    open: char,
    close: char,
    style: &JsonStyle,
    depth: usize,
    count: usize,
    mut write_item: impl FnMut(&mut String, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let new_line = |out: &mut String, level: usize| {
        if let Some(indent) = &style.indent {
            out.push('\n');
            out.push_str(&indent.repeat(level));
        }
    };
    out.push(open);
    for i in 0..count {
        out.push_str(if i > 0 { &style.item_separator } else { "" });
        new_line(out, depth + 1);
        write_item(out, i)?;
    }
    if count > 0 {
        new_line(out, depth);
    }
    out.push(close);
    Ok(())
}

fn write_json_string(out: &mut String, text: &str, ensure_ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if ensure_ascii && !(' '..='~').contains(&c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Methods on values: those that minijinja-contrib knows, and the rest of what templates call.
pub fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        if let Some(result) = string_method(text, name, args)? {
            return Ok(result);
        }
    }
    if value.kind() == ValueKind::Seq && name == "index" {
        let wanted = argument(args, 0, name)?;
        let position = value.try_iter()?.position(|item| item == *wanted);
        return position.map(Value::from).ok_or_else(|| missing(wanted));
    }
    if name == "copy" && args.is_empty() && matches!(value.kind(), ValueKind::Seq | ValueKind::Map) {
        return Ok(value.clone());
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}

fn missing(wanted: &Value) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{wanted} is not in the value"))
}

fn argument<'a>(args: &'a [Value], index: usize, method: &str) -> Result<&'a Value, Error> {
    args.get(index)
        .ok_or_else(|| Error::new(ErrorKind::MissingArgument, format!("{method}() needs {} argument(s)", index + 1)))
}

fn text_argument<'a>(args: &'a [Value], index: usize, method: &str) -> Result<&'a str, Error> {
    argument(args, index, method)?
        .as_str()
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, format!("{method}() needs a string")))
}

/// Width of ljust() and relatives, bounded: it is an allocation that the template chooses.
fn width_argument(args: &[Value], method: &str) -> Result<usize, Error> {
    let width = argument(args, 0, method)?.as_i64().unwrap_or(0).max(0) as usize;
    if width > 65_536 {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("{method}(): a width of {width} is too large")));
    }
    Ok(width)
}

fn tuple(items: [&str; 3]) -> Value {
    Value::from(minijinja::value::Tuple::from(items.map(Value::from)))
}

fn string_method(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match name {
        "removeprefix" => {
            let prefix = text_argument(args, 0, name)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let suffix = text_argument(args, 0, name)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "rsplit" => {
            let limit = args.get(1).and_then(Value::as_usize).map_or(usize::MAX, |n| n.saturating_add(1));
            let separator = args.first().filter(|v| !v.is_none());
            let mut parts: Vec<&str> = match separator {
                Some(_) => text.rsplitn(limit, text_argument(args, 0, name)?).collect(),
                None if limit == usize::MAX => text.split_whitespace().rev().collect(),
                None => {
                    return Err(Error::new(ErrorKind::InvalidOperation, "rsplit(None, n) is not supported"));
                }
            };
            parts.reverse();
            parts.into_iter().map(Value::from).collect()
        }
        "partition" => {
            let separator = text_argument(args, 0, name)?;
            text.split_once(separator).map_or_else(|| tuple([text, "", ""]), |(a, b)| tuple([a, separator, b]))
        }
        "rpartition" => {
            let separator = text_argument(args, 0, name)?;
            text.rsplit_once(separator).map_or_else(|| tuple(["", "", text]), |(a, b)| tuple([a, separator, b]))
        }
        "zfill" => {
            let width = width_argument(args, name)?;
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            let zeros = width.saturating_sub(text.chars().count());
            Value::from(format!("{sign}{}{digits}", "0".repeat(zeros)))
        }
        "ljust" | "rjust" => {
            let padding = width_argument(args, name)?.saturating_sub(text.chars().count());
            let fill = if args.len() > 1 { text_argument(args, 1, name)? } else { " " }.repeat(padding);
            Value::from(if name == "ljust" { format!("{text}{fill}") } else { format!("{fill}{text}") })
        }
        "index" => {
            let wanted = text_argument(args, 0, name)?;
            let at = text.find(wanted).ok_or_else(|| missing(&args[0]))?;
            Value::from(text[..at].chars().count())
        }
        "casefold" => Value::from(text.to_lowercase()),
        _ => return Ok(None),
    }))
}
