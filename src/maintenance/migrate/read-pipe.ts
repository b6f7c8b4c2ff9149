/** Every message of a pipe, in order, and what of it is not there. */
import type { BufferReader, CursorMark, MarkedMessage, MessageRun } from '../../log/buffer.ts'
import type { Gap } from './translate.ts'

const pageRecords = 8_192
const pageBytes = 4 * 1024 * 1024

export interface PipePage {
  messages: MarkedMessage[]
  /** Damaged or lost. */
  gaps: Gap[]
}

export async function* readPipe(
  reader: BufferReader,
  pipeId: string,
  afterSeq: number,
  afterMark: CursorMark | null = null,
): AsyncGenerator<PipePage> {
  let after = { seq: afterSeq, mark: afterMark }
  for (;;) {
    const limits = { maxRecords: pageRecords, maxBytes: pageBytes, afterMark: after.mark }
    const run = await reader.read(pipeId, after.seq, limits)
    const end = endOf(run)
    if (end === null) return
    yield {
      messages: run.messages,
      gaps: [
        ...run.damaged.map(({ seq }) => ({ throughSeq: seq, messages: 1 })),
        ...run.lost.map(({ to, messages }) => ({ throughSeq: to.seq, messages })),
      ],
    }
    after = end
  }
}

/** Null: there was nothing more. */
function endOf({ messages, damaged, lost }: MessageRun): { seq: number; mark: CursorMark } | null {
  const places = [...messages.slice(-1), ...damaged.slice(-1), ...lost.slice(-1).map(({ to }) => to)]
  return places.reduce<{ seq: number; mark: CursorMark } | null>(
    (last, { seq, mark }) => (last === null || seq > last.seq ? { seq, mark } : last),
    null,
  )
}
