/**
 * One connection to a PostgreSQL server. Dialled through the egress policy, TLS by the spec's rule, every wait ends
 * with the caller's signal: the socket is destroyed then, because a half-open connection would hang for ever.
 */
import type { Socket } from 'node:net'
import pg from 'pg'
import type { DatabaseConfig } from '../../contract/destination.ts'
import { DeliveryError, type DriverSettings } from '../driver.ts'
import { dial } from '../egress.ts'
import { usesTls } from './columns.ts'

const connectTimeoutMs = 15_000
/** The server gives up before the lane's watchdog (60 s) does: a late commit cannot overtake the next attempt. */
const statementTimeoutMs = 50_000

export type Row = Record<string, unknown>

export interface PostgresSession {
  /** Rejects with the pg client's own error, or the transient DeliveryError `aborted`. */
  run(signal: AbortSignal, text: string, values?: readonly unknown[]): Promise<Row[]>
  /** The connection is gone; open another. */
  isDead(): boolean
  destroy(): void
}

export async function openSession(
  config: DatabaseConfig,
  settings: DriverSettings,
  signal: AbortSignal,
): Promise<PostgresSession> {
  const deadline = AbortSignal.timeout(connectTimeoutMs)
  const stop = AbortSignal.any([signal, deadline])
  const port = Number(config.port ?? 5432)
  let socket: Socket | undefined
  try {
    socket = await dial({ host: config.host, port }, settings.egress, { signal: stop })
    const session = startSession(socket, config, port, settings)
    await session.connect(stop)
    await session.run(stop, `SET statement_timeout = ${statementTimeoutMs}`)
    return session
  } catch (error) {
    socket?.destroy()
    if (signal.aborted) throw aborted()
    if (deadline.aborted) {
      const message = `The database server did not let us in within ${connectTimeoutMs / 1000} s.`
      throw new DeliveryError('transient', 'ETIMEDOUT', message, { cause: error })
    }
    throw error
  }
}

function startSession(socket: Socket, config: DatabaseConfig, port: number, settings: DriverSettings) {
  let isDead = false
  const client = new pg.Client({
    host: config.host,
    port,
    database: config.database,
    user: config.username,
    // A function, because an empty string would make the client look into the environment and ~/.pgpass.
    password: () => config.password,
    // Spec "Delivery rules": TLS without verification of the certificate.
    ssl: usesTls(config.host, settings.databaseTls) ? { rejectUnauthorized: false } : false,
    stream: () => alreadyConnected(socket),
    application_name: 'pipectl',
    client_encoding: 'UTF8',
  })
  const destroy = () => {
    isDead = true
    socket.destroy()
  }
  client.on('error', destroy)
  client.on('end', destroy)
  const guarded = <T>(signal: AbortSignal, work: () => Promise<T>) => untilAborted(signal, work, destroy)
  return {
    connect: (signal: AbortSignal) => guarded(signal, () => client.connect()),
    async run(signal: AbortSignal, text: string, values: readonly unknown[] = []): Promise<Row[]> {
      return (await guarded(signal, () => client.query(text, [...values]))).rows
    },
    isDead: () => isDead,
    destroy,
  }
}

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

function aborted(): DeliveryError {
  return new DeliveryError('transient', 'aborted', 'The attempt was ended before it was done.')
}
