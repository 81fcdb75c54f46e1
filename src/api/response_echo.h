// The parts of a Responses request that every response repeats.
#pragma once

#include "api/json_writer.h"
#include "base/json.h"

namespace deepinfer::api {

class ResponseEcho {
  public:
    // The request was judged before: what is of the wrong type is shown as it is.
    explicit ResponseEcho(const boost::json::object& request);
    // Members of an object that is open.
    void write(JsonWriter& json) const;

  private:
    boost::json::object members_;
};

}  // namespace deepinfer::api
