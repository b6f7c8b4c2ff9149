/**
 * Translates between the seqs of a buffer, which start at 1 in every epoch, and the seqs of the epoch: `base` is added
 * to every seq that leaves the buffer and subtracted from every seq that enters it. So a pipe that was moved into a
 * cluster never reuses a seq from the single machine.
 *
 *   buffer     0   1,024 … 5,000
 *   outside    0   base + 1,024 … base + 5,000     0 stays 0, before the pipe's first message
 */
import type {
  Appended,
  Appender,
  BufferFeed,
  BufferReader,
  Cursor,
  KnownBuffer,
  MessageLookup,
  MessageRun,
  OpenBuffer,
  StoredMessage,
} from './buffer.ts'

/** The last seq before the epoch; 0 in the first epoch. */
export function seqBaseOf({ nextSeqAtLeast = 1 }: KnownBuffer): number {
  return nextSeqAtLeast - 1
}

/** The spec for opening the buffer itself, with the known seqs in its own numbers. */
export function withoutBase<Spec extends KnownBuffer>(spec: Spec): Spec {
  return { ...spec, knownSeq: inner(seqBaseOf(spec), spec.knownSeq ?? 0) }
}

export function offsetReader(reader: BufferReader, base: number): BufferReader {
  if (base === 0) return reader
  const [into, out] = [(seq: number) => inner(base, seq), (seq: number) => outer(base, seq)]
  const cursorOut = ({ seq, mark }: Cursor): Cursor => ({ seq: out(seq), mark })
  const cursorIn = ({ seq, mark }: Cursor): Cursor => ({ seq: into(seq), mark })
  return {
    async read(pipeId, afterSeq, { throughSeq, ...limits }) {
      const through = throughSeq === undefined ? {} : { throughSeq: into(throughSeq) }
      return runOut(await reader.read(pipeId, into(afterSeq), { ...limits, ...through }), base)
    },
    head: async (pipeId) => cursorOut(await reader.head(pipeId)),
    async heads(afterSeq) {
      const heads = await reader.heads(into(afterSeq))
      if (heads === null) return null
      const pipes = new Map([...heads.pipes].map(([pipeId, seq]) => [pipeId, out(seq)]))
      return { newestSeq: out(heads.newestSeq), pipes }
    },
    earliest: async (pipeId) => cursorOut(await reader.earliest(pipeId)),
    cursorAt: async (pipeId, seq) => cursorOut(await reader.cursorAt(pipeId, into(seq))),
    cursorAtTime: async (pipeId, timeMs) => out(await reader.cursorAtTime(pipeId, timeMs)),
    backlog: (pipeId, after, throughSeq) =>
      reader.backlog(pipeId, cursorIn(after), throughSeq === undefined ? undefined : into(throughSeq)),
    async relocate(pipeId, cursor) {
      const found = await reader.relocate(pipeId, cursorIn(cursor))
      return { ...found, cursor: cursorOut(found.cursor) }
    },
    pipeIds: () => reader.pipeIds(),
    close: () => reader.close(),
  }
}

export function offsetLookup(lookup: MessageLookup, base: number): MessageLookup {
  if (base === 0) return lookup
  return {
    async find(msgId) {
      const found = await lookup.find(msgId)
      return found === null ? null : seqOut(found, base)
    },
    async list(pipeId, { beforeSeq, afterSeq, limit }) {
      const listing = { beforeSeq: inner(base, beforeSeq), afterSeq: inner(base, afterSeq), limit }
      return (await lookup.list(pipeId, listing)).map((one) => seqOut(one, base))
    },
    async read(pipeId, { beforeSeq, afterSeq, ...limits }) {
      const listing = { ...limits, beforeSeq: inner(base, beforeSeq), afterSeq: inner(base, afterSeq) }
      return (await lookup.read(pipeId, listing)).map((one) => seqOut(one, base))
    },
    close: () => lookup.close(),
  }
}

export function offsetFeed(feed: BufferFeed, base: number): BufferFeed {
  if (base === 0) return feed
  return {
    onCommitted: (listener) =>
      feed.onCommitted((pipes) => listener(pipes.map(([pipeId, seq]) => [pipeId, outer(base, seq)]))),
    onDropped: (listener) => feed.onDropped(listener),
    onErased: (listener) => feed.onErased(listener),
    reportLowWatermarks: (watermarks) =>
      feed.reportLowWatermarks(watermarks.map((one) => ({ ...one, seq: inner(base, one.seq) }))),
    onReportWanted: (listener) => feed.onReportWanted(listener),
    pipeDeleted: (pipeId) => feed.pipeDeleted(pipeId),
    close: () => feed.close(),
  }
}

export function offsetAppender(appender: Appender, base: number): Appender {
  if (base === 0) return appender
  return {
    append: async (message) => seqOut(await appender.append(message), base),
    async findRepeat(pipeId, idempotency): Promise<Appended | 'reused' | null> {
      const found = await appender.findRepeat(pipeId, idempotency)
      return found === null || found === 'reused' ? found : seqOut(found, base)
    },
    drain: () => appender.drain(),
  }
}

export function offsetBuffer(buffer: OpenBuffer, base: number): OpenBuffer {
  if (base === 0) return buffer
  return {
    appender: offsetAppender(buffer.appender, base),
    shareAppender: () => buffer.shareAppender(),
    onSharedAppends: (listener) => buffer.onSharedAppends(listener),
    headSeq: async () => outer(base, await buffer.headSeq()),
    silentMs: () => buffer.silentMs(),
    replicated: null,
    status: () => buffer.status(),
    histograms: () => buffer.histograms(),
    appended: () => buffer.appended(),
    // Only a buffer in JetStream has a base.
    erasure: null,
    close: () => buffer.close(),
  }
}

function outer(base: number, seq: number): number {
  return seq === 0 ? 0 : seq + base
}

/** A seq of an earlier epoch does not exist in this buffer and becomes 0, before everything. */
function inner(base: number, seq: number): number {
  return Math.max(0, seq - base)
}

function seqOut<Numbered extends { seq: number }>(one: Numbered, base: number): Numbered {
  return { ...one, seq: outer(base, one.seq) }
}

/** Changes the run in place: no one else holds it, and delivery passes every message through here. */
function runOut(run: MessageRun, base: number): MessageRun {
  for (const message of run.messages as StoredMessage[]) message.seq += base
  for (const damaged of run.damaged) damaged.seq += base
  const lost = run.lost.map((one) => ({
    ...one,
    firstSeq: outer(base, one.firstSeq),
    to: { ...one.to, seq: outer(base, one.to.seq) },
  }))
  return { ...run, lost }
}
