/** Buffers in JetStream for tests: servers of their own, and frames published by hand, as any node does it. */

import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { NatsConnection } from '@nats-io/transport-node'
import pg from 'pg'
import type { Test } from 'tap'
import { v4 } from 'uuid'
import { chainSubject, encodeHead, frameSubject, seqOf } from '../../../src/cluster/jetstream/frames.ts'
import { openJetStreamReader } from '../../../src/cluster/jetstream/reader.ts'
import type { BufferReader, NewMessage } from '../../../src/log/buffer.ts'
import type { JetStreamSpec } from '../../../src/log/buffer-spec.ts'
import { appendToFrame, openFrame } from '../../../src/log/frame.ts'
import type { KeyStore } from '../../../src/log/key-store.ts'
import { openLog } from '../../../src/platform/log.ts'
import { startClusterServer } from '../../support/cluster-database.ts'
import { startNats, type TestNats } from '../../support/nats.ts'
import { MiB, quiet } from './open.ts'

export const maxPayload = 16 * MiB

/** Ends with the test. */
export async function natsFor(t: Test, replicas: 1 | 3 = 1): Promise<TestNats> {
  const nats = await startNats({ replicas, maxPayload })
  t.teardown(() => nats.stop())
  await nats.ready()
  return nats
}

export interface TestKeys {
  /** Creates keys in a database of their own, with every call over another node's connections. */
  create(t: Test): Promise<{ keys: KeyStore; query(sql: string): Promise<Record<string, unknown>[]> }>
}

/** A PostgreSQL for the keys of clusters. Ends with the test. */
export async function keysFor(t: Test): Promise<TestKeys> {
  const server = await startClusterServer(t)
  return {
    async create(scope) {
      const database = await server.create(scope)
      const client = new pg.Client({ connectionString: database.url.replace('?sslmode=disable', '') })
      await client.connect()
      scope.teardown(() => client.end())
      return {
        keys: database.metadata.cluster!.keys,
        query: async (sql) => (await client.query(sql)).rows,
      }
    },
  }
}

/** Each is a cluster of its own on the same servers. */
export function jetStreamSpec(
  t: Test,
  nats: TestNats,
  overrides: Partial<JetStreamSpec> = {},
): JetStreamSpec {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'pipectl-jetstream-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  return {
    kind: 'jetstream',
    nats: {
      servers: nats.url.split(','),
      ...{ user: null, password: null, credentialsFile: null, caFile: null, name: 'test' },
    },
    cluster: `c${v4().slice(0, 8)}`,
    replicas: nats.servers.length,
    maxBytes: 1024 * MiB,
    undeliveredHours: 168,
    deliveredHours: 24,
    deliveredMaxBytes: 1024 * MiB,
    maxBodyBytes: 10 * MiB,
    quarantineDir: path.join(dir, 'quarantine'),
    ...overrides,
  }
}

export async function readerOf(
  t: Test,
  spec: JetStreamSpec,
  owns?: (pipeId: string) => boolean,
): Promise<BufferReader> {
  const reader = await openJetStreamReader(spec, openLog(quiet, 'test'), owns === undefined ? {} : { owns })
  t.teardown(() => reader.close())
  return reader
}

/** One frame of these messages, all of one pipe. Returns the seq of each. `change` damages its bytes. */
export async function publishFrame(
  connection: NatsConnection,
  spec: JetStreamSpec,
  messages: readonly NewMessage[],
  change: (frame: Buffer) => void = () => {},
): Promise<number[]> {
  const streamSeq = await publish(connection, spec, messages, change)
  return messages.map((_, index) => seqOf(streamSeq, index))
}

async function publish(
  connection: NatsConnection,
  { cluster }: JetStreamSpec,
  messages: readonly NewMessage[],
  change: (frame: Buffer) => void,
): Promise<number> {
  const first = messages[0]!
  const frame = openFrame(1024)
  for (const message of messages) appendToFrame(frame, message)
  const data = frame.buffer.subarray(0, frame.length)
  change(data)
  const times = messages.map(({ receivedMs }) => receivedMs)
  const headers = encodeHead({
    workspaceId: first.workspaceId ?? v4(),
    messages: messages.length,
    records: messages.reduce((sum, { recordCount }) => sum + recordCount, 0),
    bytes: messages.reduce((sum, { body }) => sum + body.length, 0),
    firstMs: Math.min(...times),
    lastMs: Math.max(...times),
  })
  const { pipeId, idempotency } = first
  const subject =
    idempotency === undefined
      ? frameSubject({ cluster, pipeId })
      : chainSubject({ cluster, pipeId, chain: 'by-hand' })
  const answer = await connection.request(subject, data, { headers, timeout: 10_000 })
  const { seq, error } = answer.json<{ seq: number; error?: { description: string } }>()
  if (error !== undefined) throw new Error(error.description)
  return seq
}
