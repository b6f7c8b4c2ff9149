/**
 * The buffer in JetStream, opened for appending in main. There is no writer thread, because the servers write. A lost
 * connection does not close it: appends are rejected until the connection is back.
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
import { sumOfHistograms, WriterObserved } from '../../log/group-commit.ts'
import type { KeyStore } from '../../log/key-store.ts'
import { endsWithin } from '../../platform/deadline.ts'
import { type LogSettings, openLog } from '../../platform/log.ts'
import { Repeated } from '../../platform/repeated.ts'
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
/** A stream that rejected a frame for lack of room counts as full until this part of `max_bytes` is free. */
const roomShare = 0.05
/** No request lasts this long: its node has ended or is paused. */
const abandonedMs = 60_000
const sweepMs = 30_000

const withoutKeys = () =>
  Promise.reject(new Error('this buffer was opened without a store for idempotency keys'))
/** For threads that never use keys. */
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
  /** The keys of the cluster. Without them, every message with an Idempotency-Key is rejected. */
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
  /** The stream has one retention for all: a deletion is a matter of its age. */
  readonly erasure = null
  readonly replicated = null
  readonly #parts: Parts
  readonly #shares: Shares
  readonly #keys: KeyStore | null
  readonly #appender: JetStreamAppender
  #sweeps: Repeated | null = null
  /** Main's own first, then one per shared appender. */
  readonly #observed = [new WriterObserved()]
  readonly #ports: MessagePort[] = []
  #onSharedAppends: (appends: readonly SharedAppends[]) => void = () => {}
  /** `performance.now()` of the newest rejected append that a thread has reported. */
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
      // Main counts its own appends elsewhere.
      onAppended: () => {},
      onRejected: () => this.#appendRejected(),
      onFatal: (error) => deps.onFatal(error),
    })
    // The times of the nodes differ, so that one of them finds most claims.
    if (this.#keys !== null)
      this.#sweeps = new Repeated(
        () => sweepMs * (0.5 + Math.random()),
        () => this.#settleAbandoned(),
      )
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
    // The port must not keep main alive.
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
    // If that frame was dropped or is damaged, its last possible index is used, which is before any later message.
    return seqOf(lastSeq, (headOf({ headers: last?.header })?.messages ?? messagesPerFrame) - 1)
  }

  /** Silence of the servers is not a fault of this process; `status` reports it. */
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
   * The pipes with messages, except pipes that have only messages with keys, whose subjects are too many to list.
   * Without totals: appends of other nodes that are not yet in their usage must not be added by this node.
   */
  async appended(): Promise<Map<string, Backlog>> {
    const { manager, spec } = this.#parts
    const none: Backlog = { messages: 0, records: 0, bytes: 0 }
    const { state } = await manager.streams.info(streamName(spec.cluster), {
      subjects_filter: frameSubject({ cluster: spec.cluster, pipeId: '*' }),
    })
    const subjects = Object.keys(state.subjects ?? {})
    return new Map(subjects.map((subject) => [pipeIdOf({ cluster: spec.cluster, subject }), none]))
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const { connection, watch } = this.#parts
    void this.#sweeps?.close()
    await this.#appender.drain()
    this.#appender.close()
    this.#shares.close()
    watch.close()
    for (const port of this.#ports) port.close()
    // Lets the last announcements leave. Servers that do not respond are not waited for.
    const isDrained = await endsWithin(drainMs, connection.drain()).catch(() => false)
    if (!isDrained) await connection.close()
  }

  /** Settles claims of ended nodes, whose keys might never be requested again. */
  async #settleAbandoned(): Promise<void> {
    try {
      await this.#appender.settleKeyClaims(abandonedMs)
    } catch (err) {
      openLog(this.#parts.deps.log, 'buffer').warn({ err }, 'buffer.key_claims_not_settled')
    }
  }

  #appendRejected(): void {
    this.#rejectedAtMs = performance.now()
  }

  #unavailableReason(): BufferStatus['unavailableReason'] {
    const { watch, spec } = this.#parts
    const reason = this.#appender.unavailableReason
    if (reason !== null) return reason
    // The stream must have answered a request sent after the rejection; only that shows that appends are possible again.
    if (!watch.isAnswering || watch.answeredFromMs < this.#rejectedAtMs) return 'write_failed'
    const isFull =
      this.#appender.lastFailure === 'over_quota' && watch.room.freeBytes < spec.maxBytes * roomShare
    return isFull ? 'over_quota' : null
  }
}
