/** Summarizes a trial: counts, reasons, and some records before and after. */
import { resourceLimits } from '../contract/resource-limits.ts'
import type { Transform } from '../contract/transform.ts'
import {
  stepPath,
  type TransformFault,
  type TrialOutcome,
  transformTrialLimits,
} from '../contract/transform-trial.ts'
import type { ShownTrial, TransformTrial, TransformTrialRequest } from './delivery.ts'
import type { TransformTrials, TriedRecord } from './transform-trial.ts'

/** Every record can have a different error, so the number is limited. */
const distinctFaults = 100

export interface TrialKeeper {
  take(record: TriedRecord): void
}

export const nothingShown: TransformTrialRequest['show'] = { limit: 0, only: null }

/** `keeper` receives each record as well. */
export async function talliedTrial(
  trials: TransformTrials,
  { transform, show, ...source }: TransformTrialRequest,
  keeper?: TrialKeeper,
): Promise<TransformTrial> {
  const tally = new TrialTally(transform, show)
  const isComplete = await trials.each(source, transform, (record) => {
    tally.take(record)
    keeper?.take(record)
  })
  return tally.result(isComplete)
}

class TrialTally {
  readonly #transform: Transform
  readonly #show: TransformTrialRequest['show']
  readonly #counts = { kept: 0, filtered: 0, failed: 0 }
  readonly #faults = new Map<string, TransformFault>()
  readonly #shown: ShownTrial[] = []
  #shownBytes = 0
  #isTruncated = false

  constructor(transform: Transform, show: TransformTrialRequest['show']) {
    this.#transform = transform
    this.#show = show
  }

  take(record: TriedRecord): void {
    const { failed, after } = record
    const outcome = failed !== null ? 'failed' : after === null ? 'filtered' : 'kept'
    this.#counts[outcome] += 1
    const error =
      failed === null
        ? null
        : {
            path: stepPath(failed.step, this.#transform),
            code: failed.code,
            message: failed.message,
          }
    if (error !== null) this.#noteFault(error, record)
    const { limit, only } = this.#show
    if (limit === 0 || (only !== null && only !== outcome)) return
    this.#isTruncated ||= !this.#add(record, outcome, error)
  }

  result(isComplete: boolean): TransformTrial {
    const { kept, filtered, failed } = this.#counts
    const faults = [...this.#faults.values()].sort((a, b) => b.records - a.records)
    return {
      isComplete,
      seen: kept + filtered + failed,
      kept,
      filtered,
      failed,
      faults: faults.slice(0, transformTrialLimits.faults),
      shown: this.#shown,
      isTruncated: this.#isTruncated,
    }
  }

  #noteFault(error: NonNullable<ShownTrial['error']>, { message, place }: TriedRecord): void {
    const name = `${error.path} ${error.code} ${error.message}`
    const known = this.#faults.get(name)
    if (known !== undefined) known.records += 1
    else if (this.#faults.size < distinctFaults)
      this.#faults.set(name, { ...error, records: 1, msg_id: message?.msgId ?? null, record_index: place })
  }

  /** Returns false when there is no room for this record, nor for later ones. */
  #add(record: TriedRecord, outcome: TrialOutcome, error: ShownTrial['error']): boolean {
    const { message, place, before, after } = record
    if (this.#isTruncated || this.#shown.length === this.#show.limit) return false
    const bytes = before.length + (after?.length ?? 0)
    const isTooLarge = bytes > resourceLimits.trialRecordBytes
    if (!isTooLarge && this.#shownBytes + bytes > resourceLimits.shownRecordBytes) return false
    if (!isTooLarge) this.#shownBytes += bytes
    this.#shown.push({
      msgId: message?.msgId ?? null,
      recordIndex: place,
      outcome,
      before: isTooLarge ? null : before.toString('utf8'),
      after: isTooLarge || after === null ? null : after.toString('utf8'),
      error,
    })
    return true
  }
}
