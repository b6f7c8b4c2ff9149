/**
 * Copies the messages of a pipe: all that the source keeps, in order. What the target has of them already is found by its newest
 * message, which the source knows by its `msg_id`; it goes on behind that one.
 */
import type { BufferReader, Idempotency, MessageLookup } from '../../log/buffer.ts'
import { keyLifetimeMs } from '../../log/key-store.ts'
import type { MessageSink } from '../../stores/open-move.ts'
import { DataDirError } from '../errors.ts'
import type { MovedPipe } from './metadata-store.ts'
import { readPipe } from './read-pipe.ts'

export interface ReadableBuffer {
  reader: BufferReader
  lookup: MessageLookup
}

/** `onCopied`: bytes of records' text. */
export async function copyPipe(
  { pipeId, workspaceId }: MovedPipe,
  source: ReadableBuffer & { keysOf(pipeId: string): Promise<ReadonlyMap<number, Idempotency>> },
  target: ReadableBuffer,
  sink: MessageSink,
  onCopied: (bytes: number) => void,
): Promise<void> {
  const keys = await source.keysOf(pipeId)
  const oldestKeyMs = Date.now() - keyLifetimeMs
  const { seq, mark } = await whereToGoOn(pipeId, source, target)
  for await (const { messages } of readPipe(source.reader, pipeId, seq, mark)) {
    await sink.put(
      messages.map(({ seq: at, msgId, receivedMs, recordCount, body }) => {
        const idempotency = receivedMs >= oldestKeyMs ? keys.get(at) : undefined
        const message = { pipeId, workspaceId, msgId, receivedMs, recordCount, body }
        return idempotency === undefined ? message : { ...message, idempotency }
      }),
    )
    onCopied(messages.reduce((sum, { body }) => sum + body.length, 0))
  }
}

async function whereToGoOn(pipeId: string, source: ReadableBuffer, target: ReadableBuffer) {
  const head = await target.reader.head(pipeId)
  if (head.seq === 0) return await source.reader.earliest(pipeId)
  const [newest] = await target.lookup.list(pipeId, {
    beforeSeq: head.seq + 1,
    afterSeq: head.seq - 1,
    limit: 1,
  })
  const found = newest === undefined ? null : await source.lookup.find(newest.msgId)
  if (found === null || found.pipeId !== pipeId) {
    throw new DataDirError(
      'conflict',
      `the target holds messages of pipe ${pipeId} that the source does not have`,
      'begin again with an empty target: delete the stream (or the new data directory) and the database',
    )
  }
  return await source.reader.cursorAt(pipeId, found.seq)
}
