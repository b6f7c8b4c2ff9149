/**
 * A node as a process of its own, to be killed and paused: it takes pipes and acts for each that it owns, as a lane would.
 *
 *   gained ──▶ acted: { pipe, epoch, node, atNs }, a line each: `atNs` is read before it is asked whether the pipe is held
 *
 * All processes of a machine share the monotonic clock, so the lines of several say who acted when.
 */
import { appendFileSync } from 'node:fs'
import { pino } from 'pino'
import { openPipeLeases } from '../../src/cluster/leases.ts'
import type { ClusterStore } from '../../src/metadata/cluster-store.ts'
import { openMetadata } from '../../src/stores/open-metadata.ts'

export interface LeaseChildOptions {
  url: string
  /** Hex. */
  sealingKey: string
  nodeId: string
  /** The file of the actions; a line each. */
  file: string
  /** It does not see the others, so every node wants every pipe. */
  isAlone: boolean
  /** Negative control: takes what it found free without looking whether it still is. */
  isCareless: boolean
}

export interface Act {
  pipe: string
  epoch: number
  node: string
  atNs: string
}

const actEveryMs = 25
const options = JSON.parse(process.argv[2] ?? '') as LeaseChildOptions
const { nodeId } = options
const metadata = await openMetadata(
  { kind: 'postgresql', url: options.url },
  Buffer.from(options.sealingKey, 'hex'),
)
const { cluster } = metadata
const pipes: ClusterStore['pipes'] = {
  ...cluster!.pipes,
  ...(options.isAlone
    ? { workers: async () => [{ leaseId: 'mine', nodeId, isDraining: false, buffer: null }] }
    : {}),
  ...(options.isCareless ? { claim: claimCarelessly } : {}),
}
const log = pino({ level: 'warn' }, pino.destination(2))
const leases = await openPipeLeases({ store: { pipes }, nodeId, log })
setInterval(() => {
  const lines: string[] = []
  for (const [pipe, epoch] of leases.ownedPipes) {
    const atNs = process.hrtime.bigint().toString()
    if (leases.holds(pipe, epoch)) lines.push(JSON.stringify({ pipe, epoch, node: nodeId, atNs }))
  }
  if (lines.length > 0) appendFileSync(options.file, `${lines.join('\n')}\n`)
}, actEveryMs)
process.stdout.write('ready\n')

/** Compares nothing: the row is its own, whoever has taken it since it was found. */
async function claimCarelessly(...[leaseId, free]: Parameters<ClusterStore['pipes']['claim']>) {
  await new Promise((resolve) => setTimeout(resolve, 50))
  const { Client } = (await import('pg')).default
  const client = new Client({ connectionString: options.url })
  await client.connect()
  const claimed = []
  for (const { pipeId } of free) {
    await client.query(`INSERT INTO pipe_owners VALUES ($1, NULL, 0) ON CONFLICT DO NOTHING`, [pipeId])
    const found = await client.query(`SELECT epoch FROM pipe_owners WHERE pipe_id = $1`, [pipeId])
    const epoch = Number(found.rows[0].epoch) + 1
    await client.query(`UPDATE pipe_owners SET lease_id = $1, epoch = $2 WHERE pipe_id = $3`, [
      leaseId,
      epoch,
      pipeId,
    ])
    claimed.push({ pipeId, epoch })
  }
  await client.end()
  return claimed
}
