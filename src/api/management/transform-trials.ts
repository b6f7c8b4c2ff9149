/** Tests a transform on records: when a destination is saved with it, and on request. */
import { setTimeout as pause } from 'node:timers/promises'
import { validationError } from '../../contract/errors.ts'
import type { Pipe } from '../../contract/pipe.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { Transform } from '../../contract/transform.ts'
import {
  type TransformCheck,
  type TransformTrialRequest,
  transformTrialLimits,
} from '../../contract/transform-trial.ts'
import type { ShownTrial, TransformTrial } from '../../delivery/delivery.ts'
import { count, counted } from '../../platform/quantities.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { requireDestination, requirePipe } from './lookup.ts'
import { bodyWithRecords, sampleRecords } from './record-texts.ts'
import { filterFaultFor, givenTransform, requireReadableSalt } from './transform-rules.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'trials'>

export function transformTrialUseCases({ metadata, trials }: Deps) {
  const transformOf = async (workspaceId: string, pipe: Pipe, body: TransformTrialRequest) => {
    const { destination_id } = body
    const stored =
      destination_id === undefined
        ? null
        : await requireDestination(metadata, workspaceId, {
            pipe_id: pipe.pipe_id,
            destination_id: destination_id.toLowerCase(),
          })
    const given = givenTransform(body, stored?.transform ?? null, await filterFaultFor(body))
    const transform = given === undefined ? (stored?.transform ?? null) : given
    requireReadableSalt(transform)
    if (transform !== null) return transform
    throw validationError({
      transform: stored === null ? 'is required' : 'is required: the destination has none',
    })
  }
  return {
    /** Returns the response body itself: the text of the records must not pass through a parser again. */
    async tryTransform({ principal: { workspaceId }, path, body }: Call<'tryTransform'>): Promise<Buffer> {
      const pipe = await requirePipe(metadata, workspaceId, path)
      const { sample, limit, only } = body
      const transform = await transformOf(workspaceId, pipe, body)
      const trial = await trials.tryTransform({
        pipeId: pipe.pipe_id,
        transform,
        sample: sample === undefined ? null : sampleRecords(sample),
        show: { limit: limit ?? transformTrialLimits.shown, only: only ?? null },
      })
      return trialBody(trial)
    },
  }
}

/** Added to the time limit of delivery, which can be busy or restarting. */
const marginMs = 1_000

/**
 * Checks a transform that is about to be saved. Throws `validation_error` if it fails on every record of the sample.
 * Undefined: there is nothing to check.
 */
export async function checkedOnSave(
  { tryTransform }: Pick<ManagementDeps['trials'], 'tryTransform'>,
  pipeId: string,
  before: Transform | null,
  after: Transform | null | undefined,
): Promise<TransformCheck | undefined> {
  if (after === null || after === undefined || isSame(before, after)) return undefined
  const show = { limit: 0, only: null }
  const trial = await within(tryTransform({ pipeId, transform: after, sample: null, show }))
  if (typeof trial === 'string') {
    const warning =
      trial === 'timed_out'
        ? 'The transform was not tested completely: the test took too long.'
        : 'The transform was not tested: the newest records cannot be read at the moment.'
    return { not_checked: trial, ...noCounts, warning }
  }
  const { isComplete, seen, kept, filtered, failed, faults } = trial
  const [first] = faults
  if (isComplete && first !== undefined && failed === seen)
    throw validationError({ [first.path]: rejectionText(trial, first) })
  return {
    not_checked: isComplete ? null : 'timed_out',
    records_seen: seen,
    kept,
    filtered,
    failed,
    faults,
    warning: warningOf(trial),
  }
}

const noCounts = { records_seen: 0, kept: 0, filtered: 0, failed: 0, faults: [] }

/** The salt is not compared: another one changes the masks but makes no record fail. */
function isSame(before: Transform | null, { filter, map }: Transform): boolean {
  return before !== null && JSON.stringify([before.filter, before.map]) === JSON.stringify([filter, map])
}

async function within(work: Promise<TransformTrial>): Promise<TransformTrial | 'timed_out' | 'unavailable'> {
  const stop = new AbortController()
  const late = pause(resourceLimits.trialMs + marginMs, 'timed_out' as const, { signal: stop.signal })
  try {
    return await Promise.race([work, late])
  } catch {
    // Delivery has logged the reason. The save does not depend on it.
    return 'unavailable'
  } finally {
    stop.abort()
    // The promise that lost the race may still reject.
    late.catch(() => {})
    work.catch(() => {})
  }
}

type Fault = TransformTrial['faults'][number]

function rejectionText({ seen, failed }: TransformTrial, fault: Fault): string {
  const on = seen === 1 ? 'the only record' : `all ${count(seen)} newest records`
  const how = fault.records === failed ? '' : `, on ${count(fault.records)} of them so`
  return `fails on ${on} of the pipe${how}: ${sentence(fault.message)} (${where(fault)}.) With check_transform=false (--no-transform-check) it is saved anyway.`
}

function warningOf({ isComplete, seen, kept, failed, faults }: TransformTrial): string | null {
  const parts: string[] = []
  if (!isComplete) parts.push(`The test took too long, and covered ${counted(seen, 'record')}.`)
  const [first] = faults
  if (first !== undefined)
    parts.push(
      `The transform fails on ${count(failed)} of the ${counted(seen, 'newest record')}: ${first.path}: ${sentence(first.message)} (${where(first)}.)`,
    )
  if (kept === 0 && seen > 0) parts.push(`The filter keeps 0 of the ${counted(seen, 'newest record')}.`)
  return parts.length === 0 ? null : parts.join(' ')
}

/** Names a record by its position, without its content. */
function where({ msg_id, record_index, records }: Fault): string {
  const place = `record ${record_index} of message ${msg_id}`
  return records === 1 ? `It is ${place}` : `One is ${place}`
}

function sentence(text: string): string {
  return text.endsWith('.') ? text : `${text}.`
}

function trialBody({ isComplete, seen, kept, filtered, failed, faults, shown, isTruncated }: TransformTrial) {
  const head = { is_complete: isComplete, records_seen: seen, kept, filtered, failed, faults }
  return bodyWithRecords(head, shown.map(shownText), { truncated: isTruncated })
}

function shownText({ msgId, recordIndex, outcome, before, after, error }: ShownTrial): string {
  const head = JSON.stringify({ msg_id: msgId, record_index: recordIndex, outcome }).slice(0, -1)
  const tail = JSON.stringify({ error, too_large: before === null }).slice(1)
  return `${head},"before":${before},"after":${after},${tail}`
}
