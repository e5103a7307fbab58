#pragma once

#include "core/base/error.h"
#include "core/strategy/context/strategy_context.h"
#include "core/strategy/description/model_parallel.h"
#include "core/strategy/executors/fit.h"
#include "core/strategy/partition/object_store.h"

namespace muster {

// Trains one model whose nodes run at different workers, each of which holds, and steps, only the
// parameters of its own; nodes in no partition, and the loss, are at the coordinator. Batches are
// Local's, in its order, and so is the state that they lead to, up to rounding (partition/stages.h
// has how partitions become stages).
//
//   DataStore, Direct   a batch after another goes forward through all stages and back; in parts of
//                       settings.micro_batch() examples with "accumulate". With DataStore every
//                       tensor between stages passes `store`.
//   Pipeline            micro-batches of micro_batch_size (the last of a batch may be shorter) are
//                       under way at the same time, one driver thread a stage, in the order of
//                       pipeline_steps; their gradients add up to the batch's. Batch normalisation
//                       sees each micro-batch alone; with GPipe its running statistics move only
//                       with the last one of a batch.
//
// Gradients are clipped by the norm over all partitions. When a worker is lost the run ends with an
// error naming it, and observer.interrupted gets the state after the last complete epoch.
//
// The result's report:
//   {"stages": [{"place": "alpha" or "coordinator", "nodes": ["fc1"]}], "method": "Pipeline",
//    "activation_bytes": 1024, "gradient_bytes": 1024,   between places, as they were handed over
//    "micro_batches": 4,                                 of a full batch
//    "bubble_fraction": 0.2,       of the pipeline alone: of a chart of equal slots (schedule.h)
//    "measured_bubble": 0.25}      the share of the time that places did not compute
//
//   store  null: one in memory
// Errors besides fit's: kInvalidArgument, reason "bad_strategy", for a node claimed twice or
// unknown, and for "accumulate" together with Pipeline; reason "bad_micro_batch" for a batch that
// is smaller than a micro-batch; kNotFound, reason "no_worker", for a target that nobody answers
// to.
Result<StrategyResult> fit_model_parallel(StrategyContext& context, const ModelParallel& strategy,
                                          const StrategyTask& task,
                                          const StrategyObserver& observer,
                                          ObjectStore* store = nullptr);

}  // namespace muster
