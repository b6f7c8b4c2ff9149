/**
 * Orphans: messages in a directory that another machine has replaced, which its daemon acknowledged (or was about to) and never
 * replicated. The log and the metadata of the directory are only read. Its lock is held meanwhile, so no daemon starts in it.
 *
 *   | a crash after …                  | on disk                      | the next try                                         |
 *   |----------------------------------|------------------------------|------------------------------------------------------|
 *   | a part of the export             | `FILE.part`                  | writes it again                                      |
 *   | the export has its name          | FILE                         | writes it again: the pipes are not settled           |
 *   | some messages were accepted      | nothing new                  | sends all again, under the same Idempotency-Keys     |
 *   | all messages were accepted       | nothing new                  | likewise                                             |
 *   | the pipes are settled            | `replica-orphans.json`       | nothing is left to do                                |
 *   `rejoin`:
 *   | the new name of the directory    | `….replaced-TIME`            | there is no directory: a standby can start           |
 *
 * A stale owner writes nothing meanwhile: its daemon has ended (the lock says so), and a new start finds the other writer. If the
 * bucket does not answer it, it accepts messages again in async mode; they are orphans too. After `rejoin`, there is no
 * directory in which it could start.
 */
import { existsSync, realpathSync, renameSync } from 'node:fs'
import path from 'node:path'
import { current } from '../contract/epochs.ts'
import { records } from '../log/record-text.ts'
import { openLogRows } from '../log/segments/replicated-rows.ts'
import { decodeRowBatch, type EncodedRow } from '../log/segments/row-batch.ts'
import { checkMetadata } from '../metadata/sqlite/check.ts'
import { pipeOwners } from '../metadata/sqlite/pipe-names.ts'
import { errorCode } from '../platform/error-code.ts'
import { fsyncDirectory } from '../platform/fsync.ts'
import { openBucket } from '../replica/bucket.ts'
import { targetName } from '../replica/replica-options.ts'
import { replicaKey } from '../replica/sealing.ts'
import { readSettled, type Settlement, writeSettled } from '../replica/settled-orphans.ts'
import { findTakeover, type Takeover } from '../replica/takeover.ts'
import { readWriterFile, type WriterFile } from '../replica/writer-file.ts'
import type { Settings } from '../settings/settings.ts'
import { dataDirAt, requireSetUp, sealingKeyOf } from './data-dir.ts'
import { DataDirError } from './errors.ts'
import { lockDataDir } from './lock.ts'
import { inReplicaWords } from './replica-errors.ts'
import { requireReplica } from './verify-replica.ts'

export interface OrphanPipe {
  pipe_id: string
  /** Null: the pipe was deleted. */
  pipe_name: string | null
  workspace_name: string | null
  messages: number
  records: number
  first_stream_seq: number
  last_stream_seq: number
  first_received_ts: string
  last_received_ts: string
  /** Messages that every destination of the pipe had received from the old machine. */
  delivered_messages: number
  settled: Settlement['how'] | null
}

export interface OrphansReport {
  data_dir: string
  target: string
  /** The generation that has the log now, and when its newest slot was created. */
  generation: number
  newest_slot_ts: string
  /** Messages up to it are in the replica. */
  replicated_through_seq: number
  pipes: OrphanPipe[]
  /** Messages of the lost range that cannot be read. */
  damaged_messages: number
}

const hints = {
  unreachable: 'run it again when the bucket answers',
  anotherKey: 'use the key with which the old daemon ran',
  damaged: 'keep the old directory, and ask for help with its log',
}

/** The orphans of a directory, whose lock is held until `close`. */
export class Orphans {
  readonly report: OrphansReport
  readonly #root: string
  readonly #file: WriterFile
  readonly #deliveredSeq: ReadonlyMap<string, number>
  readonly #unlock: () => void

  private constructor(
    settings: Settings,
    found: { takeover: Takeover; file: WriterFile; unlock: () => void },
  ) {
    const { takeover, file, unlock } = found
    this.#root = settings.data_dir
    this.#file = file
    this.#unlock = unlock
    this.#deliveredSeq = deliveredSeqs(dataDirAt(this.#root).metadataFile)
    this.report = {
      data_dir: this.#root,
      target: file.target,
      generation: takeover.newest.generation,
      newest_slot_ts: new Date(takeover.newest.createdMs).toISOString(),
      replicated_through_seq: takeover.headSeq,
      pipes: [],
      damaged_messages: 0,
    }
    this.#count()
  }

  /** Throws DataDirError if the directory was not replaced, is in use, or the bucket does not answer; ConfigError. */
  static async open(settings: Settings, env: NodeJS.ProcessEnv): Promise<Orphans> {
    const target = requireReplica(settings)
    const dir = dataDirAt(settings.data_dir)
    requireSetUp(dir)
    const file = requireWriter(settings.data_dir, targetName(target))
    const key = replicaKey(await sealingKeyOf(settings, env))
    const unlock = lockDataDir(dir)
    const bucket = openBucket(target)
    try {
      const { epochs, dataDirId } = checkMetadata(dir.metadataFile)
      const takeover = await findTakeover({ bucket, key }, file, current(epochs).epoch)
      if (takeover === null)
        throw new DataDirError(
          'unfit',
          `${settings.data_dir} is the writer of ${file.target}: nothing has replaced it`,
          'start its daemon: pipectl serve',
        )
      if (takeover.newest.dataDirId !== dataDirId)
        throw new DataDirError(
          'conflict',
          `${file.target} has the replica of another data directory`,
          'its messages cannot be compared with this one: keep this directory',
        )
      return new Orphans(settings, { takeover, file, unlock })
    } catch (error) {
      unlock()
      throw inReplicaWords(error, file.target, hints).error
    } finally {
      bucket.close()
    }
  }

  /** In the order of the log. `isDelivered`: every destination of the pipe had it. */
  *messages(): Generator<EncodedRow & { isDelivered: boolean }> {
    const rows = openLogRows(dataDirAt(this.#root).bufferDir)
    this.report.damaged_messages = 0
    for (let afterSeq = this.report.replicated_through_seq; ; ) {
      const read = rows.read(afterSeq, readBytes)
      if (read === null) return
      this.report.damaged_messages += read.damaged
      afterSeq = read.lastSeq
      for (const item of decodeRowBatch(read.rows).items())
        if (item.kind === 'row') yield { ...item.row, isDelivered: this.#isDelivered(item.row) }
    }
  }

  /** The messages of these pipes are safe elsewhere. Durable when it returns. */
  settle(pipes: readonly OrphanPipe[], how: Settlement['how']): void {
    const settled = readSettled(this.#root, this.#file.writerId)
    for (const pipe of pipes) {
      settled.set(pipe.pipe_id, { how, throughSeq: pipe.last_stream_seq })
      pipe.settled = how
    }
    writeSettled(this.#root, this.#file.writerId, settled)
  }

  /** Gives the directory another name, and returns it. Nothing is deleted. */
  moveAside(nowMs: number): string {
    const root = realpathSync(this.#root)
    const aside = `${root}.replaced-${new Date(nowMs).toISOString().replaceAll(/[:.]/g, '-')}`
    try {
      renameSync(root, aside)
    } catch (error) {
      throw new DataDirError(
        'conflict',
        `${root} cannot be moved to ${aside} (${errorCode(error) ?? 'unknown error'})`,
        'move it yourself, or use another data_dir for the standby',
        error,
      )
    }
    fsyncDirectory(path.dirname(root))
    return aside
  }

  close(): void {
    this.#unlock()
  }

  #isDelivered({ pipeId, seq }: EncodedRow): boolean {
    return seq <= (this.#deliveredSeq.get(pipeId) ?? 0)
  }

  #count(): void {
    const { metadataFile } = dataDirAt(this.#root)
    const owners = pipeOwners(metadataFile)
    const settled = readSettled(this.#root, this.#file.writerId)
    const pipes = new Map<string, OrphanPipe>()
    for (const { pipeId, seq, receivedMs, recordCount, isDelivered } of this.messages()) {
      const received_ts = new Date(receivedMs).toISOString()
      const pipe = pipes.get(pipeId) ?? {
        pipe_id: pipeId,
        pipe_name: owners.get(pipeId)?.pipeName ?? null,
        workspace_name: owners.get(pipeId)?.workspaceName ?? null,
        ...{ messages: 0, records: 0, first_stream_seq: seq, last_stream_seq: seq },
        ...{ first_received_ts: received_ts, last_received_ts: received_ts, delivered_messages: 0 },
        settled: null,
      }
      pipe.messages += 1
      pipe.records += recordCount
      pipe.last_stream_seq = seq
      pipe.last_received_ts = received_ts
      if (isDelivered) pipe.delivered_messages += 1
      pipes.set(pipeId, pipe)
    }
    for (const pipe of pipes.values()) {
      const { how, throughSeq } = settled.get(pipe.pipe_id) ?? { how: null, throughSeq: 0 }
      if (pipe.last_stream_seq <= throughSeq) pipe.settled = how
    }
    this.report.pipes = [...pipes.values()]
  }
}

/** The texts of the records of a stored message. Deleted ones are left out. */
export function recordTextsOf(body: Buffer): string[] {
  return [...records(body)].filter(({ length }) => length > 0).map((record) => record.toString('utf8'))
}

const readBytes = 4 * 1024 * 1024

function requireWriter(root: string, target: string): WriterFile {
  const file = existsSync(root) ? readWriterFile(root) : null
  if (file?.target === target) return file
  throw new DataDirError(
    'unfit',
    `${root} has never written to ${target}`,
    'use the settings with which its daemon ran',
  )
}

/** By pipe: every destination has the messages up to it. Pipes without a destination are left out. */
function deliveredSeqs(metadataFile: string): Map<string, number> {
  const lowest = new Map<string, number>()
  for (const { pipeId, cursorSeq, isIntact } of checkMetadata(metadataFile).lanes) {
    const seq = isIntact ? cursorSeq : 0
    lowest.set(pipeId, Math.min(seq, lowest.get(pipeId) ?? Number.POSITIVE_INFINITY))
  }
  return lowest
}
