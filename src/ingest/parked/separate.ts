/**
 * Separates the records of a body that do not match the schema, with `pipe_schema_on_mismatch: park`. They are parked
 * as they were sent: enrichment and required fields are for the others, and for a replay.
 */
import { jsonTextOnOneLine } from '../../log/record-text.ts'
import type { ParsedBody } from '../parse.ts'
import type { RecordError } from '../schema/run.ts'

/** A record to park. Plain data that can be sent to threads. */
export interface ParkedText {
  /** Its index in the request. */
  recordIndex: number
  /** Its JSON text as it was sent, on one line. */
  text: string
  faults: readonly RecordError[]
}

export interface Separated {
  matching: ParsedBody
  /** The index in the request of each matching record. */
  indexes: number[]
  parked: ParkedText[]
}

export function separated(
  parsed: ParsedBody,
  mismatches: ReadonlyMap<number, readonly RecordError[]>,
): Separated {
  const { bytes, records, bounds, hasNewlines } = parsed
  const matching: ParsedBody = { bytes, records: [], bounds: [], hasNewlines }
  const indexes: number[] = []
  const parked: ParkedText[] = []
  for (let index = 0; index < records.length; index++) {
    const [start, end] = [bounds[2 * index]!, bounds[2 * index + 1]!]
    const faults = mismatches.get(index)
    if (faults === undefined) {
      matching.records.push(records[index]!)
      matching.bounds.push(start, end)
      indexes.push(index)
    } else {
      const text = jsonTextOnOneLine(bytes.toString('utf8', start, end))
      parked.push({ recordIndex: index, text, faults })
    }
  }
  return { matching, indexes, parked }
}
