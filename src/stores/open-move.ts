/**
 * The parts of a buffer that a move needs besides its ports: the keys of its messages, and a way to append many
 * messages.
 */
import type { Idempotency, NewMessage, OpenBuffer } from '../log/buffer.ts'
import type { BufferSpec } from '../log/buffer-spec.ts'
import type { KeyStore } from '../log/key-store.ts'
import { seqBaseOf, withoutBase } from '../log/offset.ts'
import { usedKeysOf } from '../log/segments/keyed-rows.ts'

export interface MessageSink {
  /**
   * Takes messages of one pipe, which may be written later. Rejects with BufferUnavailableError when they, or earlier ones, could
   * not be written; some of them may be there all the same.
   */
  put(messages: readonly NewMessage[]): Promise<void>
  /** Resolves when everything is durable. */
  flush(): Promise<void>
  close(): Promise<void>
}

/**
 * `buffer`: opened from the same spec. `keys`: of the cluster, if it is one. No other process may write to either.
 * Rejects with BufferUnavailableError.
 */
export async function openMessageSink(
  spec: BufferSpec,
  buffer: OpenBuffer,
  keys: Pick<KeyStore, 'add'>,
): Promise<MessageSink> {
  if (spec.kind === 'segments') return appenderSink(buffer)
  const { openFrameImport } = await import('../cluster/jetstream/frame-import.ts')
  return await openFrameImport(spec, keys)
}

/**
 * Makes the checks of an opening for writing and leaves nothing behind. Rejects as `openBuffer` does. Files in a directory have no
 * settings that could contradict those of the spec.
 */
export async function rehearseOpening(spec: BufferSpec): Promise<void> {
  if (spec.kind === 'segments') return
  const { rehearseStreams } = await import('../cluster/jetstream/rehearse-streams.ts')
  await rehearseStreams(withoutBase(spec))
}

/** The idempotency keys of a pipe's messages, by seq. */
export async function keysOfPipe(
  spec: BufferSpec,
  pipeId: string,
): Promise<ReadonlyMap<number, Idempotency>> {
  if (spec.kind === 'segments') return usedKeysOf(spec.dir, pipeId)
  const { usedKeysOf: keysInStream } = await import('../cluster/jetstream/used-keys.ts')
  const base = seqBaseOf(spec)
  return new Map([...(await keysInStream(spec, pipeId))].map(([seq, key]) => [seq + base, key]))
}

/** Its writer commits frames in the order they come. */
function appenderSink({ appender }: OpenBuffer): MessageSink {
  return {
    async put(messages) {
      await Promise.all(messages.map((message) => appender.append(message)))
    },
    async flush() {},
    async close() {},
  }
}
