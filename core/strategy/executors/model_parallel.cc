#include "core/strategy/executors/model_parallel.h"

#include <memory>

#include "core/strategy/executors/model_parallel_run.h"

namespace muster {

Result<StrategyResult> fit_model_parallel(StrategyContext& context, const ModelParallel& strategy,
                                          const StrategyTask& task,
                                          const StrategyObserver& observer, ObjectStore* store) {
  MemoryObjectStore own;
  MUSTER_TRY(
      const std::unique_ptr<ModelParallelRun> run,
      ModelParallelRun::create(context, strategy, task, observer, store != nullptr ? *store : own));
  return run->run();
}

}  // namespace muster
