/**
 * Reads the messages of a pipe on both sides, once all are copied: byte for byte the same, in the same order. On the way every seq
 * that metadata names is looked up.
 */
import type { MarkedMessage } from '../../log/buffer.ts'
import { DataDirError } from '../errors.ts'
import type { ReadableBuffer } from './copy-messages.ts'
import { type PipePage, readPipe } from './read-pipe.ts'
import type { SeqMap } from './seq-map.ts'
import type { Gap } from './translate.ts'

/** Throws DataDirError where they differ. Returns what the source has lost of them, in order. */
export async function comparePipe(
  pipeId: string,
  source: Pick<ReadableBuffer, 'reader'>,
  target: Pick<ReadableBuffer, 'reader'>,
  map: SeqMap,
  onCompared: (bytes: number) => void,
): Promise<Gap[]> {
  const gaps: Gap[] = []
  const begin = await source.reader.earliest(pipeId)
  const theirs = oneByOne(readPipe(target.reader, pipeId, 0), [])
  let isFirst = true
  for await (const message of oneByOne(readPipe(source.reader, pipeId, begin.seq, begin.mark), gaps)) {
    let copy = await nextOf(theirs)
    // An interrupted move may have copied messages that the source has dropped since: every lane is done with those.
    while (isFirst && copy !== null && copy.msgId !== message.msgId) {
      map.beginsAfter(copy.seq)
      copy = await nextOf(theirs)
    }
    isFirst = false
    if (copy === null || !isSame(message, copy)) throw different(pipeId, message, copy)
    map.moved(message.seq, copy.seq)
    onCompared(message.body.length)
  }
  const more = await nextOf(theirs)
  if (more !== null && !isFirst) throw different(pipeId, null, more)
  return gaps
}

async function* oneByOne(pages: AsyncGenerator<PipePage>, gaps: Gap[]): AsyncGenerator<MarkedMessage> {
  for await (const page of pages) {
    gaps.push(...page.gaps)
    yield* page.messages
  }
}

async function nextOf(messages: AsyncGenerator<MarkedMessage>): Promise<MarkedMessage | null> {
  const { value, done } = await messages.next()
  return done === true ? null : value
}

function isSame(a: MarkedMessage, b: MarkedMessage): boolean {
  return (
    a.msgId === b.msgId &&
    a.receivedMs === b.receivedMs &&
    a.recordCount === b.recordCount &&
    Buffer.compare(a.body, b.body) === 0
  )
}

function different(pipeId: string, ours: MarkedMessage | null, theirs: MarkedMessage | null): DataDirError {
  const words = (one: MarkedMessage | null) => (one === null ? 'none' : `${one.msgId} at ${one.seq}`)
  return new DataDirError(
    'damaged',
    `pipe ${pipeId}: the source has message ${words(ours)} where the target has ${words(theirs)}; nothing was moved`,
    'begin again with an empty target: delete the stream (or the new data directory) and the database',
  )
}
