/** Clients that send slowly, too much, in the wrong order, or do not read. */
import type { Arena } from './arena.ts'
import { ingestHead } from './bodies.ts'

/** M9: uploads that come in drops and never end. */
export async function uploadSlowly(arena: Arena): Promise<void> {
  const pipe = await arena.pipe()
  await arena.repeat(20, async () => {
    const connection = await arena.connect(arena.target.dataUrl)
    if (connection === null) return
    let isCut = false
    connection.closed.then(() => {
      isCut = true
    })
    connection.write(`${ingestHead(arena, pipe)}Content-Length: 9000000\r\n\r\n${' '.repeat(4_000_000)}`)
    arena.underWay()
    while (!arena.isOver && !isCut) {
      connection.write(' '.repeat(2_000))
      await arena.pause(100)
    }
  })
}

/** H1: connections that never say a word, and heads that never end. */
export async function crowd(arena: Arena): Promise<void> {
  const connections = await Promise.all(
    Array.from({ length: 400 }, (_, index) =>
      arena.connect(index % 2 === 0 ? arena.target.url : arena.target.dataUrl),
    ),
  )
  arena.underWay()
  await arena.repeat(1, async () => {
    for (const connection of connections) connection?.write('G')
    await arena.pause(200)
  })
}

/** M1: a request that can be read two ways, with another one in its body. */
export async function smuggle(arena: Arena): Promise<void> {
  const pipe = await arena.pipe()
  const inner =
    `POST /v1/api-keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${arena.target.apiKey}\r\n` +
    'Content-Type: application/json\r\nContent-Length: 24\r\n\r\n{"api_key_name":"inner"}'
  const paths = [`/v1/ingest/${pipe}`, '/v1/pipes', '/nope', '/v1/health']
  const framings = [
    'Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc',
    'Transfer-Encoding: xchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
    'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n',
    'Transfer-Encoding: chunked, identity\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
  ]
  await arena.repeat(4, async () => {
    const connection = await arena.connect(arena.target.dataUrl)
    if (connection === null) return
    const path = paths[arena.random(paths.length)]
    const framing = framings[arena.random(framings.length)]
    connection.write(`POST ${path} HTTP/1.1\r\nHost: x\r\n${framing}${inner}`)
    await connection.closed
    arena.note((await connection.answer()).status)
    arena.note((await connection.answer()).status)
    arena.underWay()
  })
}

/** Requests by the hundred without waiting for a response, and bytes that are none. */
export async function pipeline(arena: Arena): Promise<void> {
  const pipe = await arena.pipe()
  const one = `${ingestHead(arena, pipe)}Content-Length: 2\r\n\r\n{}`
  const noise = () => Buffer.from(Array.from({ length: 2_000 }, () => arena.random(256)))
  await arena.repeat(4, async () => {
    const connection = await arena.connect(arena.target.dataUrl)
    if (connection === null) return
    connection.write(arena.random(2) === 0 ? one.repeat(100) : noise())
    arena.note((await connection.answer()).status)
    connection.reset()
    arena.underWay()
  })
}

/** Keys that are none, as fast as they come. */
export async function guessKeys(arena: Arena): Promise<void> {
  await arena.repeat(24, async () => {
    const authorization = `Bearer ppl1_${arena.random(2 ** 31)}${'x'.repeat(arena.random(2_000))}`
    await arena.send('GET', '/v1/pipes', undefined, { authorization })
    arena.underWay()
  })
}

/** H9: pulls of a large message whose responses nobody reads. */
export async function leavePullsUnread(arena: Arena): Promise<void> {
  const pipe = await arena.pipe()
  const pull = await arena.destination(pipe, { destination_type: 'destination_pull', destination_config: {} })
  const pads = Array.from({ length: 90 }, () => ({ pad: 'x'.repeat(100_000) }))
  await arena.ingest(pipe, pads)
  await arena.repeat(32, async () => {
    const connection = await arena.connect(arena.target.dataUrl)
    if (connection === null) return
    connection.write(
      `GET /v1/pull/${pull}?wait_ms=0&after_seq=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${arena.target.apiKey}\r\n\r\n`,
    )
    await Promise.race([connection.stall(), connection.closed])
    arena.underWay()
    await arena.pause(3_000 + arena.random(3_000))
    connection.reset()
  })
}
