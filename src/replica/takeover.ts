/**
 * Finds where another machine took the log in the bucket over from a writer, and with that the newest message of the old writer
 * that the other one has. The bucket is only read.
 *
 *   slots of this writer          slots of its successor
 *   ─▶ 17 ─▶ 18 ─▶ 19             ─▶ 20 ─▶ 21 ─▶ …
 *                  └ headSeq: later messages of the old directory were never replicated
 *
 * The slots of the old writer are removed with the second snapshot after the takeover. From then on the snapshot says it: the
 * successor began a new epoch after the newest message that it had (`Epoch.after_seq`).
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { readIdentity } from '../metadata/sqlite/offline.ts'
import type { Bucket } from './bucket.ts'
import { type FoundSlot, newestSlot, readSlot } from './chain.ts'
import { type SlotHeader, slotOfName, slotPrefix } from './slot.ts'
import { listSnapshots, openSnapshot, SnapshotError } from './snapshot.ts'
import type { WriterFile } from './writer-file.ts'

export interface Takeover {
  /** Messages of the old writer up to this seq are in the replica. */
  headSeq: number
  /** The newest slot of the log, which another machine wrote. */
  newest: SlotHeader
}

interface Store {
  bucket: Bucket
  key: Buffer
}

const attempts = 8

/**
 * Null: the log still belongs to this writer. `epoch`: the number of the epoch of its directory. Throws BucketError, SealError,
 * SlotError, SnapshotError.
 */
export async function findTakeover(
  store: Store,
  { writerId, generation, after }: WriterFile,
  epoch: number,
): Promise<Takeover | null> {
  const newest = await newestSlot(store.bucket, store.key)
  if (newest === null) throw new SnapshotError('the bucket has no slot of a replica')
  const { header } = newest.slot
  const isNext = after !== null && after.checksum === newest.checksum
  if (header.writerId === writerId || isNext) return null
  const last = await lastSlotOf(store, generation)
  const headSeq = last === null ? await headOfEpoch(store, epoch) : last.slot.header.headSeq
  return { headSeq, newest: header }
}

/** The last slot of a generation, by bisection: generations never decrease. Null: its slots were removed. */
async function lastSlotOf({ bucket, key }: Store, generation: number): Promise<FoundSlot | null> {
  const slots: number[] = []
  for await (const { name } of bucket.list(slotPrefix)) {
    const slot = slotOfName(name)
    if (slot !== null) slots.push(slot)
  }
  let last: FoundSlot | null = null
  for (let [from, to] = [0, slots.length]; from < to; ) {
    const middle = Math.floor((from + to) / 2)
    const found = await readSlot(bucket, key, slots[middle]!, attempts)
    // A slot that was removed since the listing is older than all that are left.
    if (found !== null && found.slot.header.generation > generation) to = middle
    else {
      last = found ?? last
      from = middle + 1
    }
  }
  return last
}

/** From the metadata of the newest snapshot: the seq after which the epoch that followed `epoch` began. */
async function headOfEpoch({ bucket, key }: Store, epoch: number): Promise<number> {
  const newest = (await listSnapshots(bucket)).at(-1)
  const opened = newest === undefined ? null : await openSnapshot(bucket, key, newest, attempts)
  if (opened === null)
    throw new SnapshotError('there is no snapshot that says where the replica was taken over')
  const directory = mkdtempSync(path.join(tmpdir(), 'pipectl-takeover-'))
  try {
    const file = path.join(directory, 'metadata.db')
    await writeTo(file, opened.metadata)
    const stored = readIdentity(file)
    const epochs = stored.kind === 'found' ? stored.identity.epochs : []
    const next = epochs.find((one) => one.epoch === epoch + 1)
    if (next === undefined)
      throw new SnapshotError('the newest snapshot does not say where the replica was taken over')
    return next.after_seq
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

async function writeTo(file: string, content: AsyncIterable<Buffer>): Promise<void> {
  const handle = await open(file, 'wx', 0o600)
  try {
    for await (const part of content) await handle.writeFile(part)
  } finally {
    await handle.close()
  }
}
