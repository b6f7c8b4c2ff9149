/** A daemon with a replica in a bucket server, for tests that operate the replica. */
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { startBucketServer } from './bucket-server.ts'
import { startDaemon } from './daemon.ts'
import { replicaEnv } from './replica.ts'

type Tap = { teardown(fn: () => unknown): void }

export async function openReplicaWorld(t: Tap, extra: Record<string, string> = {}) {
  const server = await startBucketServer()
  t.teardown(() => server.stop())
  const env: Record<string, string> = {
    ...replicaEnv(server),
    PIPECTL_BUFFER_SEGMENT_MAX_BYTES: '64KiB',
    ...extra,
  }
  const daemon = await startDaemon({ env })
  t.teardown(() => daemon.close())
  const keys = mkdtempSync(path.join(tmpdir(), 'pipectl-key-'))
  t.teardown(() => rmSync(keys, { recursive: true }))
  const keyFile = path.join(keys, 'sealing.key')
  copyFileSync(path.join(daemon.dataDir, 'sealing.key'), keyFile)
  const pipeId = await daemon.createPipe({ pipe_name: 'events' })
  const pullId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
    start_from: 'earliest',
  })
  let sent = 0
  const send = async (count: number) => {
    for (const end = sent + count; sent < end; )
      await daemon.ingest(pipeId, [{ n: sent++, text: 'x'.repeat(500) }])
  }
  return { server, env, daemon, keyFile, pipeId, pullId, send }
}

export type ReplicaWorld = Awaited<ReturnType<typeof openReplicaWorld>>
