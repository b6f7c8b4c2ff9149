/** Checks, samples and table proposals of a destination with a transform, all based on transformed records. */
import type { TableProposal } from '../contract/table-proposal.ts'
import { DeliveryError, type DestinationCheck, type Sample } from '../destinations/driver.ts'
import type { StoredMessage } from '../log/buffer.ts'
import type { TransformTrial } from './delivery.ts'
import type { TriedRecord } from './transform-trial.ts'

/**
 * One line of the result of POST …/destinations/test. Not ok when the transform can be applied to none of the records,
 * or takes too long.
 */
export function transformCheck({
  isComplete,
  seen,
  kept,
  filtered,
  failed,
  faults,
}: TransformTrial): DestinationCheck {
  const name = 'transform'
  const late = isComplete ? '' : ' The others took too long.'
  if (seen === 0) {
    const none = 'The pipe has no records yet to test it with.'
    return isComplete ? { name, ok: true, message: none } : { name, ok: false, message: 'It took too long.' }
  }
  const [first] = faults
  const fault = first === undefined ? '' : `, most often: ${first.path}: ${first.message}`
  const message = `Of the ${seen} newest records ${kept} are kept, ${filtered} filtered out, and ${failed} fail${fault}`
  return { name, ok: isComplete && failed < seen, message: printable(`${ended(message)}${late}`) }
}

/** The newest message of which the transform keeps a record, after the transform. */
export class KeptSample {
  #message: StoredMessage | null = null
  readonly #kept: Buffer[] = []
  readonly #places: number[] = []

  take({ message, place, after }: TriedRecord): void {
    if (after === null || message === null) return
    this.#message ??= message
    if (this.#message.seq !== message.seq) return
    this.#kept.push(after)
    this.#places.push(place)
  }

  /** Without a kept record, one is generated with the keys that the transform leaves. */
  get sample(): Sample {
    if (this.#message === null) return { recent: null }
    const recent = {
      ...this.#message,
      recordCount: this.#kept.length,
      body: lines(this.#kept),
      places: this.#places,
    }
    return { recent, isTransformed: true }
  }
}

/** The kept records, untransformed; the oldest message first. */
export class KeptRecords {
  readonly #kept: TriedRecord[] = []

  take(record: TriedRecord): void {
    if (record.after !== null) this.#kept.push(record)
  }

  get bodies(): Buffer[] {
    const order = ({ message }: TriedRecord) => message?.seq ?? 0
    const sorted = [...this.#kept].sort((a, b) => order(a) - order(b) || a.place - b.place)
    return [lines(sorted.map(({ after, before }) => after ?? before))]
  }
}

/** Adds to a proposal what the transform has left out of the records. */
export function withTrial(
  proposal: TableProposal,
  { seen, filtered, failed, faults, isComplete }: TransformTrial,
): TableProposal {
  if (seen === filtered + failed && seen > 0 && proposal.failure?.code === 'no_records') {
    const message = printable(
      `The transform keeps none of the ${seen} records: ${filtered} are filtered out, and ${failed} fail${faultOf(faults)}.`,
    )
    return { ...proposal, failure: { ...proposal.failure, message } }
  }
  const warnings = [...proposal.warnings]
  if (filtered > 0) warnings.push(`The transform filters out ${filtered} of the ${seen} records.`)
  if (failed > 0)
    warnings.push(
      printable(ended(`The transform fails on ${failed} of the ${seen} records${faultOf(faults)}`)),
    )
  if (!isComplete) warnings.push('The transform took too long: some records were not tested.')
  return { ...proposal, warnings }
}

function faultOf([first]: TransformTrial['faults']): string {
  return first === undefined ? '' : ` (${first.path}: ${first.message.replace(/\.$/, '')})`
}

function lines(records: readonly Buffer[]): Buffer {
  return Buffer.concat(records.flatMap((record, at) => (at === 0 ? [record] : [lineFeedBuffer, record])))
}
const lineFeedBuffer = Buffer.from('\n')

function ended(text: string): string {
  return text.endsWith('.') ? text : `${text}.`
}

/** On one line and without control characters: errors can contain keys of records. */
function printable(text: string): string {
  return new DeliveryError('permanent', 'transform', text).message
}
