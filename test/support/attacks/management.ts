/** A key's holder at the management API. */
import { randomFault } from '../rogue/rogue-server.ts'
import type { Arena } from './arena.ts'
import { databaseAt, rogueKinds } from './destinations.ts'

const keyed = (count: number, value: unknown) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, value]))

/** L12: bodies in which everything is wrong. */
export async function sendWrongBodies(arena: Arena): Promise<void> {
  const pipe = await arena.pipe()
  const http = (config: object) => ({
    destination_type: 'destination_http_endpoint',
    destination_config: { url: 'http://127.0.0.1:9/', ...config },
  })
  const bodies: [path: string, body: string][] = (
    [
      [`/v1/pipes/${pipe}/destinations`, http({ headers: keyed(9_000, 1) })],
      [`/v1/pipes/${pipe}/destinations`, http({ headers: keyed(60_000, 'x') })],
      [`/v1/pipes/${pipe}/destinations`, { ...databaseAt(9), columns: Array(1_600).fill({ wrong: 1 }) }],
      ['/v1/pipes', keyed(15_000, 1)],
      ['/v1/pipes', { pipe_name: Array(340_000).fill([]) }],
      ['/v1/pipes', { pipe_name: 'x'.repeat(1_000_000) }],
    ] as [string, object][]
  ).map(([path, body]) => [path, JSON.stringify(body)])
  bodies.push(['/v1/pipes', '['.repeat(1_000_000)], ['/v1/pipes', '{"pipe_name":'.repeat(70_000)])
  await arena.repeat(1, async () => {
    const [path, body] = bodies[arena.random(bodies.length)]!
    await arena.send('POST', path, body)
    arena.underWay()
    await arena.pause(50)
  })
}

/** M7: keys by the hundred, made and revoked. */
export async function makeKeys(arena: Arena): Promise<void> {
  await arena.repeat(4, async () => {
    const { body } = await arena.send('POST', '/v1/api-keys', { api_key_name: `k${arena.random(2 ** 31)}` })
    arena.underWay()
    if (body.api_key_id !== undefined && arena.random(4) > 0)
      await arena.send('DELETE', `/v1/api-keys/${body.api_key_id}`)
    await arena.pause(10)
  })
}

/** Pipes with destinations and origins up to what a workspace may have. */
export async function makePipes(arena: Arena): Promise<void> {
  await arena.repeat(3, async () => {
    const pipe = await arena.pipe()
    await arena.destination(pipe, { destination_type: 'destination_pull', destination_config: {} })
    await arena.destination(pipe, {
      destination_type: 'destination_http_endpoint',
      destination_config: { url: 'http://127.0.0.1:9/' },
    })
    await arena.send('POST', `/v1/pipes/${pipe}/allowed-origins`, { origin_domain: 'https://a.example' })
    await arena.ingest(pipe, { a: 1 })
    arena.underWay()
  })
}

/** H2: servers that go silent in the middle, tried out, changed and deleted meanwhile. */
export async function testDestinations(arena: Arena): Promise<void> {
  const pipe = await arena.pipe()
  await arena.repeat(4, async () => {
    const kind = rogueKinds[arena.random(rogueKinds.length)]!
    const silent = arena.random(2) === 0
    const fault = silent ? () => {} : randomFault(arena.random)
    const rogue = await arena.rogue(kind.session, arena.random(kind.steps), fault, kind.tls)
    const fields = kind.destination(rogue.port)
    const tested = arena.send('POST', `/v1/pipes/${pipe}/destinations/test`, fields)
    const id = await arena.destination(pipe, fields)
    await arena.ingest(pipe, { v: 'x' })
    await arena.until(() => rogue.heard() !== '')
    arena.underWay()
    await arena.send('PATCH', `/v1/pipes/${pipe}/destinations/${id}`, { destination_max_retry_seconds: 5 })
    await arena.send('DELETE', `/v1/pipes/${pipe}/destinations/${id}`)
    if (silent) await rogue.stop()
    await tested
  })
}
