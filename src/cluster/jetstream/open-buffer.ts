/**
 * The buffer in JetStream as main opens it for appending. There is no writer thread: the servers write. A lost connection is no
 * end: appends are rejected until it is back.
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import type {
  Appender,
  AppenderPort,
  Backlog,
  BufferStatus,
  OpenBuffer,
  SharedAppends,
  WriterHistograms,
} from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import type { KeyStore } from '../../log/key-store.ts'
import { sumOfHistograms, WriterObserved } from '../../log/writer-observed.ts'
import { endsWithin } from '../../platform/deadline.ts'
import { type LogSettings, openLog } from '../../platform/log.ts'
import { callsOver } from '../../platform/thread-calls.ts'
import { connectNats } from '../nats/connect.ts'
import type { NatsConnection } from '../nats/headers.ts'
import { oldestWithReplicas } from '../nats/versions.ts'
import { JetStreamAppender } from './appender.ts'
import { frameSubject, messagesPerFrame, pipeIdOf, seqOf, streamName } from './frames.ts'
import { batchedKeys } from './key-batches.ts'
import type { AppendingThreadReports, AppendingThreadSpec } from './protocol.ts'
import { Shares } from './shares.ts'
import { headOf } from './stored-frame.ts'
import { openStreams } from './stream.ts'
import { StreamWatch } from './stream-watch.ts'

const requestTimeoutMs = 5_000
const drainMs = 3_000
/** A stream that refused a frame for want of room is called full until it has this part of `max_bytes` free. */
const roomShare = 0.05
/** No request lasts that long: its node has ended, or stands still. */
const abandonedMs = 60_000
const sweepMs = 30_000

const withoutKeys = () =>
  Promise.reject(new Error('this buffer was opened without a store for idempotency keys'))
/** No thread asks for keys then. */
const noKeys = {
  find: withoutKeys,
  claim: withoutKeys,
  settle: withoutKeys,
  release: withoutKeys,
  pendingFor: withoutKeys,
}

export interface JetStreamWriterDeps {
  log: LogSettings
  /** See AppenderDeps. */
  liveness?: SharedArrayBuffer | null
  /** The keys of the cluster. Without them every message with an Idempotency-Key is rejected. */
  keys?: KeyStore | null
  onFatal(error: Error): void
}

/** Throws ConfigError, and StreamUnavailableError when JetStream is not ready in time. */
export async function openJetStreamBuffer(
  spec: JetStreamSpec,
  deps: JetStreamWriterDeps,
): Promise<OpenBuffer> {
  const connection = await connectNats(spec.nats)
  try {
    const { info, oldServers } = await openStreams(connection, spec)
    if (oldServers.length > 0)
      openLog(deps.log, 'buffer').warn(
        { servers: oldServers, needed: oldestWithReplicas },
        'buffer.nats_server_too_old',
      )
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: requestTimeoutMs })
    const watch = new StreamWatch(manager, spec, info)
    return new JetStreamBuffer({ spec, deps, connection, manager, watch, lastStreamSeq: info.state.last_seq })
  } catch (error) {
    await connection.close()
    throw error
  }
}

interface Parts {
  spec: JetStreamSpec
  deps: JetStreamWriterDeps
  connection: NatsConnection
  manager: JetStreamManager
  watch: StreamWatch
  lastStreamSeq: number
}

class JetStreamBuffer implements OpenBuffer {
  readonly #parts: Parts
  readonly #shares: Shares
  readonly #keys: KeyStore | null
  readonly #appender: JetStreamAppender
  #sweep: NodeJS.Timeout | null = null
  /** Main's own first, then one for each shared appender. */
  readonly #observed = [new WriterObserved()]
  readonly #ports: MessagePort[] = []
  #onSharedAppends: (appends: readonly SharedAppends[]) => void = () => {}
  /** `performance.now()` of the newest append that a thread reported as rejected. */
  #rejectedAtMs = Number.NEGATIVE_INFINITY
  #closing: Promise<void> | null = null

  constructor(parts: Parts) {
    this.#parts = parts
    const { spec, deps, connection, lastStreamSeq } = parts
    this.#shares = new Shares(connection, spec.cluster, spec.maxBytes)
    this.#keys = deps.keys == null ? null : batchedKeys(deps.keys)
    this.#appender = new JetStreamAppender(connection, {
      cluster: spec.cluster,
      replicas: spec.replicas,
      log: openLog(deps.log, 'buffer'),
      liveness: deps.liveness ?? null,
      observed: this.#observed[0]!,
      shares: this.#shares,
      keys: this.#keys,
      lastStreamSeq,
      // Who appends here counts by itself.
      onAppended: () => {},
      onRejected: () => this.#appendRejected(),
      onFatal: (error) => deps.onFatal(error),
    })
    if (this.#keys !== null) this.#sweepLater()
  }

  get appender(): Appender {
    return this.#appender
  }

  shareAppender(): AppenderPort {
    const { spec, deps, lastStreamSeq } = this.#parts
    const { port1, port2 } = new MessageChannel()
    const appender = this.#ports.push(port1) - 1
    const observed = new WriterObserved()
    this.#observed.push(observed)
    const thread = callsOver<object, AppendingThreadReports>('appender', port1)
    thread.serve({
      ...(this.#keys ?? noKeys),
      appended: (appends) => this.#onSharedAppends(appends.map((counts) => ({ appender, ...counts }))),
      rejected: () => this.#appendRejected(),
      failed: (message) => deps.onFatal(new Error(message)),
    })
    // The other thread decides how long it lives.
    port1.unref()
    const first: AppendingThreadSpec = {
      kind: 'jetstream',
      spec,
      log: deps.log,
      liveness: deps.liveness ?? null,
      observed: observed.memory,
      lastStreamSeq,
      hasKeys: this.#keys !== null,
    }
    port1.postMessage(first)
    return port2
  }

  onSharedAppends(listener: (appends: readonly SharedAppends[]) => void): void {
    this.#onSharedAppends = listener
  }

  async headSeq(): Promise<number> {
    const { manager, spec } = this.#parts
    const name = streamName(spec.cluster)
    const { last_seq: lastSeq } = (await manager.streams.info(name)).state
    if (lastSeq === 0) return 0
    const last = await manager.streams.getMessage(name, { seq: lastSeq }).catch(() => null)
    // A frame that is dropped already or damaged says nothing: then its last position, which no later message can be at or before.
    return seqOf(lastSeq, (headOf({ headers: last?.header })?.messages ?? messagesPerFrame) - 1)
  }

  /** The servers' silence is no fault of this process: it shows in `status`. */
  silentMs(): number {
    return 0
  }

  async status(): Promise<BufferStatus> {
    const { watch } = this.#parts
    const { bytes, frames, oldestMs, freeBytes, lostFrames } = watch.room
    return {
      bytes,
      idempotencyBytes: 0,
      segments: frames,
      oldestMs,
      freeBytes,
      unavailableReason: this.#unavailableReason(),
      missingAcknowledged: 0,
      damagedSegments: 0,
      missingSegments: 0,
      lostMessages: lostFrames,
    }
  }

  histograms(): WriterHistograms {
    return sumOfHistograms(this.#observed.map((observed) => observed.histograms()))
  }

  /**
   * The pipes that have messages here, those with nothing but keyed ones aside: keys are far too many to list. Without totals: other nodes append too, and what they have not yet added to usage must not
   * be added by this one.
   */
  async appended(): Promise<Map<string, Backlog>> {
    const { manager, spec } = this.#parts
    const none: Backlog = { messages: 0, records: 0, bytes: 0 }
    const { state } = await manager.streams.info(streamName(spec.cluster), {
      subjects_filter: frameSubject(spec.cluster, '*'),
    })
    const subjects = Object.keys(state.subjects ?? {})
    return new Map(subjects.map((subject) => [pipeIdOf(spec.cluster, subject), none]))
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const { connection, watch } = this.#parts
    if (this.#sweep !== null) clearTimeout(this.#sweep)
    await this.#appender.drain()
    this.#appender.close()
    this.#shares.close()
    watch.close()
    for (const port of this.#ports) port.close()
    // Commits that were announced last are on their way. Servers that do not answer are not waited for.
    const isDrained = await endsWithin(drainMs, connection.drain()).catch(() => false)
    if (!isDrained) await connection.close()
  }

  /** Claims of nodes that ended: nobody may ask for these keys again. Nodes take different times, so that one of them finds most. */
  #sweepLater(): void {
    const { log } = this.#parts.deps
    this.#sweep = setTimeout(
      async () => {
        try {
          await this.#appender.settleKeyClaims(abandonedMs)
        } catch (err) {
          openLog(log, 'buffer').warn({ err }, 'buffer.key_claims_not_settled')
        }
        if (this.#closing === null) this.#sweepLater()
      },
      sweepMs * (0.5 + Math.random()),
    )
    this.#sweep.unref()
  }

  #appendRejected(): void {
    this.#rejectedAtMs = performance.now()
  }

  #unavailableReason(): BufferStatus['unavailableReason'] {
    const { watch, spec } = this.#parts
    const reason = this.#appender.unavailableReason
    if (reason !== null) return reason
    // The stream has to answer a question that was sent since, or nothing would show that appends are accepted again.
    if (!watch.isAnswering || watch.answeredFromMs < this.#rejectedAtMs) return 'write_failed'
    const isFull =
      this.#appender.lastFailure === 'over_quota' && watch.room.freeBytes < spec.maxBytes * roomShare
    return isFull ? 'over_quota' : null
  }
}
