/** A daemon with one lane on a small disk of its own, which somebody else is going to fill. Needs root. */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import type { Test } from 'tap'
import { copyFreshDataDir, startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { smallDisk } from '../support/small-disk.ts'
import { httpDestination } from './sender.ts'

export async function openFullDiskWorld(t: Test) {
  const root = smallDisk(t)
  const dataDir = path.join(root, 'data')
  mkdirSync(dataDir, { mode: 0o700 })
  const created = await copyFreshDataDir(dataDir)
  const daemon = await startDaemon({ dataDir })
  daemon.apiKey = created.api_key
  t.teardown(() => daemon.close())
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const pipeId = await daemon.createPipe({ pipe_name: 'full' })
  const laneId = await daemon.createDestination(pipeId, httpDestination(sink.url))
  const fill = path.join(root, 'somebody-elses')
  return { root, dataDir, daemon, sink, pipeId, laneId, fill, ballast: path.join(dataDir, 'buffer/ballast') }
}
