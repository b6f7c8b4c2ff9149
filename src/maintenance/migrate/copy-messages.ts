/**
 * Copies all messages of a pipe that the source still has, in order, and finds the new seqs of those that metadata
 * refers to.
 */
import type { FrameImport } from '../../cluster/jetstream/frame-import.ts'
import type { Backlog, BufferReader, MessageRun } from '../../log/buffer.ts'
import { keyLifetimeMs } from '../../log/key-store.ts'
import { usedKeysOf } from '../../log/segments/keyed-rows.ts'
import type { SegmentsSpec } from '../../log/segments/protocol.ts'
import type { MovedPipe } from './metadata-store.ts'
import type { SeqMap } from './seq-map.ts'
import type { Gap } from './translate.ts'

const pageRecords = 8_192
const pageBytes = 4 * 1024 * 1024

export interface CopyTarget {
  frames: Pick<FrameImport, 'put'>
  /** Added to the numbers of the stream, which start at 1. */
  seqBase: number
  /** `bytes` is the size of the records' text. */
  onCopied(bytes: number): void
}

export interface CopiedPipe {
  counts: Backlog
  /** The messages that are lost or damaged in the source, in order. */
  gaps: Gap[]
}

/** `map` receives every message. Throws BufferUnavailableError, StorageUnavailableError. */
export async function copyPipe(
  { pipeId, workspaceId }: MovedPipe,
  source: { reader: BufferReader; spec: SegmentsSpec },
  { frames, seqBase, onCopied }: CopyTarget,
  map: SeqMap,
): Promise<CopiedPipe> {
  const keys = usedKeysOf(source.spec.dir, pipeId)
  const oldestKeyMs = Date.now() - keyLifetimeMs
  const copied: CopiedPipe = { counts: { messages: 0, records: 0, bytes: 0 }, gaps: [] }
  for await (const { messages, damaged, lost } of runsOf(source.reader, pipeId)) {
    const seqs = await frames.put(
      messages.map(({ seq, msgId, receivedMs, recordCount, body }) => {
        const idempotency = receivedMs >= oldestKeyMs ? keys.get(seq) : undefined
        const message = { pipeId, workspaceId, msgId, receivedMs, recordCount, body }
        return idempotency === undefined ? message : { ...message, idempotency }
      }),
    )
    for (const [index, seq] of seqs.entries()) map.moved(messages[index]!.seq, seqBase + seq)
    const bytes = messages.reduce((sum, { body }) => sum + body.length, 0)
    copied.counts.messages += messages.length
    copied.counts.records += messages.reduce((sum, { recordCount }) => sum + recordCount, 0)
    copied.counts.bytes += bytes
    for (const { seq } of damaged) copied.gaps.push({ throughSeq: seq, messages: 1 })
    for (const { to, messages: missing } of lost) copied.gaps.push({ throughSeq: to.seq, messages: missing })
    onCopied(bytes)
  }
  return copied
}

async function* runsOf(reader: BufferReader, pipeId: string): AsyncGenerator<MessageRun> {
  let after = await reader.earliest(pipeId)
  for (;;) {
    const limits = { maxRecords: pageRecords, maxBytes: pageBytes, afterMark: after.mark }
    const run = await reader.read(pipeId, after.seq, limits)
    const ends = [
      ...run.messages.slice(-1),
      ...run.damaged.slice(-1),
      ...run.lost.slice(-1).map(({ to }) => to),
    ]
    if (ends.length === 0) return
    yield run
    after = ends.reduce((last, end) => (end.seq > last.seq ? end : last), after)
  }
}
