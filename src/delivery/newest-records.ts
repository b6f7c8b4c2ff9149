/** The newest records of a pipe, of which a table is proposed. The buffer is read forwards alone. */
import type { BufferReader } from '../buffer/buffer.ts'
import { lineFeed } from '../buffer/record-text.ts'
import { resourceLimits } from '../contract/resource-limits.ts'

/**
 * Bodies of the newest messages: about `inferredRecords` records or `inferredBytes`, whichever is less. Begins at the
 * newest message and doubles the distance (seqs are of all pipes together) until there is enough: some 40 short reads at
 * most.
 */
export async function newestBodies(pipeId: string, reader: BufferReader): Promise<Buffer[]> {
  const limits = { maxRecords: resourceLimits.inferredRecords, maxBytes: resourceLimits.inferredBytes }
  const { seq: head } = await reader.head(pipeId)
  if (head === 0) return []
  const { seq: earliest } = await reader.earliest(pipeId)
  for (let distance = 1; ; distance *= 2) {
    const afterSeq = Math.max(earliest, head - distance)
    const { messages, more } = await reader.read(pipeId, afterSeq, limits)
    if (more || afterSeq === earliest) return messages.map(({ body }) => beginning(body, limits.maxBytes))
  }
}

/** Whole records; of a first record that is larger, all of it. */
function beginning(body: Buffer, maxBytes: number): Buffer {
  if (body.length <= maxBytes) return body
  const last = body.lastIndexOf(lineFeed, maxBytes)
  const end = last === -1 ? body.indexOf(lineFeed) : last
  return end === -1 ? body : body.subarray(0, end)
}
