/**
 * One connection to a PostgreSQL server. It is dialed through the egress policy, with TLS by docs/dev/contract.md#database-tls.
 * Every wait ends with the caller's signal, which destroys the socket, because a half-open connection would never end.
 *
 *   socket ─(guarded: bytes counted)─ TLS ─(guarded, server admitted)─ message gate ─(whole, checked messages)─ pg client
 */
import { isIP, type Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import tls from 'node:tls'
import pg from 'pg'
import { type DatabaseSpec, DeliveryError, type DriverSettings } from '../driver.ts'
import { dial } from '../egress.ts'
import { filterData, guardSocket, protocolError, ReadLimit } from '../guards.ts'
import { aborted } from '../one-by-one.ts'
import { isCertainlyHost, tlsOptions, usesTls } from '../sql/certificates.ts'
import { isOwnHost } from '../sql/columns.ts'
import type { AdmitServer } from '../sql/server-key.ts'
import { tlsUnavailable } from './errors.ts'
import { MessageGate, wrongServer } from './message-gate.ts'

const connectTimeoutMs = 15_000
/** The server stops before the lane's watchdog (60 s): a late commit cannot overtake the next attempt. */
const statementTimeoutMs = 50_000

/** A wait for an earlier attempt that holds the lane's row is not a batch with too many records: it must not be halved. */
const lockTimeoutMs = 20_000

type DatabaseConfig = DatabaseSpec['config']
export type Row = Record<string, unknown>

export interface PostgresSession {
  /** Rejects with the pg client's own error, or the transient DeliveryError `aborted`. */
  run(signal: AbortSignal, text: string, values?: readonly unknown[]): Promise<Row[]>
  /**
   * Stores rows in text format with `text`, a COPY … FROM STDIN. Rejects like `run`, or with the error of `chunks`; nothing is
   * stored then. See `CopyIn`.
   */
  copy(signal: AbortSignal, text: string, chunks: Iterable<Buffer>): Promise<void>
  /** Restarts the count of the bytes that an attempt may read. */
  beginAttempt(): void
  /** The connection is closed; open another one. */
  isDead(): boolean
  destroy(): void
}

export async function openSession(
  config: DatabaseConfig,
  settings: DriverSettings,
  admit: AdmitServer,
  signal: AbortSignal,
): Promise<PostgresSession> {
  const deadline = AbortSignal.timeout(connectTimeoutMs)
  const stop = AbortSignal.any([signal, deadline])
  const reads = new ReadLimit()
  let socket: Socket | undefined
  try {
    const target = { host: config.host, port: config.port, database: config.database }
    socket = await dial(target, settings.egress, { signal: stop, reads })
    const isTls = usesTls(config, settings.databaseTls)
    if (isTls) {
      const raw = socket
      socket = await untilAborted(
        stop,
        () => admittedTls(raw, config, reads, admit),
        () => raw.destroy(),
      )
    }
    const allowsPasswordInClear =
      !isTls || isOwnHost(config.host) || isCertainlyHost(config) || settings.databasePasswordInClear === true
    const session = startSession(socket, config, reads, allowsPasswordInClear)
    await session.connect(stop)
    await session.run(stop, `SET statement_timeout = ${statementTimeoutMs}`)
    if (config.exactly_once) await session.run(stop, `SET lock_timeout = ${lockTimeoutMs}`)
    return session
  } catch (error) {
    socket?.destroy()
    if (signal.aborted) throw aborted()
    if (deadline.aborted) {
      const message = `The database server did not complete authentication within ${connectTimeoutMs / 1000} s.`
      throw new DeliveryError('transient', 'ETIMEDOUT', message, { cause: error })
    }
    throw reads.error ?? error
  }
}

/**
 * The socket is not read yet, so bytes that a server sends unasked wait. A server that has already closed the connection sends
 * nothing more.
 */
async function admittedTls(
  socket: Socket,
  config: DatabaseConfig,
  reads: ReadLimit,
  admit: AdmitServer,
): Promise<Socket> {
  const secure = await startTls(socket, config, reads)
  await admit(secure)
  if (secure.destroyed) throw lost()
  return secure
}

/**
 * The client's own negotiation accepts any reply that begins with S, including a MySQL greeting of 83 bytes.
 * docs/dev/contract.md#database-tls: the certificate is not verified here; `admit` does so if required.
 */
async function startTls(socket: Socket, config: DatabaseConfig, reads: ReadLimit): Promise<Socket> {
  const answer = firstChunk(socket)
  socket.write(sslRequest)
  const chunk = await answer
  const letter = chunk.length === 1 ? chunk.toString('latin1') : ''
  if (letter === 'N') throw tlsUnavailable()
  if (letter !== 'S')
    throw wrongServer(chunk) ?? protocolError('The database server did not respond to the request for TLS.')
  return new Promise((resolve, reject) => {
    const servername = isIP(config.host) === 0 ? { servername: config.host } : {}
    const options = { socket, ...tlsOptions(config), ...servername, checkServerIdentity: () => undefined }
    const secure = guardSocket(tls.connect(options), reads)
    secure.once('error', reject)
    secure.once('close', () => reject(lost()))
    secure.once('secureConnect', () => resolve(secure))
  })
}

/** Length 8, then the code of an SSLRequest. */
const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

function firstChunk(socket: Socket): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    socket.once('data', resolve)
    socket.once('error', reject)
    socket.once('close', () => reject(lost()))
  })
}

function startSession(
  socket: Socket,
  config: DatabaseConfig,
  reads: ReadLimit,
  allowsPasswordInClear: boolean,
) {
  let isDead = false
  const gate = new MessageGate(allowsPasswordInClear)
  filterData(socket, (chunk) => gate.accept(chunk))
  const client = new pg.Client({
    host: config.host,
    port: config.port,
    database: config.database,
    user: config.username,
    // A function, because for an empty string the client would read the environment and ~/.pgpass.
    password: () => config.password,
    stream: () => alreadyConnected(socket),
    ssl: false,
    // The few values that are read are texts and booleans, so that server data reaches no other parser.
    types: { getTypeParser: (oid: number) => (oid === booleanOid ? isTrue : asText) },
    application_name: 'pipectl',
    client_encoding: 'UTF8',
  })
  const destroy = () => {
    isDead = true
    socket.destroy()
  }
  client.on('error', destroy)
  client.on('end', destroy)
  const guarded = <T>(signal: AbortSignal, work: () => Promise<T>) =>
    untilAborted(signal, work, destroy).catch((error: unknown) => {
      throw reads.error ?? error
    })
  return {
    beginAttempt: () => reads.begin(),
    connect: (signal: AbortSignal) => guarded(signal, () => client.connect()),
    async run(signal: AbortSignal, text: string, values: readonly unknown[] = []): Promise<Row[]> {
      return (await guarded(signal, () => client.query(text, [...values]))).rows
    },
    async copy(signal: AbortSignal, text: string, chunks: Iterable<Buffer>): Promise<void> {
      await guarded(
        signal,
        () =>
          new Promise<void>((resolve, reject) => {
            client.query(new CopyIn(text, chunks, (error) => (error ? reject(error) : resolve())))
          }),
      )
    },
    isDead: () => isDead,
    destroy,
  }
}

/** The parts of the client's connection that send the data of a COPY. */
interface CopyConnection {
  stream: Writable
  sendCopyFail(reason: string): void
  endCopyFrom(): void
}

/**
 * A query that sends rows when the server asks for them, which it does once. Each chunk is a CopyData message whose first
 * `copyHeaderBytes` are free, and is no longer used when the next one is taken. The client's own `sendCopyFromChunk` would copy
 * each chunk into new memory, and V8 collects garbage after every few megabytes of that.
 */
export class CopyIn extends pg.Query {
  #chunks: Iterable<Buffer> | null
  readonly #end: { failure?: unknown; isOver: boolean }

  constructor(text: string, chunks: Iterable<Buffer>, done: (error: unknown) => void) {
    const end: { failure?: unknown; isOver: boolean } = { isOver: false }
    super({ text }, undefined, (error) => {
      end.isOver = true
      done(error && (end.failure ?? error))
    })
    this.#chunks = chunks
    this.#end = end
  }

  /** Called by the client. */
  handleCopyInResponse(connection: CopyConnection): void {
    const chunks = this.#chunks ?? []
    this.#chunks = null
    void this.#send(connection, chunks)
  }

  async #send(connection: CopyConnection, chunks: Iterable<Buffer>): Promise<void> {
    try {
      for (const chunk of chunks) {
        chunk[0] = copyData
        chunk.writeUInt32BE(chunk.length - 1, 1)
        // An error ends the connection, and with it this query.
        await new Promise((resolve) => connection.stream.write(chunk, resolve))
        // Other lanes get their turn.
        await setImmediate()
        if (this.#end.isOver) return
      }
      connection.endCopyFrom()
    } catch (error) {
      this.#end.failure = error
      connection.sendCopyFail('pipectl cannot send these rows by COPY')
    }
  }
}

const copyData = 'd'.charCodeAt(0)
/** The message's type and its length. */
export const copyHeaderBytes = 5

const booleanOid = 16
const asText = (value: string) => value
const isTrue = (value: string) => value === 't'

/** The client calls `connect` on the stream it is given and waits for the event. */
function alreadyConnected(socket: Socket): Socket {
  const connect = () => {
    process.nextTick(() => socket.emit('connect'))
    return socket
  }
  return Object.assign(socket, { connect })
}

function untilAborted<T>(signal: AbortSignal, work: () => Promise<T>, destroy: () => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      destroy()
      reject(aborted())
    }
    if (signal.aborted) return onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    work()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', onAbort))
  })
}

function lost(): Error {
  return Object.assign(new Error('the server closed the connection'), { code: 'ECONNRESET' })
}
