/**
 * Servers that misbehave on purpose, for the drivers' tests: in-process, on loopback, one for each behaviour.
 *
 *   honest server ── would answer step n with these bytes ──▶ the fault of this behaviour ──▶ what is sent
 *
 * An honest server of each protocol (postgresql.ts, mysql.ts, http.ts) carries a driver through a whole delivery, so
 * that a fault can be placed at any step.
 */

import net, { type AddressInfo } from 'node:net'
import tls from 'node:tls'
import { resetSocket } from '../reset-socket.ts'
import { selfSignedCertificate } from '../tls.ts'

/**
 * The state of an honest server for one connection: takes the client's bytes and returns the response to each
 * complete request.
 */
export interface HonestSession {
  /** Which step an answer is, where requests come on several connections; else a connection's answers are counted. */
  stepOf?(honest: Buffer): number
  /** Sent before the client has said anything. */
  greeting: Buffer | null
  /** The answers to what became whole with this chunk, in order. */
  answer(chunk: Buffer): Buffer[]
  /** The client asks for TLS: what is said to that in clear, and what the client has sent of TLS with it. */
  startsTls(request: Buffer): { reply: Buffer; rest: Buffer }
}

/** An honest answer: the connection is closed. */
export const goodbye = Buffer.alloc(0)

/** Sends something instead of the honest response; it owns the connection. `heard`: the client's bytes so far. */
export type Fault = (socket: net.Socket, honest: Buffer, heard: string) => void

export interface RogueServer {
  port: number
  /** The bytes that clients have sent, decrypted; the beginning of megabytes. */
  heard(): string
  /** Connections that are open now. */
  open(): number
  /** Another server takes its place: connections are closed, and new ones answered honestly. */
  heal(): void
  stop(): Promise<void>
}

const { key, certificate: cert } = selfSignedCertificate()
const pair = { key, cert }
/** Object stores are sent megabytes. */
const heardCharacters = 1024 * 1024

export const honestly: Fault = (socket, honest) => void socket.write(honest)

/** Answers honestly up to `step` (0: the first answer, the greeting where there is one), then with the fault. */
export async function startRogue(
  session: () => HonestSession,
  step: number,
  fault: Fault,
  { host = '127.0.0.1', tls: usesTls = false }: { host?: string; tls?: boolean } = {},
): Promise<RogueServer> {
  const sockets = new Set<net.Socket>()
  let heard = ''
  let isHealed = false
  const server = net.createServer((raw) => {
    sockets.add(raw)
    raw.on('error', () => {})
    raw.on('close', () => sockets.delete(raw))
    const { greeting, answer, startsTls, stepOf } = session()
    if (!usesTls) return serve(raw, greeting, answer, stepOf)
    if (greeting !== null) raw.write(greeting)
    raw.once('data', (request) => {
      const { reply, rest } = startsTls(request)
      if (reply.length > 0) raw.write(reply)
      raw.pause()
      if (rest.length > 0) raw.unshift(rest)
      const secure = new tls.TLSSocket(raw, { isServer: true, ...pair })
      secure.on('error', () => {})
      serve(secure, null, answer, stepOf)
    })
  })
  const serve = (
    socket: net.Socket,
    greeting: Buffer | null,
    answer: HonestSession['answer'],
    stepOf: HonestSession['stepOf'],
  ) => {
    let at = 0
    const say = (honest: Buffer) => {
      if (socket.destroyed || socket.writableEnded) return
      const current = stepOf?.(honest) ?? at
      at += 1
      if (honest === goodbye) socket.end()
      else if (isHealed) socket.write(honest)
      else if (current === step) fault(socket, honest, heard)
      else if (current < step || stepOf !== undefined) socket.write(honest)
    }
    if (greeting !== null) say(greeting)
    socket.on('data', (chunk) => {
      if (heard.length < heardCharacters) heard += chunk.toString('latin1')
      for (const honest of answer(chunk)) say(honest)
    })
  }
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  return {
    port: (server.address() as AddressInfo).port,
    heard: () => heard,
    open: () => sockets.size,
    heal() {
      isHealed = true
      for (const socket of sockets) socket.destroy()
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

/** Writes the chunk again and again, as fast as it is read, until the other side has had enough. */
export function endless(socket: net.Socket, first: Buffer, chunk: Buffer): void {
  socket.write(first)
  const pour = () => {
    while (!socket.destroyed && socket.write(chunk));
  }
  socket.on('drain', pour)
  pour()
}

/** Faults that any protocol can have. */
export const commonFaults: Record<string, Fault> = {
  'closes at once': (socket) => void socket.end(),
  'resets the connection': resetSocket,
  'is silent': () => {},
  'is cut after the first byte': (socket, honest) => void socket.end(honest.subarray(0, 1)),
  'is cut in the middle': (socket, honest) => void socket.end(honest.subarray(0, honest.length >> 1)),
  'is cut before the last byte': (socket, honest) => void socket.end(honest.subarray(0, -1)),
  'stops before the last byte and stays': (socket, honest) => void socket.write(honest.subarray(0, -1)),
  'sends zeros without end': (socket) => endless(socket, nothing, Buffer.alloc(65_536)),
  'sends letters without end': (socket) => endless(socket, nothing, Buffer.alloc(65_536, 'A')),
  'answers, then sends zeros without end': (socket, honest) => endless(socket, honest, Buffer.alloc(65_536)),
  'answers again and again without end': (socket, honest) =>
    endless(socket, honest, Buffer.concat(Array(Math.ceil(65_536 / (honest.length + 1))).fill(honest))),
  'speaks HTTP': (socket) => void socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 3\r\n\r\nno\n'),
  'speaks SSH': (socket) => void socket.write('SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n'),
  'speaks TLS': (socket) => void socket.write(Buffer.from('15030300020228', 'hex')),
}

const nothing = Buffer.alloc(0)

/** A small generator of numbers (mulberry32): the same seed gives the same faults. */
export function seeded(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** The honest answer with one to four random changes, then closed, silent or with garbage after it. */
export function randomFault(random: (below: number) => number): Fault {
  return (socket, honest) => {
    let bytes: Buffer = Buffer.from(honest)
    for (let left = 1 + random(4); left > 0; left--) bytes = changed(bytes, random)
    socket.write(bytes)
    const ending = random(4)
    if (ending === 0) socket.end()
    else if (ending === 1) resetSocket(socket)
    else if (ending === 2) socket.end(noise(random, random(400)))
  }
}

function changed(bytes: Buffer, random: (below: number) => number): Buffer {
  const at = random(bytes.length + 1)
  const to = Math.min(bytes.length, at + 1 + random(16))
  const splice = (middle: Buffer) => Buffer.concat([bytes.subarray(0, at), middle, bytes.subarray(to)])
  switch (random(8)) {
    case 0:
      return splice(noise(random, to - at))
    case 1:
      return splice(nothing)
    case 2:
      return Buffer.concat([bytes.subarray(0, to), noise(random, random(32)), bytes.subarray(to)])
    case 3:
      return bytes.subarray(0, at)
    case 4:
      return splice(Buffer.alloc(to - at, [0, 0xff, 0x7f, 0x80][random(4)]))
    case 5:
      return Buffer.concat([bytes, bytes.subarray(at)])
    case 6:
      return Buffer.concat([bytes.subarray(at), bytes.subarray(0, at)])
    default:
      return noise(random, bytes.length)
  }
}

function noise(random: (below: number) => number, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => random(256)))
}
