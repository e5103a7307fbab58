#include <fmt/format.h>

#include "storage/store_impl.h"

namespace muster {
namespace {

Result<EvaluationRow> evaluation_of(const Query& query) {
  EvaluationRow row;
  row.job = query.text(0);
  row.round = query.integer(1);
  row.device = query.text(2);
  row.task = query.text(3);
  row.asked_at_ms = query.integer(4);
  row.answered_at_ms = query.integer(5);
  row.examples = query.integer(6);
  MUSTER_TRY(row.metrics, query.json(7));
  return row;
}

}  // namespace

void insert_evaluations(Connection& connection, const std::vector<EvaluationRow>& asked) {
  for (const EvaluationRow& row : asked) {
    Query(connection,
          "INSERT INTO evaluations (job, round, device, task, asked_at_ms, answered_at_ms, "
          "examples, metrics) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
          row.job, row.round, row.device, row.task, row.asked_at_ms,
          null_if_zero(row.answered_at_ms), row.examples, object_text(row.metrics))
        .run();
  }
}

Status Store::add_evaluations(const std::vector<EvaluationRow>& asked) {
  return impl_->database->write("add evaluations", [&](Connection& connection) -> Status {
    insert_evaluations(connection, asked);
    return {};
  });
}

Status Store::answer_evaluation(const EvaluationRow& answered) {
  if (answered.answered_at_ms == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the answer to task '{}' has no time", printable(answered.task)),
                 "bad_value"};
  }
  return impl_->database->write("answer an evaluation", [&](Connection& connection) -> Status {
    const int changed =
        Query(connection,
              "UPDATE evaluations SET answered_at_ms = ?, examples = ?, metrics = ? "
              "WHERE task = ? AND device = ? AND answered_at_ms IS NULL",
              answered.answered_at_ms, answered.examples, object_text(answered.metrics),
              answered.task, answered.device)
            .run();
    if (changed == 1) return {};
    if (!Query(connection, "SELECT 1 FROM evaluations WHERE task = ? AND device = ?", answered.task,
               answered.device)
             .next()) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("device '{}' has no task '{}'", printable(answered.device),
                               printable(answered.task)),
                   "task_unknown"};
    }
    return Error{ErrorCode::kAlreadyExists,
                 fmt::format("task '{}' was answered already", printable(answered.task)),
                 "already_answered"};
  });
}

Result<std::optional<EvaluationRow>> Store::find_evaluation(const std::string& task) const {
  return impl_->database->find<EvaluationRow>(
      "find an evaluation", evaluation_of,
      "SELECT job, round, device, task, asked_at_ms, answered_at_ms, examples, metrics "
      "FROM evaluations WHERE task = ?",
      task);
}

Result<std::vector<EvaluationRow>> Store::list_evaluations(const std::string& job,
                                                           std::int64_t round) const {
  return impl_->database->list<EvaluationRow>(
      "list evaluations", evaluation_of,
      "SELECT job, round, device, task, asked_at_ms, answered_at_ms, examples, metrics "
      "FROM evaluations WHERE job = ? AND round = ? ORDER BY asked_at_ms, device, task",
      job, round);
}

}  // namespace muster
