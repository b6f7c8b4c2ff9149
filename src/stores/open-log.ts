/**
 * Opens the buffer that a spec describes. Callers pass the spec around, also to other threads, and know nothing of
 * what kind it is; each kind has one line per function here.
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
import { openSegmentFeed } from '../log/segments/feed.ts'
import { MessageSearch } from '../log/segments/message-search.ts'
import * as segments from '../log/segments/open-buffer.ts'
import { openSegmentReader } from '../log/segments/reader.ts'
import type { Logger, LogSettings } from '../platform/log.ts'

export interface BufferWriterDeps {
  log: LogSettings
  /** For a node of a cluster: until when it may accept, see ClusterNode. */
  liveness?: SharedArrayBuffer | null
  /** In a cluster: its idempotency keys. On one machine the buffer keeps them itself. */
  keys?: KeyStore | null
  /**
   * The writer has died: nothing is appended any more, and what was not settled may or may not be kept. The process
   * must end.
   */
  onFatal(error: Error): void
}

export interface BufferReaderOptions {
  /** The pipes that this process delivers, in a cluster: their totals are this reader's to keep. Without it none are. */
  owns?(pipeId: string): boolean
}

/** Opens it for writing; once per spec. Rejects when it cannot be opened. */
export async function openBuffer(spec: BufferSpec, deps: BufferWriterDeps): Promise<OpenBuffer> {
  if (spec.kind === 'segments') return await segments.openSegmentBuffer(spec, deps)
  // A single machine loads none of the code for a cluster.
  const { openJetStreamBuffer } = await import('../cluster/jetstream/open-buffer.ts')
  return offsetBuffer(await openJetStreamBuffer(withoutBase(spec), deps), seqBaseOf(spec))
}

/** In the thread that the port of `OpenBuffer.shareAppender` was transferred to. */
export async function openPortAppender(port: AppenderPort): Promise<Appender> {
  // The kind of the buffer is told first; it is there before the port is.
  const first: AppendingThreadSpec | { kind: 'segments' } | undefined = receiveMessageOnPort(port)?.message
  if (first?.kind !== 'jetstream') return segments.openPortAppender(port)
  const { openJetStreamPortAppender } = await import('../cluster/jetstream/port-appender.ts')
  return offsetAppender(await openJetStreamPortAppender(port, first), seqBaseOf(first.spec))
}

/** For reading, in any thread, once it has been opened for writing. */
export async function openBufferReader(
  spec: BufferSpec,
  log: Logger,
  options: BufferReaderOptions = {},
): Promise<BufferReader> {
  if (spec.kind === 'segments') return openSegmentReader(spec, log)
  const { openJetStreamReader } = await import('../cluster/jetstream/reader.ts')
  return offsetReader(await openJetStreamReader(withoutBase(spec), log, options), seqBaseOf(spec))
}

/** In any thread, once it has been opened for writing. */
export async function openMessageLookup(spec: BufferSpec): Promise<MessageLookup> {
  if (spec.kind === 'segments') return new MessageSearch(spec.dir)
  const { openJetStreamLookup } = await import('../cluster/jetstream/lookup.ts')
  return offsetLookup(await openJetStreamLookup(withoutBase(spec)), seqBaseOf(spec))
}

/** Null on one machine: there the disk is the buffer. */
export async function openBufferContact(spec: BufferSpec): Promise<StreamContact | null> {
  if (spec.kind === 'segments') return null
  const { openStreamContact } = await import('../cluster/jetstream/contact.ts')
  return await openStreamContact(spec)
}

/** The dependencies with which a feed keeps the buffer within its limits. */
export interface BufferKeeperDeps {
  reader: BufferReader
  log: Logger
  /** In a cluster: the epoch under which this process owns the pipe now; null: it does not. */
  owned?(pipeId: string): number | null
  /** In a cluster: of the idempotency keys that are under way. */
  keyAttempts?(): Promise<readonly Attempt[]>
}

/** `keeper`: of the thread whose lanes report low watermarks; elsewhere nothing is dropped. */
export async function openBufferFeed(spec: BufferSpec, keeper?: BufferKeeperDeps): Promise<BufferFeed> {
  if (spec.kind === 'segments') return openSegmentFeed(spec)
  const { openJetStreamFeed } = await import('../cluster/jetstream/feed.ts')
  const base = seqBaseOf(spec)
  const own = withoutBase(spec)
  if (keeper === undefined) return offsetFeed(await openJetStreamFeed(own), base)
  const { openRetentionKeeper } = await import('../cluster/jetstream/retention.ts')
  // It reads with the reader that this file opened: the base of that reader is taken off again.
  const reader = offsetReader(keeper.reader, -base)
  const retention = await openRetentionKeeper(own, reader, keeper.log, keeper)
  return offsetFeed(await openJetStreamFeed(own, retention), base)
}

/** Before anything else of the data directory is opened: on a full disk, makes the room that opening needs. */
export function makeRoomToOpen(spec: BufferSpec): void {
  if (spec.kind === 'segments') releaseBallastWhenFull(spec.dir)
}

/** When everything is closed: on a full disk, holds what room is left for the next opening. */
export function keepRoomToOpen(spec: BufferSpec): void {
  if (spec.kind === 'segments') leaveBallast(spec.dir)
}

/** For messages: where it is. */
export function bufferPlace(spec: BufferSpec): string {
  return spec.kind === 'segments' ? spec.dir : spec.nats.servers.join(', ')
}
