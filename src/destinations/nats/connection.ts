/**
 * One connection to one nats-server. This is a client of our own, because the official one (`@nats-io/nats-core` 3.4) cannot be
 * limited from a custom transport. Its transport is global to the thread and shared with a cluster's reconnecting connection,
 * so a destination could be dialed without the egress check. Its parser accepts lines of any length, at seconds of CPU per MiB,
 * and messages of 64 MB. Invalid input from the server ends its reading, but not the connection.
 *
 *   dial ── INFO ── TLS if either side requires it ── CONNECT, PING ── PONG ─▶ open: publications and their replies
 *     └───────┴─────────────────┴───────── 10 s ────────────┴── -ERR, end, invalid input, silence ─▶ closed: everything in
 *                                                               progress fails, and the next attempt connects again
 *
 * Replies arrive at `_INBOX.<random>.<number>`, which other clients cannot guess.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type net from 'node:net'
import tls from 'node:tls'
import { version } from '../../platform/version.ts'
import { DeliveryError, type DriverSettings, type NatsSpec } from '../driver.ts'
import { dial } from '../egress.ts'
import { guardSocket, protocolError, type ReadLimit } from '../guards.ts'
import { networkError } from '../network-error.ts'
import { aborted } from '../one-by-one.ts'
import { tlsMaterial } from '../tls-config.ts'
import { connectLimitMs, type NatsAddress, parseCredentials } from './addresses.ts'
import { notAcknowledged, permanent, serverError } from './errors.ts'
import { publishHead, type ServerInfo, ServerReader, type ServerSaid } from './wire.ts'

type NatsConfig = NatsSpec['config']

/** A server and the settings for a connection to it. */
export interface NatsTarget {
  address: NatsAddress
  config: NatsConfig
  reads: ReadLimit
}

export interface Answer {
  /** 503: there are no subscribers. */
  status: number | null
  payload: Buffer
}

interface Waiting {
  resolve(answer: Answer): void
  reject(error: DeliveryError): void
  timer: NodeJS.Timeout
}

const subject = 'The NATS server'
/** Above this a PING gets no PONG: the server does not read what it asks for. */
const maxUnsentBytes = 64 * 1024

/** Rejects with a DeliveryError; the socket is closed then. */
export async function connectNats(
  target: NatsTarget,
  settings: DriverSettings,
  signal: AbortSignal,
): Promise<NatsLink> {
  const deadline = AbortSignal.timeout(connectLimitMs)
  const stop = AbortSignal.any([signal, deadline])
  let socket: net.Socket | undefined
  try {
    const { reads } = target
    const { host, port } = target.address
    socket = await dial({ host, port }, settings.egress, { reads, signal: stop, timeoutMs: connectLimitMs })
    return await openLink(socket, target, stop)
  } catch (error) {
    socket?.destroy()
    if (signal.aborted) throw aborted()
    if (target.reads.error) throw target.reads.error
    if (deadline.aborted)
      throw new DeliveryError(
        'transient',
        'timeout',
        `${subject} did not complete the log-in within ${connectLimitMs / 1000} s.`,
      )
    throw networkError(error, subject)
  }
}

async function openLink(raw: net.Socket, target: NatsTarget, stop: AbortSignal): Promise<NatsLink> {
  const { address, config } = target
  const reader = new ServerReader()
  const info = await infoOf(raw, reader, stop)
  if (!info.takesHeaders)
    throw permanent(
      'no_headers',
      'The NATS server does not support headers: it must be version 2.2 or later, with JetStream.',
    )
  if (address.isTls && !info.offersTls)
    throw permanent('no_tls', 'The NATS server offers no TLS, and tls:// requires it.')
  const isTls = address.isTls || info.needsTls
  // Plain-text bytes after INFO would be taken for bytes received over TLS.
  if (isTls && !reader.isEmpty) throw protocolError('The server sent more than its greeting before TLS.')
  const socket = isTls ? await secured(raw, target, stop) : raw
  const link = new NatsLink(socket, reader, info)
  try {
    await link.enter(await connectMessage(config, info, isTls), stop)
    return link
  } catch (error) {
    link.close()
    throw error
  }
}

/** The server's first line. Nothing else is allowed before CONNECT. */
function infoOf(socket: net.Socket, reader: ServerReader, stop: AbortSignal): Promise<ServerInfo> {
  return untilSettled(socket, stop, (resolve) => (chunk) => {
    for (const said of reader.read(chunk)) {
      if (said.kind === 'error') throw serverError(said.text)
      if (said.kind !== 'info')
        throw protocolError('The server did not send the greeting of NATS: check host and port.')
      socket.pause()
      // The bytes after it in this chunk stay in the reader.
      return resolve(said.info)
    }
  })
}

async function secured(
  raw: net.Socket,
  { address: { host }, config, reads }: NatsTarget,
  stop: AbortSignal,
): Promise<tls.TLSSocket> {
  const options: tls.ConnectionOptions = {
    socket: raw,
    host,
    rejectUnauthorized: config.tls_verify,
    ...(/^[\d.]+$|:/.test(host) ? {} : { servername: host }),
    ...tlsMaterial(config),
  }
  const socket = guardSocket(connectTls(options), reads)
  try {
    await once(socket, 'secureConnect', { signal: stop })
  } catch (error) {
    socket.destroy()
    throw error
  }
  return socket
}

/** An OpenSSL error about a readable text, such as a key that is too short, is the config's fault. */
function connectTls(options: tls.ConnectionOptions): tls.TLSSocket {
  try {
    return tls.connect(options)
  } catch (cause) {
    const message = 'tls_cert, tls_key or tls_ca cannot be used for TLS.'
    throw new DeliveryError('permanent', 'tls_config', message, { cause })
  }
}

async function connectMessage(config: NatsConfig, { nonce }: ServerInfo, isTls: boolean): Promise<Buffer> {
  const options = {
    verbose: false,
    pedantic: false,
    tls_required: isTls,
    name: 'pipectl',
    lang: 'pipectl',
    version: version(),
    protocol: 1,
    headers: true,
    no_responders: true,
    echo: true,
    ...(await signIn(config, nonce)),
  }
  return Buffer.from(`CONNECT ${JSON.stringify(options)}\r\nPING\r\n`)
}

async function signIn(config: NatsConfig, nonce: string | undefined): Promise<object> {
  const { username, password, token, nkey_seed, credentials } = config
  if (username !== null) return { user: username, pass: password ?? '' }
  if (token !== null) return { auth_token: token }
  if (nkey_seed === null && credentials === null) return {}
  const { jwtAuthenticator, nkeyAuthenticator } = await import('@nats-io/transport-node')
  try {
    if (nkey_seed !== null) return signed(nkeyAuthenticator(Buffer.from(nkey_seed))(nonce))
    const { jwt = '', seed = '' } = parseCredentials(credentials ?? '') ?? {}
    return signed(jwtAuthenticator(jwt, Buffer.from(seed))(nonce))
  } catch (cause) {
    const key = nkey_seed === null ? 'credentials' : 'nkey_seed'
    throw new DeliveryError(
      'permanent',
      'bad_seed',
      `The seed in ${key} is not valid: one of its characters is wrong.`,
      { cause },
    )
  }
}

/** The members of the CONNECT message. */
function signed(auth: unknown): object {
  const { nkey, sig, jwt } = Object(auth)
  return { nkey, sig, jwt }
}

/** Created and entered by `connectNats`. */
export class NatsLink {
  readonly info: ServerInfo
  readonly #socket: net.Socket
  readonly #reader: ServerReader
  readonly #inbox = `_INBOX.${randomBytes(16).toString('hex')}`
  readonly #waiting = new Map<string, Waiting>()
  #lastNumber = 0
  #error: DeliveryError | null = null
  #isLeaving = false
  #onPong: (() => void) | null = null
  #onOver: ((error: DeliveryError) => void) | null = null

  constructor(socket: net.Socket, reader: ServerReader, info: ServerInfo) {
    this.#socket = socket
    this.#reader = reader
    this.info = info
  }

  /** False: the connection is closed, or the server has announced that it is shutting down. */
  get isUsable(): boolean {
    return this.#error === null && !this.#isLeaving
  }

  /** Resolves once the server has accepted the log-in. */
  enter(connectMessage: Buffer, stop: AbortSignal): Promise<void> {
    const socket = this.#socket
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.on('error', (error) => this.#fail(networkError(error, subject)))
    socket.on('close', () => this.#fail(networkError(closed(), subject)))
    return new Promise((resolve, reject) => {
      const settle = (error?: unknown) => {
        stop.removeEventListener('abort', onStop)
        this.#onPong = null
        this.#onOver = null
        if (error === undefined) resolve()
        else reject(error)
      }
      const onStop = () => settle(stop.reason)
      stop.addEventListener('abort', onStop, { once: true })
      this.#onPong = () => settle()
      this.#onOver = settle
      if (stop.aborted) return onStop()
      // Handles bytes that arrived with the greeting, such as the error "maximum connections exceeded".
      this.#read(Buffer.alloc(0))
      socket.write(connectMessage)
      socket.write(`SUB ${this.#inbox}.* 1\r\n`)
      socket.resume()
    })
  }

  /** Publishes synchronously. Rejects with a DeliveryError; after a timeout the connection is closed. */
  request(
    to: string,
    headers: readonly (readonly [string, string])[],
    payload: Buffer,
    timeoutMs: number,
  ): Promise<Answer> {
    if (this.#error !== null) return Promise.reject(this.#error)
    this.#lastNumber += 1
    const number = String(this.#lastNumber)
    const replyTo = `${this.#inbox}.${number}`
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#fail(notAcknowledged(timeoutMs)), timeoutMs)
      this.#waiting.set(number, { resolve, reject, timer })
      this.#socket.cork()
      this.#socket.write(publishHead({ subject: to, replyTo, headers, payload }))
      this.#socket.write(payload)
      this.#socket.write('\r\n')
      this.#socket.uncork()
    })
  }

  /** Rejects everything in progress with the error. */
  close(error: DeliveryError = aborted()): void {
    this.#fail(error)
  }

  #read(chunk: Buffer): void {
    try {
      let isAsked = false
      for (const said of this.#reader.read(chunk)) {
        if (said.kind === 'ping') isAsked = true
        else this.#hear(said)
        if (this.#error !== null) return
      }
      if (isAsked) this.#pong()
    } catch (error) {
      this.#fail(networkError(error, subject))
    }
  }

  #hear(said: Exclude<ServerSaid, { kind: 'ping' }>): void {
    if (said.kind === 'pong') this.#onPong?.()
    else if (said.kind === 'info') this.#isLeaving ||= said.info.isLeaving
    else if (said.kind === 'error') this.#fail(serverError(said.text))
    else this.#answered(said)
  }

  #answered({ subject: to, status, payload }: Extract<ServerSaid, { kind: 'message' }>): void {
    const number = to.startsWith(`${this.#inbox}.`) ? to.slice(this.#inbox.length + 1) : ''
    const waiting = this.#waiting.get(number)
    if (waiting === undefined) return
    this.#waiting.delete(number)
    clearTimeout(waiting.timer)
    waiting.resolve({ status, payload })
  }

  /** Sends one PONG for all PINGs in a chunk, and none to a server that does not read. */
  #pong(): void {
    if (this.#socket.writableLength <= maxUnsentBytes) this.#socket.write('PONG\r\n')
  }

  #fail(error: DeliveryError): void {
    if (this.#error !== null) return
    this.#error = error
    this.#socket.destroy()
    this.#onOver?.(error)
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer)
      reject(error)
    }
    this.#waiting.clear()
  }
}

/**
 * Passes the bytes that are read to `reading(resolve)` until it resolves or throws, the socket ends, or the attempt is aborted.
 */
function untilSettled<T>(
  socket: net.Socket,
  stop: AbortSignal,
  reading: (resolve: (value: T) => void) => (chunk: Buffer) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const settle = () => {
      stop.removeEventListener('abort', onStop)
      socket.off('data', onData).off('error', onError).off('close', onClose)
    }
    const fail = (error: unknown) => {
      settle()
      reject(error)
    }
    const onStop = () => fail(stop.reason)
    const onError = (error: Error) => fail(error)
    const onClose = () => fail(closed())
    const read = reading((value) => {
      settle()
      resolve(value)
    })
    const onData = (chunk: Buffer) => {
      try {
        read(chunk)
      } catch (error) {
        fail(error)
      }
    }
    stop.addEventListener('abort', onStop, { once: true })
    socket.on('data', onData).on('error', onError).on('close', onClose)
    if (stop.aborted) onStop()
  })
}

function closed(): Error {
  return Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' })
}
