/** Bodies that cost far more than they weigh. */
import { gzipSync } from 'node:zlib'
import { bombs } from '../bombs.ts'
import type { Arena } from './arena.ts'

const MiB = 1024 * 1024
const repeated = (text: string, count: number) => Array(count).fill(text).join(',')

/** As many large bodies at once as fit, none of them remarkable. */
export async function floodBodies(arena: Arena): Promise<void> {
  const pipe = await arena.pipe()
  const body = `[${repeated(JSON.stringify({ pad: 'x'.repeat(2_000) }), 2_000)}]`
  await arena.repeat(6, async () => {
    await arena.ingest(pipe, body)
    arena.underWay()
    // They stay in the buffer for as long as the pipe is there.
    await arena.pause(arena.random(200))
  })
}

/** C3: five kilobytes become 1.7 million records, each with a long field of the server's own. */
export async function multiplyRecords(arena: Arena): Promise<void> {
  const pipe = await arena.pipe({ pipe_ingest_ts_field: '\u20ac'.repeat(100) })
  const body = gzipSync(`[${repeated('{}', 1_660_000)}]`)
  await arena.repeat(4, async () => {
    await arena.ingest(pipe, body, { 'content-encoding': 'gzip' })
    arena.underWay()
    await arena.pause(250)
  })
}

/** C4: a few bytes that decompress to ten megabytes, a crowd of them at once. */
export async function sendBombs(arena: Arena): Promise<void> {
  const pipe = await arena.pipe()
  await arena.repeat(32, async () => {
    const [encoding, body] = bombs[arena.random(bombs.length)]!
    await arena.ingest(pipe, body, { 'content-encoding': encoding })
    arena.underWay()
    await arena.pause(200)
  })
}

/** H5: what takes seconds to parse, compressed to some kilobytes. */
export async function sendCostlyJson(arena: Arena): Promise<void> {
  const pipe = await arena.pipe()
  const keys = (count: number, keyOf: (index: number) => string) =>
    Array.from({ length: count }, (_, index) => `"${keyOf(index)}":0`).join(',')
  const texts = [
    `{"a":[${repeated('[]', 3_400_000)}]}`,
    `{${keys(400_000, (index) => `${index * 7919}`)}}`,
    `{${keys(9_000, (index) => `k${index}`)},"ingest_ts":0}`,
    `[${repeated('{"ingest_ts":1,"a":[[],[],[]]}', 49_000)}]`,
    Array(1_000_000).fill('{}').join('\n'),
    '['.repeat(5 * MiB),
    '{"a":'.repeat(MiB),
    `{"a":${'9'.repeat(5 * MiB)}}`,
    `{"a":"${'\\u0000'.repeat(MiB)}"}`,
  ].map((text) => gzipSync(text))
  await arena.repeat(2, async () => {
    await arena.ingest(pipe, texts[arena.random(texts.length)]!, { 'content-encoding': 'gzip' })
    arena.underWay()
    await arena.pause(100)
  })
}

/** H6: one byte a chunk. */
export async function sendByteByByte(arena: Arena): Promise<void> {
  const pipe = await arena.pipe()
  const chunks = Buffer.from('1\r\nx\r\n'.repeat(200_000))
  await arena.repeat(1, async () => {
    const connection = await arena.connect(arena.target.dataUrl)
    if (connection === null) return
    connection.write(`${ingestHead(arena, pipe)}Transfer-Encoding: chunked\r\n\r\n`)
    connection.write(chunks)
    arena.note((await connection.answer()).status)
    connection.reset()
    arena.underWay()
    await arena.pause(200)
  })
}

/** H7: fills the buffer with what nobody will ever read. */
export async function fillBuffer(arena: Arena): Promise<void> {
  const pipe = await arena.pipe({ pipe_ingest_ts_field: '\u20ac'.repeat(100) })
  const body = gzipSync(`[${repeated('{}', 49_000)}]`)
  await arena.repeat(1, async () => {
    const { status } = await arena.ingest(pipe, body, { 'content-encoding': 'gzip' })
    if (status === 503) arena.underWay()
    await arena.pause(100)
  })
}

export function ingestHead(arena: Arena, pipeId: string): string {
  return (
    `POST /v1/ingest/${pipeId} HTTP/1.1\r\nHost: pipectl\r\nAuthorization: Bearer ${arena.target.apiKey}\r\n` +
    'Content-Type: application/json\r\n'
  )
}
