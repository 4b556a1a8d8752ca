// Status: the result of a core call, OK or a code and a message that a user can act on.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_STATUS_H_
#define KERAS_SPARSE_OPS_CORE_BASE_STATUS_H_

#include <string>
#include <utility>

namespace keras_sparse {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument = 1,     // the caller passed a value that no table accepts
  kFailedPrecondition = 2,  // the call is valid, but not in the table's state
  kResourceExhausted = 3,   // memory, disk or a documented limit is exhausted
  kDataLoss = 4,            // stored bytes are not those that were written
  kUnimplemented = 5,       // this build or version lacks the feature
};

// Messages state the rule, then the remedy if there is one, then the received value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return Status(); }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status InvalidArgument(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}
inline Status FailedPrecondition(std::string message) {
  return Status(StatusCode::kFailedPrecondition, std::move(message));
}
inline Status ResourceExhausted(std::string message) {
  return Status(StatusCode::kResourceExhausted, std::move(message));
}

}  // namespace keras_sparse

#define KERAS_SPARSE_RETURN_IF_ERROR(expression)          \
  do {                                                    \
    ::keras_sparse::Status status_of_call = (expression); \
    if (!status_of_call.ok()) return status_of_call;      \
  } while (false)

#endif  // KERAS_SPARSE_OPS_CORE_BASE_STATUS_H_
