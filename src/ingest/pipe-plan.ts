/** What ingest works out once for a pipe instead of for each request. */
import type { DirectoryPipe } from './directory.ts'
import { type EnrichmentPlan, planEnrichment } from './enrich.ts'

export interface PipePlan {
  enrichment: EnrichmentPlan
  /** The 202 body up to the record count. A pipe's name needs no escaping (spec: letters, digits, `-`, `_`). */
  answerHead: string
}

/** By the directory's entry, which is replaced whenever the pipe changes. */
export function planKeeper(): (entry: DirectoryPipe) => PipePlan {
  const plans = new WeakMap<DirectoryPipe, PipePlan>()
  return (entry) => {
    let plan = plans.get(entry)
    if (plan === undefined) {
      const { pipe_id, pipe_name } = entry.pipe
      plan = {
        enrichment: planEnrichment(entry.pipe),
        answerHead: `{"accepted":true,"pipe_id":"${pipe_id}","pipe_name":"${pipe_name}","records_count":`,
      }
      plans.set(entry, plan)
    }
    return plan
  }
}
