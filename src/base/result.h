// Error handling across module borders: a function that can fail returns Result<T> (or Status) and does not
// throw.
//
// An Error carries a code, which callers branch on, and a message for people: what was wrong, where, and what
// would be right. Exceptions thrown by libraries are caught at the border of the module that called the
// library.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace deepinfer {

enum class ErrorCode {
    invalid_argument,    // the caller's value is wrong; retrying unchanged cannot help
    not_found,           // a file, model, key or request does not exist
    unsupported,         // well-formed, but this program does not implement it; the message names it
    corrupt_data,        // bytes from outside (file, network) contradict their own format
    resource_exhausted,  // a bound was reached: memory, queue, pool; retrying later can help
    cancelled,           // stopped on request
    deadline_exceeded,   // not done by the time that the caller had set
    io_error,            // the operating system failed an operation
    internal,            // a bug in this program
};

const char* to_string(ErrorCode code);

struct Error {
    ErrorCode code = ErrorCode::internal;
    std::string message;
    double retry_after = 0;  // seconds, for resource_exhausted; 0: not known
};

// Either a value or an Error. Test with `if (!result)`; value() on an error is a bug (checked in debug
// builds).
template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }

    T& value() & { return assert(ok()), *std::get_if<0>(&state_); }
    const T& value() const& { return assert(ok()), *std::get_if<0>(&state_); }
    T&& value() && { return assert(ok()), std::move(*std::get_if<0>(&state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    const Error& error() const& { return assert(!ok()), *std::get_if<1>(&state_); }
    Error&& error() && { return assert(!ok()), std::move(*std::get_if<1>(&state_)); }

  private:
    std::variant<T, Error> state_;
};

// Success, or an Error.
class [[nodiscard]] Status {
  public:
    Status() = default;
    Status(Error error) : error_(std::move(error)), ok_(false) {}

    bool ok() const { return ok_; }
    explicit operator bool() const { return ok_; }
    const Error& error() const& { return assert(!ok_), error_; }
    Error&& error() && { return assert(!ok_), std::move(error_); }

  private:
    Error error_;
    bool ok_ = true;
};

}  // namespace deepinfer
