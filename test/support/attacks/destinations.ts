/** Servers that destinations name. */
import { greeting, honestMysql, mysqlFaults } from '../rogue/mysql.ts'
import { honestPostgres, postgresFaults } from '../rogue/postgresql.ts'
import { commonFaults, endless, type Fault, type HonestSession, randomFault } from '../rogue/rogue-server.ts'
import type { Arena } from './arena.ts'

export interface RogueKind {
  session(): HonestSession
  /** Answers of one whole delivery. */
  steps: number
  faults: Record<string, Fault>
  /** Speaks TLS, at 127.0.0.2. */
  tls: boolean
  destination(port: number): { destination_type: string; destination_config: object }
}

export function databaseAt(port: number, config: object = {}) {
  return {
    destination_type: 'destination_database',
    destination_config: {
      ...{ host: '127.0.0.1', port, database: 'd', username: 'u', password: 'secret-word', table: 't' },
      ...config,
    },
  }
}

export function endpointAt(port: number, config: object = {}) {
  return {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `http://127.0.0.1:${port}/`, ...config },
  }
}

function bucketAt(port: number) {
  return {
    destination_type: 'destination_object_store',
    destination_config: {
      ...{ bucket: 'b', endpoint: `http://127.0.0.1:${port}`, access_key: 'a', secret_key: 's' },
    },
  }
}

/** Answers 200 to whatever comes, which is all that an endpoint and an object store have to do. */
export function honestHttp(): HonestSession {
  return {
    greeting: null,
    answer: () => [Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')],
    startsTls: (request) => ({ reply: Buffer.alloc(0), rest: request }),
  }
}

const httpHead = 'HTTP/1.1 500 No\r\n'
const httpFaults: Record<string, Fault> = {
  'a body without end': (socket) =>
    endless(socket, Buffer.from('HTTP/1.1 200 OK\r\n\r\n'), Buffer.alloc(65_536, 'x')),
  'headers without end': (socket) =>
    endless(socket, Buffer.from(httpHead), Buffer.from(`x: ${'y'.repeat(1_000)}\r\n`.repeat(60))),
  'a chunk of 2^60 bytes': (socket) =>
    void socket.write(`${httpHead}transfer-encoding: chunked\r\n\r\nfffffffffffffff\r\nx`),
  'an error of a megabyte': (socket) => {
    const text = `<Error><Code>\u001b[31m</Code><Message>${'x'.repeat(1_000_000)}</Message></Error>`
    socket.write(`${httpHead}content-length: ${text.length}\r\n\r\n${text}`)
  },
  'a body that never comes': (socket) => void socket.write(`${httpHead}content-length: 1000\r\n\r\n`),
}

const dialect = 'mysql'
const kinds: RogueKind[] = [
  { session: honestPostgres, steps: 4, faults: postgresFaults, tls: false, destination: databaseAt },
  {
    session: () => honestMysql(),
    steps: 15,
    faults: mysqlFaults,
    tls: false,
    destination: (port) => databaseAt(port, { dialect }),
  },
  {
    session: () => ({ ...honestMysql(), greeting: greeting(true) }),
    steps: 15,
    faults: mysqlFaults,
    tls: true,
    destination: (port) => databaseAt(port, { dialect, host: '127.0.0.2' }),
  },
  { session: honestHttp, steps: 1, faults: httpFaults, tls: false, destination: endpointAt },
  { session: honestHttp, steps: 1, faults: httpFaults, tls: false, destination: bucketAt },
]
export const rogueKinds: RogueKind[] = kinds.map((kind) => ({
  ...kind,
  faults: { ...commonFaults, ...kind.faults },
}))

/** C2, H8, M2: every protocol, every step, every fault that the tests of the drivers know, and random ones. */
export async function answerWrongly(arena: Arena): Promise<void> {
  await arena.repeat(4, async () => {
    const kind = rogueKinds[arena.random(rogueKinds.length)]!
    const names = Object.keys(kind.faults)
    const fault =
      arena.random(2) === 0 ? kind.faults[names[arena.random(names.length)]!]! : randomFault(arena.random)
    const rogue = await arena.rogue(kind.session, arena.random(kind.steps), fault, kind.tls)
    const pipe = await arena.pipe()
    await arena.destination(pipe, kind.destination(rogue.port))
    await arena.ingest(pipe, [{ v: 'x' }, { v: 1 }])
    await arena.until(() => rogue.heard() !== '' || rogue.open() > 0)
    arena.underWay()
    await arena.pause(200 + arena.random(1_000))
    await arena.send('DELETE', `/v1/pipes/${pipe}`)
    await rogue.stop()
  })
}

/** C2: the message without an end that hung the parser, and the authentication that ended the process. */
export async function hangPostgres(arena: Arena): Promise<void> {
  await pointLanesAt(arena, rogueKinds[0]!, ['an error without its end', 'an unknown type'], 0)
}

/** H8: answers without end. */
export async function answerEndlessly(arena: Arena): Promise<void> {
  await Promise.all(
    rogueKinds.map((kind) => {
      const pick = kind.session === honestHttp ? ['a body without end'] : ['sends letters without end']
      return pointLanesAt(arena, kind, pick, 0)
    }),
  )
}

/** M2: megabytes of text in each error, again with each attempt. */
export async function reportHugeErrors(arena: Arena): Promise<void> {
  const picks: [number, string][] = [
    [0, 'an error of 10 MB'],
    [1, 'an error of 10 MB'],
    [3, 'an error of a megabyte'],
    [4, 'an error of a megabyte'],
  ]
  await Promise.all(
    picks.map(([kind, name]) => pointLanesAt(arena, rogueKinds[kind]!, [name], kind < 2 ? 2 : 0)),
  )
}

async function pointLanesAt(arena: Arena, kind: RogueKind, faults: string[], step: number): Promise<void> {
  for (const name of faults) {
    const fault = kind.faults[name]
    if (fault === undefined) throw new Error(`no such fault: ${name}`)
    const rogue = await arena.rogue(kind.session, step, fault, kind.tls)
    const pipe = await arena.pipe()
    const ids = [
      await arena.destination(pipe, kind.destination(rogue.port)),
      await arena.destination(pipe, kind.destination(rogue.port)),
    ]
    await arena.ingest(pipe, { v: 'x' })
    await arena.until(() => rogue.heard() !== '')
    arena.underWay()
    void arena.repeat(1, async () => {
      for (const id of ids) await arena.send('POST', `/v1/pipes/${pipe}/destinations/${id}/retry-now`)
      await arena.pause(200)
    })
  }
  await arena.over()
}

/** H3: lanes that hold all the memory they can get, at an endpoint that never answers. */
export async function neverAnswer(arena: Arena): Promise<void> {
  const rogue = await arena.rogue(honestHttp, 0, () => {})
  const pipe = await arena.pipe()
  await Promise.all(
    Array.from({ length: 40 }, (_, lane) => {
      const format = lane % 2 === 0 ? 'json_object' : 'ndjson'
      return arena.destination(pipe, endpointAt(rogue.port, { timeout_ms: 60_000, body_format: format }))
    }),
  )
  const records = Array.from({ length: 40 }, () => ({ pad: 'x'.repeat(50_000) }))
  for (let message = 0; message < 10; message++) await arena.ingest(pipe, records)
  await arena.until(() => rogue.open() >= 4)
  arena.underWay()
  await arena.over()
}

/** H4: names that nobody answers for. */
export async function nameNobody(arena: Arena): Promise<void> {
  const pipe = await arena.pipe()
  await Promise.all(
    Array.from({ length: 40 }, (_, lane) =>
      arena.destination(pipe, {
        destination_type: 'destination_http_endpoint',
        destination_config: { url: `http://slow${lane}.test/` },
      }),
    ),
  )
  await arena.ingest(pipe, { a: 1 })
  arena.underWay()
  await arena.over()
}
