/** Runs in the replica thread: joins the log in the bucket, however long that takes, and replicates until it is ended. */
import type { LogRows } from '../log/segments/replicated-rows.ts'
import type { RowChanges } from '../metadata/sqlite/row-changes.ts'
import { backoffMs } from '../platform/backoff.ts'
import type { Logger } from '../platform/log.ts'
import { Waits } from '../platform/waits.ts'
import { type Bucket, BucketError, probeBucket } from './bucket.ts'
import { type ReplicaStatus, Replicator } from './replicator.ts'
import type { OnStored } from './replicator-parts.ts'
import { SlotError } from './slot.ts'
import { ReplacedError, SlotWriter, type WriterSpec } from './writer.ts'

export interface ReplicaParts {
  bucket: Bucket
  /** See `replicaKey`. */
  key: Buffer
  rows: LogRows
  changes: RowChanges
  spec: WriterSpec
  intervalMs: number
  heartbeatMs: number | null
  log: Logger
  onJoined(): void
  onStored: OnStored
  /** The process must end: `event` is the line for the log. */
  onRefused(event: RefusedEvent, message: string): void
}

export interface RunningReplica {
  status(): ReplicaStatus | null
  /** The error of the last attempt to join. */
  joinError(): ReplicaStatus['error']
  wake(): void
  finish(withinMs: number): Promise<void>
  /** Settles when it ends. Rejects with errors of the disk. */
  ended: Promise<void>
}

/** Another writer has the log, or the store lacks what keeps it out. */
export type RefusedEvent = 'replica.replaced' | 'replica.store_unfit'

class UnfitStoreError extends Error {}

const firstPauseMs = 500
const longestPauseMs = 10_000

/** An error of the bucket or of what is in it, after which joining is tried again. Throws all others. */
function expected(error: unknown): { code: string; message: string } {
  // Nothing would keep a second writer out.
  if (error instanceof BucketError && error.code === 'no_conditional_writes')
    throw new UnfitStoreError(error.message)
  if (error instanceof BucketError) return error
  if (error instanceof SlotError) return { code: error.fault, message: error.message }
  throw error
}

export function runReplica(parts: ReplicaParts): RunningReplica {
  const waits = new Waits()
  let replicator: Replicator | null = null
  let joinError: ReplicaStatus['error'] = null
  let isEnding = false

  async function join(): Promise<SlotWriter | null> {
    for (let failures = 1; !isEnding; failures += 1) {
      try {
        await probeBucket(parts.bucket)
        return await SlotWriter.join(parts, parts.spec)
      } catch (error) {
        const { code, message } = expected(error)
        if (joinError === null) parts.log.warn({ err: error }, 'replica.failing')
        joinError = { code, message, sinceMs: joinError?.sinceMs ?? Date.now() }
        await waits.wait(backoffMs(failures, firstPauseMs, longestPauseMs))
      }
    }
    return null
  }

  async function run(): Promise<void> {
    try {
      const writer = await join()
      if (writer === null) return
      const { slot } = writer.position
      parts.log.info(
        { target: parts.spec.target, slot, generation: writer.file.generation },
        'replica.joined',
      )
      parts.onJoined()
      replicator = new Replicator({ ...parts, writer })
      await replicator.run()
    } catch (error) {
      if (error instanceof ReplacedError) parts.onRefused('replica.replaced', error.message)
      else if (error instanceof UnfitStoreError) parts.onRefused('replica.store_unfit', error.message)
      else throw error
    }
  }

  return {
    status: () => replicator?.status() ?? null,
    joinError: () => joinError,
    wake: () => replicator?.wake(),
    async finish(withinMs) {
      isEnding = true
      waits.end()
      await replicator?.close(withinMs)
    },
    ended: run(),
  }
}
