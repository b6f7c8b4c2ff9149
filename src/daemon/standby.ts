/**
 * `pipectl serve --standby`: follows a replica in a directory next to the data directory until it is promoted, and is then a
 * daemon like any other. Until then it answers health checks, and 503 to everything else.
 *
 *   download ─▶ following, one slot behind ──promote, or no heartbeat──▶ the next slot is created: the log is ours
 *                  ▲                                │ a newer slot exists                 │
 *                  └────────────────────────────────┘                    the directory gets its name: the daemon starts
 *
 * It can be ended at any time: the next start continues, and a slot that it created is its own.
 */
import { existsSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { dataDirAt } from '../maintenance/data-dir.ts'
import { promoteFileOf, restoreReplica } from '../maintenance/restore-replica.ts'
import { type Logger, openLog } from '../platform/log.ts'
import { missedHeartbeats } from '../replica/replica-options.ts'
import type { SlotHeader } from '../replica/slot.ts'
import { logSettings } from '../settings/log-settings.ts'
import type { Settings } from '../settings/settings.ts'
import { openServiceManager } from './service-manager.ts'

export interface StandbyOptions {
  env: NodeJS.ProcessEnv
  /** `s3://bucket/prefix` */
  url: string
  /** The sealing key of the primary. */
  keyFile: string | null
}

/** How often it looks for the request of `pipectl promote`. */
const promoteEveryMs = 200

/** Resolves when the data directory is complete and is the writer of the replica. Returns at once if it was before. */
export async function runStandby(settings: Settings, options: StandbyOptions): Promise<void> {
  if (existsSync(dataDirAt(settings.data_dir).metadataFile)) return
  const log = openLog(logSettings(settings), 'standby')
  // Nothing is lost: its directory is complete, or the next start makes it again.
  const stop = () => process.exit(0)
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  const serviceManager = openServiceManager(options.env, log)
  const server = await listen(settings)
  const watch = new Watch(settings, log)
  serviceManager.ready()
  try {
    const restored = await restoreReplica(settings, options.env, {
      ...options,
      dataDir: settings.data_dir,
      atMs: null,
      paused: false,
      onProgress: watch.downloaded,
      standby: { isPromoted: (last) => watch.isPromoted(last) },
    })
    const { slot, throughMs } = restored
    log.warn({ slot, through: new Date(throughMs).toISOString() }, 'standby.promoted')
  } finally {
    process.off('SIGTERM', stop)
    process.off('SIGINT', stop)
    await new Promise((resolve) => {
      server.close(resolve)
      server.closeAllConnections()
    })
    await serviceManager.close()
  }
}

class Watch {
  readonly #promoteFile: string
  readonly #intervalMs: number
  readonly #lostAfterMs: number
  readonly #log: Logger
  #slot = 0
  /** By the clock of this process: the clocks of two machines are never compared. */
  #seenAt = performance.now()

  constructor(settings: Settings, log: Logger) {
    this.#promoteFile = promoteFileOf(settings.data_dir)
    this.#intervalMs = settings['replica.interval'] * 1000
    this.#lostAfterMs = settings['replica.auto_promote']
      ? missedHeartbeats * settings['replica.heartbeat'] * 1000
      : Number.POSITIVE_INFINITY
    this.#log = log
    // A request from before this start is not repeated.
    rmSync(this.#promoteFile, { force: true })
  }

  readonly downloaded = (doneBytes: number, totalBytes: number): void => {
    if (doneBytes === totalBytes) this.#log.info({ bytes: totalBytes }, 'standby.downloaded')
  }

  async isPromoted({ slot }: SlotHeader): Promise<boolean> {
    if (this.#slot === 0) this.#log.info({ slot }, 'standby.following')
    if (slot !== this.#slot) this.#seenAt = performance.now()
    this.#slot = slot
    const waitsUntil = performance.now() + this.#intervalMs
    do {
      if (existsSync(this.#promoteFile)) return true
      const silentMs = performance.now() - this.#seenAt
      if (silentMs > this.#lostAfterMs) {
        this.#log.warn({ silent_ms: Math.round(silentMs), slot }, 'standby.primary_silent')
        return true
      }
      await delay(Math.min(promoteEveryMs, this.#intervalMs))
    } while (performance.now() < waitsUntil)
    return false
  }
}

/** `/v1/health` is ok: the process serves. Nothing else is served here. */
async function listen({ listen: { host, port } }: Settings): Promise<Server> {
  const body = (value: object) => JSON.stringify(value)
  const server = createServer((request, response) => {
    const isHealth = request.url?.split('?')[0] === '/v1/health'
    const message = 'This machine is a standby: it takes over when it is promoted.'
    response.writeHead(isHealth ? 200 : 503, {
      'content-type': 'application/json',
      ...(isHealth ? {} : { 'retry-after': '5' }),
    })
    response.end(isHealth ? body({ status: 'ok' }) : body({ error: { code: 'standby', message } }))
    request.resume()
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  return server
}
