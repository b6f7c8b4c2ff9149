/** The newest records of a pipe: of which a table is proposed, and on which a transform is tried. The buffer is read forwards alone. */
import { resourceLimits } from '../contract/resource-limits.ts'
import type { BufferReader, StoredMessage } from '../log/buffer.ts'
import { lineFeed } from '../log/record-text.ts'

const limits = { maxRecords: resourceLimits.inferredRecords, maxBytes: resourceLimits.inferredBytes }

/**
 * The newest messages, oldest first: about `inferredRecords` records or `inferredBytes`, whichever is less. Begins at the
 * newest message and doubles the distance (seqs are of all pipes together) until there is enough: some 40 short reads at
 * most. Of a large message the beginning. Where the last step reaches further than may be read, messages between it and the step
 * before are left out, not the newest.
 */
export async function newestMessages(pipeId: string, reader: BufferReader): Promise<StoredMessage[]> {
  const { seq: head } = await reader.head(pipeId)
  if (head === 0) return []
  const { seq: earliest } = await reader.earliest(pipeId)
  let nearer: StoredMessage[] = []
  for (let distance = 1; ; distance *= 2) {
    const afterSeq = Math.max(earliest, head - distance)
    const { messages, more } = await reader.read(pipeId, afterSeq, limits)
    const nearest = nearer[0]?.seq ?? Number.POSITIVE_INFINITY
    const found = more ? [...messages.filter(({ seq }) => seq < nearest), ...nearer] : messages
    if (more || afterSeq === earliest) return newestOf(found)
    nearer = messages
  }
}

/** Within the limits, but one in any case. */
function newestOf(messages: readonly StoredMessage[]): StoredMessage[] {
  let [records, bytes] = [0, 0]
  const isWithin = ({ recordCount, body }: StoredMessage, at: number) => {
    const isLast = at === 0 || (records < limits.maxRecords && bytes < limits.maxBytes)
    records += recordCount
    bytes += body.length
    return isLast
  }
  const newestFirst = [...messages].reverse()
  const end = newestFirst.findIndex((message, at) => !isWithin(message, at))
  return newestFirst
    .slice(0, end === -1 ? newestFirst.length : end)
    .map((message) => ({ ...message, body: beginning(message.body, limits.maxBytes) }))
    .reverse()
}

export async function newestBodies(pipeId: string, reader: BufferReader): Promise<Buffer[]> {
  return (await newestMessages(pipeId, reader)).map(({ body }) => body)
}

/** Whole records; of a first record that is larger, all of it. */
function beginning(body: Buffer, maxBytes: number): Buffer {
  if (body.length <= maxBytes) return body
  const last = body.lastIndexOf(lineFeed, maxBytes)
  const end = last === -1 ? body.indexOf(lineFeed) : last
  return end === -1 ? body : body.subarray(0, end)
}
