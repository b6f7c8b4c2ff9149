/**
 * Opens the buffer that a spec describes. Callers pass the spec on, to other threads as well, and do not depend on the
 * kind of buffer. Each function here has one line per kind.
 */
import { receiveMessageOnPort } from 'node:worker_threads'
import type { StreamContact } from '../cluster/jetstream/contact.ts'
import type { AppendingThreadSpec } from '../cluster/jetstream/protocol.ts'
import type {
  Appender,
  AppenderPort,
  BufferFeed,
  BufferReader,
  MessageLookup,
  OpenBuffer,
} from '../log/buffer.ts'
import type { BufferSpec } from '../log/buffer-spec.ts'
import type { Attempt, KeyStore } from '../log/key-store.ts'
import {
  offsetAppender,
  offsetBuffer,
  offsetFeed,
  offsetLookup,
  offsetReader,
  seqBaseOf,
  withoutBase,
} from '../log/offset.ts'
import { leaveBallast, releaseBallastWhenFull } from '../log/segments/disk-guard.ts'
import { MessageSearch } from '../log/segments/message-search.ts'
import * as segments from '../log/segments/open-buffer.ts'
import { openSegmentFeed, openSegmentReader } from '../log/segments/reader.ts'
import type { Logger, LogSettings } from '../platform/log.ts'

export interface BufferWriterDeps {
  log: LogSettings
  /** For a node of a cluster: the time until which it may accept requests, see ClusterNode. */
  liveness?: SharedArrayBuffer | null
  /** In a cluster: the store of its idempotency keys. On one machine the buffer stores them itself. */
  keys?: KeyStore | null
  /**
   * The writer has died. Nothing more is appended, and the outcome of unsettled appends is unknown. The process must
   * end.
   */
  onFatal(error: Error): void
}

export interface BufferReaderOptions {
  /**
   * In a cluster: true for pipes that this process delivers, whose totals this reader maintains. Without it the reader
   * maintains none.
   */
  owns?(pipeId: string): boolean
}

/** Opens the buffer for writing, once per spec. Rejects if it cannot be opened. */
export async function openBuffer(spec: BufferSpec, deps: BufferWriterDeps): Promise<OpenBuffer> {
  if (spec.kind === 'segments') return await segments.openSegmentBuffer(spec, deps)
  // A single machine loads none of the code for a cluster.
  const { openJetStreamBuffer } = await import('../cluster/jetstream/open-buffer.ts')
  return offsetBuffer(await openJetStreamBuffer(withoutBase(spec), deps), seqBaseOf(spec))
}

/** Runs in the thread that received the port of `OpenBuffer.shareAppender`. */
export async function openPortAppender(port: AppenderPort): Promise<Appender> {
  // The first message names the kind of buffer. It is sent before the port.
  const first: AppendingThreadSpec | { kind: 'segments' } | undefined = receiveMessageOnPort(port)?.message
  if (first?.kind !== 'jetstream') return segments.openPortAppender(port)
  const { openJetStreamPortAppender } = await import('../cluster/jetstream/port-appender.ts')
  return offsetAppender(await openJetStreamPortAppender(port, first), seqBaseOf(first.spec))
}

/** Opens the buffer for reading, in any thread, after it was opened for writing. */
export async function openBufferReader(
  spec: BufferSpec,
  log: Logger,
  options: BufferReaderOptions = {},
): Promise<BufferReader> {
  if (spec.kind === 'segments') return openSegmentReader(spec, log)
  const { openJetStreamReader } = await import('../cluster/jetstream/reader.ts')
  return offsetReader(await openJetStreamReader(withoutBase(spec), log, options), seqBaseOf(spec))
}

/** Runs in any thread, after the buffer was opened for writing. */
export async function openMessageLookup(spec: BufferSpec): Promise<MessageLookup> {
  if (spec.kind === 'segments') return new MessageSearch(spec.dir)
  const { openJetStreamLookup } = await import('../cluster/jetstream/lookup.ts')
  return offsetLookup(await openJetStreamLookup(withoutBase(spec)), seqBaseOf(spec))
}

/** Null on one machine, where the buffer is on the local disk. */
export async function openBufferContact(spec: BufferSpec): Promise<StreamContact | null> {
  if (spec.kind === 'segments') return null
  const { openStreamContact } = await import('../cluster/jetstream/contact.ts')
  return await openStreamContact(spec)
}

/** The dependencies with which a feed keeps the buffer within its limits. */
export interface BufferKeeperDeps {
  reader: BufferReader
  log: Logger
  /** In a cluster: the epoch under which this process currently owns the pipe; null: it does not own it. */
  owned?(pipeId: string): number | null
  /** In a cluster: the attempts at idempotency keys that are in progress. */
  keyAttempts?(): Promise<readonly Attempt[]>
}

/** `keeper`: only in the thread whose lanes report low watermarks. Without it nothing is dropped. */
export async function openBufferFeed(spec: BufferSpec, keeper?: BufferKeeperDeps): Promise<BufferFeed> {
  if (spec.kind === 'segments') return openSegmentFeed(spec)
  const { openJetStreamFeed } = await import('../cluster/jetstream/feed.ts')
  const base = seqBaseOf(spec)
  const own = withoutBase(spec)
  if (keeper === undefined) return offsetFeed(await openJetStreamFeed(own), base)
  const { openRetentionKeeper } = await import('../cluster/jetstream/retention.ts')
  // The retention keeper works without the base, so this removes the base that this file added to the reader.
  const reader = offsetReader(keeper.reader, -base)
  const retention = await openRetentionKeeper(own, reader, keeper.log, keeper)
  return offsetFeed(await openJetStreamFeed(own, retention), base)
}

/**
 * Frees the space that opening needs if the disk is full. Call it before anything else in the data directory is opened.
 */
export function makeRoomToOpen(spec: BufferSpec): void {
  if (spec.kind === 'segments') releaseBallastWhenFull(spec.dir)
}

/** Reserves the remaining space for the next start if the disk is full. Call it when everything is closed. */
export function keepRoomToOpen(spec: BufferSpec): void {
  if (spec.kind === 'segments') leaveBallast(spec.dir)
}

/** The location of the buffer, for messages. */
export function bufferPlace(spec: BufferSpec): string {
  return spec.kind === 'segments' ? spec.dir : spec.nats.servers.join(', ')
}
