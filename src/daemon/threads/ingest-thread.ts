/**
 * An ingest thread: listens on the same address as the others, takes ingest requests from their first byte to their 202, and
 * forwards every other request to main.
 *
 *   sockets ─ ingest ─ appender ──frames──▶ writer thread
 *      │         └── directory, asks main and is told of each change before management answers
 *      └──── everything else ──▶ main
 *
 * An error that nobody catches closes its sockets and is reported to main, which ends the process: the thread itself must not
 * end with open sockets, because that aborts the process (uv_loop_close).
 */
import assert from 'node:assert'
import { parentPort, workerData } from 'node:worker_threads'
import type { Listener } from '../../api/http/engine.ts'
import { ingestPath } from '../../api/http/ingest-routes.ts'
import { errorResponse } from '../../api/http/response.ts'
import { countTraffic } from '../../api/http/traffic.ts'
import { createEngine } from '../../api/http/uws/engine.ts'
import { AskedDirectorySource } from '../../api/ingest-threads/asked-directory.ts'
import { Forwarding } from '../../api/ingest-threads/forwarding.ts'
import {
  beatEveryMs,
  type Command,
  type FromIngestThread,
  type IngestThreadData,
  keysUsedEveryMs,
  type ToIngestThread,
} from '../../api/ingest-threads/protocol.ts'
import { RejectedCounts } from '../../api/ingest-threads/rejected-counts.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { createBodyMemory } from '../../ingest/body-memory.ts'
import { openBodyParsers } from '../../ingest/body-parsers.ts'
import { createClientIp } from '../../ingest/client-ip.ts'
import { createClusterQuota } from '../../ingest/cluster-quota.ts'
import { createAuthenticate } from '../../ingest/directory/authenticate.ts'
import { openDirectory } from '../../ingest/directory/directory-cache.ts'
import { createSharedGeo } from '../../ingest/geo.ts'
import { createIngest } from '../../ingest/ingest.ts'
import { IngestObserved } from '../../ingest/observed.ts'
import { createQuota } from '../../ingest/quota.ts'
import { SharedCounters } from '../../ingest/shared-counters.ts'
import { openLog } from '../../platform/log.ts'
import { Semaphore } from '../../platform/semaphore.ts'
import { openPortAppender } from '../../stores/open-log.ts'

assert(parentPort !== null, 'runs as a thread')
const port = parentPort
const data = workerData as IngestThreadData
const post = (message: FromIngestThread, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer)
const log = openLog(data.log, `ingest-${data.index}`)
const traffic = countTraffic()
const forwarding = new Forwarding(post)
const source = new AskedDirectorySource((id, question) => post({ kind: 'ask', id, question }))
let listener: Listener | null = null
let isClosing = false

process.on('uncaughtException', (error) => {
  post({ kind: 'failed', stack: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  close()
})
const counters = new SharedCounters(data.counters)
const geo = createSharedGeo(data.geo)
const clientIp = createClientIp(data.trustedProxies)
const appender = await openPortAppender(data.appender)
const parsers = openBodyParsers(data.maxBodyBytes * resourceLimits.parserHeapPerBodyByte, data.parsers)
// Before the directory is asked for: main answers over it.
port.on('message', receive)
setInterval(() => post({ kind: 'alive' }), beatEveryMs)
const opening = openDirectory(source, { onPipeDeleted: (pipeId) => counters.forget(pipeId) })
const directory = await opening
const authenticate = createAuthenticate(directory)
const ingest = createIngest({
  directory,
  authenticate,
  appender,
  geo,
  clientIp,
  quota: data.asksForQuota
    ? createClusterQuota(counters, (...asked) => source.quota(...asked))
    : createQuota({}, 0, counters),
  observed: new IngestObserved({ slot: data.index, memory: data.observed }),
  usage: new RejectedCounts((counts) => post({ kind: 'rejected', counts })),
  bodyMemory: createBodyMemory(data.maxInFlightBytes, counters),
  decoders: new Semaphore(data.decoders),
  parsers,
  maxBodyBytes: data.maxBodyBytes,
  maxRecords: data.maxRecords,
  maxKeys: data.maxKeys,
  now: Date.now,
})
setInterval(() => {
  const apiKeyIds = directory.takeUsedKeys()
  if (apiKeyIds.length > 0) post({ kind: 'keys_used', apiKeyIds })
}, keysUsedEveryMs)
post({ kind: 'ready' })

function receive(message: ToIngestThread): void {
  switch (message.kind) {
    case 'respond':
      forwarding.respond(message)
      break
    case 'stream':
    case 'piece':
    case 'stream_end':
      forwarding.stream(message)
      break
    case 'answer':
      source.answered(message.id, message.value)
      break
    case 'no_answer':
      source.failed(message.id, message.error)
      break
    case 'geo':
      geo.load(message.bytes)
      break
    case 'stopping':
      traffic.stop()
      break
    case 'close':
      close()
      break
    case 'command': {
      const { id, command } = message
      run(command).then(
        () => post({ kind: 'done', id, error: null }),
        (error) => post({ kind: 'done', id, error: String(error) }),
      )
    }
  }
}

async function run(command: Command): Promise<void> {
  switch (command.kind) {
    case 'listen':
      await listen(command)
      break
    case 'stop_listening':
      await listener?.stop()
      break
    case 'refresh': {
      const { refresh } = command
      const opened = await opening
      if ('pipeId' in refresh) await opened.refreshPipe(refresh.pipeId)
      else await opened.refreshKey(refresh.apiKeyId)
      break
    }
    case 'trust':
      clientIp.trust(command.cidrs)
      break
    case 'drain':
      await appender.drain()
      break
    case 'idle':
      await traffic.idle()
  }
}

async function listen({ name, address, paths }: Extract<Command, { kind: 'listen' }>): Promise<void> {
  const { begin, isStopping } = traffic
  listener ??= createEngine().createListener({
    name,
    address,
    paths: [
      ...forwarding.paths(paths, { authenticate, log, isStopping }),
      ingestPath({ ingest, log, isStopping }),
    ],
    notFound: forwarding.notFound,
    failed: (error) => errorResponse(error, log, 'server'),
    begin,
  })
  await listener.listen()
}

/** Main waits for the mark before it ends the process. Sockets are gone a turn of the event loop after they were closed. */
function close(): void {
  if (isClosing) return
  isClosing = true
  listener?.close()
  const closed = new Int32Array(data.closed)
  const mark = () => {
    Atomics.store(closed, data.index, 1)
    Atomics.notify(closed, data.index)
    post({ kind: 'closed' })
  }
  parsers.close().catch(() => {})
  setTimeout(() => setImmediate(mark), 1)
}
