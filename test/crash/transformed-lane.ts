/**
 * A lane with a transform in the tests of restarts: it filters out a third of the ledger's records, fails for some, which park,
 * and changes the others. What has to be at its destination afterwards, and what the lane has to have counted.
 */
import type { Test } from 'tap'
import type { TestDaemon } from '../support/daemon.ts'
import { audit, drained, type Producer } from '../support/ledger.ts'
import { until } from '../support/until.ts'

const isFailing = (n: number) => n % 50 === 7
const passes = (n: number) => n % 3 !== 0
const filter = 'int(record.n) % 3 != 0'
/** `stamp`: of each record that arrives, 64 hex digits. */
const map = [
  { op: 'move', from: 'ingest_ts', to: 'stamp' },
  { op: 'mask', paths: ['stamp'] },
]
const maskSalt = 'salt of the ledger'

export const transformed = {
  transform: { filter: `int(record.n) % 50 == 7 ? record.none == 1 : ${filter}`, map, mask_salt: maskSalt },
  on_permanent_error: 'park',
}

export const isMasked = (stamp: unknown) => /^[0-9a-f]{64}$/.test(String(stamp))

export interface TransformedLane {
  daemon: TestDaemon
  pipeId: string
  id: string
  producer: Producer
  /** All that the buffer holds, in its order. */
  inOrder: readonly number[]
  /** The records that arrived at the destination, in their order. */
  arrived(): Promise<number[]>
  isOnce: boolean
}

export async function checkTransformed(t: Test, name: string, lane: TransformedLane): Promise<void> {
  const { daemon, pipeId, id, producer, inOrder, arrived, isOnce } = lane
  const failing = inOrder.filter(isFailing)
  const others = inOrder.filter((n) => !isFailing(n))
  const passing = others.filter(passes)
  const of = (numbers: readonly number[]) => {
    const wanted = new Set(numbers)
    return { ...producer, accepted: new Set([...producer.accepted].filter((n) => wanted.has(n))) }
  }
  const counted = await drained(daemon, pipeId, id)
  const counts = ({ delivered_records, filtered_records, parked_records }: Record<string, unknown>) => ({
    ...{ delivered_records, filtered_records, parked_records },
  })
  t.strictSame(
    counts(counted),
    {
      delivered_records: passing.length,
      filtered_records: others.length - passing.length,
      parked_records: failing.length,
    },
    `${name}: each record is counted once, as what became of it`,
  )
  const found = await arrived()
  t.match(
    audit(of(passing), found, passing),
    { missing: [], unknown: [], outOfOrder: [], ...(isOnce ? { repeats: 0 } : {}) },
    `${name}: every record that passes, in order, and no other`,
  )
  t.strictSame(
    new Set(audit(of(others), found, others).missing),
    new Set(others.filter((n) => !passes(n) && producer.accepted.has(n))),
    `${name}, negative control: what is left out would be missed`,
  )

  // Parked records go through the transform as it is now.
  const at = `/v1/pipes/${pipeId}/destinations/${id}`
  const changed = await daemon.api('PATCH', at, { transform: { filter, map } })
  if (changed.status !== 200) throw new Error(changed.text)
  await daemon.api('POST', `${at}/parked/replay`, { all: true })
  const replayed = await until(`${name}: all of it is replayed`, async () => {
    const now = await daemon.lane(pipeId, id)
    return now.parked_records === 0 ? now : null
  })
  const released = failing.filter(passes)
  t.strictSame(counts(replayed), {
    delivered_records: passing.length + released.length,
    filtered_records: inOrder.length - passing.length - released.length,
    parked_records: 0,
  })
  t.strictSame((await arrived()).slice(found.length), released, `${name}: what was parked, in order`)
}
